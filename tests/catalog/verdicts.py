"""Was a mistake reported correctly? The ranks, lines and words that its message must have, and those that it lacks."""

import re

from ddp_lessons import Results, WorkerFailed, WorkersStuck

from .declared import Ending, Mistake

Failure = WorkersStuck | WorkerFailed

_LINE_OF_A_RANK = re.compile(r" +rank \d+   ")
_RANKS = re.compile(r"\branks? \d+(?:(?:, | and | to )\d+)*|\b\d+ for \d+\b", re.IGNORECASE)
_NUMBERS = re.compile(r"(\d+)(?: to (\d+))?")
_EVERYBODY = re.compile(r"\b(both|all \d+) ranks\b", re.IGNORECASE)
_KINDS: dict[Ending, type[Failure] | tuple[type[Failure], ...]] = {
    "stuck": WorkersStuck,
    "failed": WorkerFailed,
    "either": (WorkersStuck, WorkerFailed),
    "warned": (),
}


def missing(mistake: Mistake, world_size: int, ended: Failure | Results[object]) -> list[str]:
    """What the exception lacks (or the output, if torch only warns of the mistake). Empty if nothing is missing."""
    if isinstance(ended, Results):
        if mistake.ends != "warned":
            return [f"ended well, with {list(ended)}"]
        said = {rank: "\n".join(ended.lines[rank]) for rank in mistake.ranks(world_size)}
        return [f'"{word}" by rank {rank}' for rank in said for word in mistake.words if word not in said[rank]]
    if not isinstance(ended, _KINDS[mistake.ends]):
        return [f"ended with {type(ended).__name__}"]
    if "did not return within" in str(ended):
        return ["found only by the timeout"]
    return [*([] if ended.key == mistake.key else [f"key {ended.key}"]), *missing_in(str(ended), mistake, world_size)]


def missing_in(message: str, mistake: Mistake, world_size: int) -> list[str]:
    sentences = "\n".join(line for line in message.splitlines() if not _LINE_OF_A_RANK.match(line))
    named = ranks_named_in(sentences, world_size)
    return [
        *(f"rank {rank}" for rank in mistake.ranks(world_size) if rank not in named),
        *(place for place in mistake.places().values() if not is_shown(place, message)),
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


def is_shown(place: str, text: str) -> bool:
    """Whether a message of ours ("groups.py line 5") or a traceback contains it."""
    file, _, line = place.partition(" line ")
    return re.search(rf'{re.escape(file)}"?,? line {line}\b', text) is not None


def squeezed(name: str) -> str:
    return name.replace("_", "").lower()
