"""Runs programs that are wrong in one place, and counts of how many launch named the right cause.

`python tests/mistaken_trials.py` runs them all. With another folder in PYTHONPATH, that is how many another version of
the package names.
"""

from __future__ import annotations

import argparse
import itertools
import re
import textwrap
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from mistaken_calls import Mistaken, all_mistaken
from program_trials import cause_in, side_by_side

from ddp_lessons import WorkerFailed, WorkersStuck, launch

WORLD_SIZE = 3
TIMEOUT_SECONDS = 12.0
SIDE_BY_SIDE = 3  # launches at the same time: most of one is waiting


@dataclass(frozen=True)
class Verdict:
    program: Mistaken
    message: str  # if it ended as if nothing were wrong, what was printed
    seconds: float
    misses: tuple[str, ...]

    @property
    def is_right(self) -> bool:
        return not self.misses


def verdict_on(program: Mistaken, timeout_seconds: float = TIMEOUT_SECONDS) -> Verdict:
    begin = time.monotonic()
    try:
        results = launch(program.function, WORLD_SIZE, timeout_seconds=timeout_seconds, quiet=True)
        message = "\n".join(itertools.chain(*results.lines))  # what a thread raises is printed, and no more
    except (WorkerFailed, WorkersStuck) as error:
        message = f"{type(error).__name__}: {error}"
    return Verdict(program, message, time.monotonic() - begin, tuple(missing_in(message, program)))


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


def verdicts_on(programs: Sequence[Mistaken], timeout_seconds: float = TIMEOUT_SECONDS) -> list[Verdict]:
    return side_by_side(lambda program: verdict_on(program, timeout_seconds), programs, SIDE_BY_SIDE)


def table_of(verdicts: Sequence[Verdict]) -> str:
    tried, right = Counter(v.program.kind for v in verdicts), Counter(v.program.kind for v in verdicts if v.is_right)
    rows = [f"{kind:32} {count:4} tried  {right[kind]:4} named right" for kind, count in sorted(tried.items())]
    good = sum(right.values())
    share = f"{100 * good / max(1, len(verdicts)):.1f} %"
    return "\n".join([*rows, f"{'all':32} {len(verdicts):4} tried  {good:4} named right: {share}"])


def main() -> None:
    parser = argparse.ArgumentParser(prog="python tests/mistaken_trials.py", description=__doc__)
    parser.add_argument("--every", type=int, default=1, help="of so many, try one")
    parser.add_argument("--kind", default="", help="only kinds with this in their name")
    parser.add_argument("--name", default="", help="only calls with this in their name")
    parser.add_argument("--timeout", type=float, default=TIMEOUT_SECONDS, help="seconds for a program")
    parser.add_argument("--messages", action="store_true", help="print what was said of all, not only of those missed")
    asked = parser.parse_args()
    programs = [one for one in all_mistaken() if asked.kind in one.kind and asked.name in one.name]
    verdicts = verdicts_on(programs[:: asked.every], asked.timeout)
    for verdict in verdicts:
        if asked.messages or not verdict.is_right:
            print(f"## {verdict.program.kind}: {verdict.program.name}, {verdict.seconds:.1f} s, {verdict.misses}")
            print(textwrap.indent(verdict.program.text, "  | "), verdict.message or "nothing was said", sep="\n")
    print(table_of(verdicts))


if __name__ == "__main__":
    main()
