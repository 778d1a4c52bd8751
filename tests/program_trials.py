"""Runs many random programs, correct and broken ones, and counts what launch said of them."""

from __future__ import annotations

import argparse
import functools
import re
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import chain, groupby

from broken_programs import KINDS, Broken, break_one
from program_player import run, run_and_clean_up
from program_simulator import is_always_wrong
from program_steps import Program, without_turn
from random_programs import random_program

from ddp_lessons import WorkerFailed, Workers, WorkersStuck, launch

SIDE_BY_SIDE = 4  # launches at the same time: most of one is waiting
TIMEOUT_SECONDS = 5.0  # of a broken program

_A_RANKS_LINE = re.compile(r"^ +rank \d+ {2,}")
_RANKS = re.compile(r"\b[Rr]anks? ((?:\d+(?:, | and | to )?)+)")


@dataclass(frozen=True)
class Complaint:
    """A correct program of which something bad was said."""

    seed: int
    words: str


@dataclass(frozen=True)
class Verdict:
    """What launch said of a broken program."""

    seed: int
    broken: Broken
    message: str  # "" if it ended as if nothing were wrong
    seconds: float  # from the last call that began to the message

    @property
    def was_caught(self) -> bool:
        return bool(self.message) and "did not return within" not in self.message

    @property
    def names_rank(self) -> bool:
        return self.broken.rank in ranks_in(self.explanation)

    @property
    def names_call(self) -> bool:
        return any(re.search(rf"\b{name}\b", self.explanation) for name in self.broken.calls)

    @property
    def is_good(self) -> bool:
        return self.was_caught and (self.names_rank or self.names_call)

    @property
    def explanation(self) -> str:
        """The message without the lines that say for every rank where it was, and without the advice."""
        lines = self.message.partition("  Next: ")[0].split("\n")
        return "\n".join(line for line in lines if not _A_RANKS_LINE.match(line))


def ranks_in(text: str) -> set[int]:
    """The ranks that a message names, as in: rank 1; Ranks 0, 2 and 3; ranks 0 to 3."""
    named = set()
    for found in _RANKS.findall(text):
        named |= {int(number) for number in re.findall(r"\d+", found)}
        for first, last in re.findall(r"(\d+) to (\d+)", found):
            named |= set(range(int(first), int(last) + 1))
    return named


def complaints_about(programs: Iterable[Program]) -> list[Complaint]:
    """Run correct programs on ranks that are used again; give what went wrong."""
    by_size = sorted(programs, key=lambda program: program.world_size)
    tasks = [list(some) for _, some in groupby(by_size, key=lambda program: program.world_size)]
    with ThreadPoolExecutor(2) as pool:
        return [complaint for complaints in pool.map(_complaints_of_one_size, tasks) for complaint in complaints]


def _complaints_of_one_size(programs: Sequence[Program]) -> list[Complaint]:
    complaints = []
    workers = None
    for program in programs:
        workers = workers or Workers(program.world_size, timeout_seconds=60, quiet=True)
        try:
            wrong = list(chain.from_iterable(workers.run(run_and_clean_up, program)))
        except (WorkerFailed, WorkersStuck) as error:
            wrong, workers = [f"{type(error).__name__}: {error}"], None
        if wrong:
            complaints.append(Complaint(program.seed, "\n".join(wrong)))
    if workers is not None:
        workers.close()
    return complaints


def verdict_on(broken: Broken, timeout_seconds: float = TIMEOUT_SECONDS) -> Verdict:
    try:
        launch(run, broken.program.world_size, broken.program, timeout_seconds=timeout_seconds, quiet=True)
    except (WorkerFailed, WorkersStuck) as error:
        last_move = max((event.begin for event in error.results.events), default=0.0)
        message = f"{type(error).__name__}: {error}"
        return Verdict(broken.program.seed, broken, message, error.results.seconds - last_move)
    return Verdict(broken.program.seed, broken, "", 0.0)


@functools.cache
def broken_program(seed: int) -> Broken:
    return break_one(random_program(seed, unseen_waits=False), seed)


def verdicts_on(seeds: Iterable[int], timeout_seconds: float = TIMEOUT_SECONDS) -> list[Verdict]:
    launch(_nothing, 2)  # so that none of them has to wait for the import of torch
    with ThreadPoolExecutor(SIDE_BY_SIDE) as pool:
        return list(pool.map(lambda seed: verdict_on(broken_program(seed), timeout_seconds), seeds))


def _nothing(rank: int, world_size: int) -> None:
    pass


def smallest(broken: Broken, is_still_so: Callable[[Broken], bool]) -> Broken:
    """Leave out turn after turn for as long as it is still so."""
    for turn in broken.program.turns:
        shorter = _without_turn(broken, turn)
        if shorter.step.turn != turn and is_always_wrong(shorter.program) and is_still_so(shorter):
            broken = shorter
    return broken


def _without_turn(broken: Broken, turn: int) -> Broken:
    before = without_turn(broken.program.steps[broken.rank][: broken.index], turn)
    steps = tuple(without_turn(steps, turn) for steps in broken.program.steps)
    return replace(broken, program=replace(broken.program, steps=steps), index=len(before))


def table_of(verdicts: Sequence[Verdict]) -> str:
    head = f"{'kind':22}  tried  caught  names rank  or call  slowest"
    rows = [head, "-" * len(head)]
    for kind in [*sorted(KINDS), "all"]:
        of_kind = [verdict for verdict in verdicts if kind in (verdict.broken.kind, "all")]
        caught = [verdict for verdict in of_kind if verdict.was_caught]
        names_rank, good = sum(v.names_rank for v in caught), sum(v.is_good for v in caught)
        slowest = max((verdict.seconds for verdict in caught), default=0.0)
        rows.append(f"{kind:22}  {len(of_kind):5}  {len(caught):6}  {names_rank:10}  {good:7}  {slowest:5.2f} s")
    return "\n".join(rows)


def main() -> None:
    asked = _arguments()
    seeds = range(asked.seed, asked.seed + asked.programs)
    if asked.show:
        print(random_program(asked.seed), broken_program(asked.seed), sep="\n\n")
        return
    begin = time.monotonic()
    if asked.only != "broken":
        complaints = complaints_about(map(random_program, seeds))
        print(f"{asked.programs} correct programs, {len(complaints)} false alarms or wrong answers")
        for complaint in complaints:
            print(f"\nseed {complaint.seed}: {complaint.words}")
        print(f"{time.monotonic() - begin:.0f} seconds\n", flush=True)
    begin = time.monotonic()
    if asked.only != "correct":
        verdicts = verdicts_on(seeds, asked.timeout)
        for verdict in verdicts:
            if not verdict.is_good or asked.messages:
                broken = verdict.broken
                if asked.shrink and not verdict.is_good:
                    broken = smallest(broken, lambda shorter: not verdict_on(shorter, asked.timeout).is_good)
                print(f"seed {verdict.seed}, after {verdict.seconds:.2f} s: {verdict.message or 'nothing was said'}")
                print(f"{broken}\n")
        print(table_of(verdicts))
        print(f"{time.monotonic() - begin:.0f} seconds")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python tests/random_programs.py", description=__doc__)
    parser.add_argument("--programs", type=int, default=200, help="how many correct ones, and as many broken ones")
    parser.add_argument("--seed", type=int, default=0, help="of the first; the others follow")
    parser.add_argument("--only", choices=("correct", "broken"), help="leave out the others")
    parser.add_argument("--timeout", type=float, default=TIMEOUT_SECONDS, help="seconds for a broken program")
    parser.add_argument("--shrink", action="store_true", help="look for the shortest program that is missed")
    parser.add_argument("--messages", action="store_true", help="print all messages")
    parser.add_argument("--show", action="store_true", help="print the program of this seed, whole and broken")
    return parser.parse_args()
