"""Runs programs that are wrong in one place, and counts of how many launch named the right cause."""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from mistaken_calls import Mistaken
from program_trials import cause_in, side_by_side

from ddp_lessons import WorkerFailed, WorkersStuck, launch

WORLD_SIZE = 3
TIMEOUT_SECONDS = 12.0
SIDE_BY_SIDE = 3  # launches at the same time: most of one is waiting


@dataclass(frozen=True)
class Verdict:
    program: Mistaken
    message: str  # if it ended as if nothing were wrong, what was printed
    misses: tuple[str, ...]

    @property
    def is_right(self) -> bool:
        return not self.misses


def verdict_on(program: Mistaken) -> Verdict:
    try:
        results = launch(program.function, WORLD_SIZE, timeout_seconds=TIMEOUT_SECONDS, quiet=True)
        message = "\n".join(itertools.chain(*results.lines))  # what a thread raises is printed, and no more
    except (WorkerFailed, WorkersStuck) as error:
        message = f"{type(error).__name__}: {error}"
    return Verdict(program, message, tuple(missing_in(message, program)))


def missing_in(message: str, program: Mistaken) -> Iterator[str]:
    if "did not return within" in message:
        yield "it ran into the time limit"
    told, _, advice = message.partition("  Next: ")
    if not any(re.search(words, cause_in(message)) for words in program.words):
        yield f"none of {program.words}"
    told = told.replace('", line', " line")  # as a traceback has it
    if program.places and not any(re.search(rf"{re.escape(place)}\b", told) for place in program.places):
        yield f"none of {program.places}"
    if program.hint and message.startswith("Worker") and not re.search(program.hint, advice):
        yield f"the advice {program.hint!r}"


def verdicts_on(programs: Sequence[Mistaken]) -> list[Verdict]:
    return side_by_side(verdict_on, programs, SIDE_BY_SIDE)


def table_of(verdicts: Sequence[Verdict]) -> str:
    tried, right = Counter(v.program.kind for v in verdicts), Counter(v.program.kind for v in verdicts if v.is_right)
    rows = [f"{kind:32} {count:4} tried  {right[kind]:4} named right" for kind, count in sorted(tried.items())]
    good = sum(right.values())
    share = f"{100 * good / max(1, len(verdicts)):.1f} %"
    return "\n".join([*rows, f"{'all':32} {len(verdicts):4} tried  {good:4} named right: {share}"])
