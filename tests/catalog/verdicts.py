"""Was a mistake reported correctly? The ranks, lines and words that its message must have, and those that it lacks."""

import re
from collections.abc import Sequence

from ddp_lessons import Results, WorkerFailed, WorkersStuck

from .mistakes import Ending, Mistake

Failure = WorkersStuck | WorkerFailed

_LINE_OF_A_RANK = re.compile(r" +rank \d+   ")
_RANKS = re.compile(r"\branks? \d+(?:(?:, | and | to )\d+)*|\b\d+ for \d+\b", re.IGNORECASE)
_NUMBERS = re.compile(r"(\d+)(?: to (\d+))?")
_EVERYBODY = re.compile(r"\b(both|all \d+) ranks\b", re.IGNORECASE)
_KINDS: dict[Ending, tuple[type[Failure], ...]] = {
    "stuck": (WorkersStuck,),
    "failed": (WorkerFailed,),
    "either": (WorkersStuck, WorkerFailed),
}


def missing(mistake: Mistake, world_size: int, ended: Failure | Results[object]) -> list[str]:
    """What the exception lacks (or the output, if torch only warns of the mistake). Empty if nothing is missing."""
    if isinstance(ended, Results):
        return _missing_in_output(mistake, world_size, ended)
    kinds = _KINDS.get(mistake.ends, ())
    if not isinstance(ended, kinds):
        return [f"ended with {type(ended).__name__}"]
    message = str(ended)
    if "did not return within" in message:
        return ["found only by the timeout"]
    return [*([] if ended.key == mistake.key else [f"key {ended.key}"]), *missing_in(message, mistake, world_size)]


def missing_in(message: str, mistake: Mistake, world_size: int) -> list[str]:
    sentences = "\n".join(line for line in message.splitlines() if not _LINE_OF_A_RANK.match(line))
    named = ranks_named_in(sentences, world_size)
    return [
        *(f"rank {rank}" for rank in mistake.ranks(world_size) if rank not in named),
        *(place for place in mistake.places().values() if not re.search(rf"\b{place}\b", message)),
        *(f'"{word}"' for word in mistake.words if word.lower() not in sentences.lower()),
    ]


def ranks_named_in(text: str, world_size: int) -> set[int]:
    """As in "rank 1", "ranks 0, 2 and 3", "ranks 1 to 7", "0 for 1", "all 4 ranks"."""
    if _EVERYBODY.search(text):
        return set(range(world_size))
    named: set[int] = set()
    for found in _RANKS.finditer(text):
        for first, last in _NUMBERS.findall(found[0]):
            named |= set(range(int(first), int(last or first) + 1))
    return named


def _missing_in_output(mistake: Mistake, world_size: int, results: Results[object]) -> list[str]:
    if mistake.ends != "warned":
        return [f"ended well, with {list(results)}"]
    return [
        f'"{word}" by rank {rank}'
        for rank in mistake.ranks(world_size)
        for word in mistake.words
        if not _is_said(word, results.lines[rank])
    ]


def _is_said(word: str, lines: Sequence[str]) -> bool:
    return any(word in line for line in lines)


def is_shown(place: str, text: str) -> bool:
    """Whether a message of ours ("groups.py line 5") or a traceback contains it."""
    file, _, line = place.partition(" line ")
    return re.search(rf'{re.escape(file)}"?,? line {line}\b', text) is not None


def squeezed(name: str) -> str:
    return name.replace("_", "").lower()
