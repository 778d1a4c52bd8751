"""Runs many random programs, correct and broken ones, and counts what launch said of them."""

from __future__ import annotations

import argparse
import re
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import chain, groupby
from typing import TypeVar

from broken_programs import KINDS, Broken, break_one
from catalog.verdicts import ranks_named_in
from program_player import run, run_and_clean_up
from program_steps import Program
from random_programs import random_program

from ddp_lessons import WorkerFailed, Workers, WorkersStuck, launch

SIDE_BY_SIDE = 4  # launches at the same time: most of one is waiting
TIMEOUT_SECONDS = 5.0  # of a broken program
_A_RANKS_LINE = re.compile(r"^ +rank \d+ {2,}")
A = TypeVar("A")
B = TypeVar("B")


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
        return self.broken.rank in ranks_named_in(cause_in(self.message), self.broken.program.world_size)

    @property
    def is_good(self) -> bool:
        cause = cause_in(self.message)
        names_call = any(re.search(rf"\b{name}\b", cause) for name in self.broken.calls)
        return self.was_caught and (self.names_rank or names_call)


def cause_in(message: str) -> str:
    """The message without the lines that say for every rank where it was, and without the advice."""
    lines = message.partition("  Next: ")[0].split("\n")
    return "\n".join(line for line in lines if not _A_RANKS_LINE.match(line))


def side_by_side(judge: Callable[[A], B], programs: Iterable[A], at_once: int = SIDE_BY_SIDE) -> list[B]:
    launch(_nothing, 2)  # so that none of them has to wait for the import of torch
    with ThreadPoolExecutor(at_once) as pool:
        return list(pool.map(judge, programs))


def _nothing(rank: int, world_size: int) -> None:
    pass


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


def verdict_on(seed: int) -> Verdict:
    broken = broken_program(seed)
    try:
        launch(run, broken.program.world_size, broken.program, timeout_seconds=TIMEOUT_SECONDS, quiet=True)
    except (WorkerFailed, WorkersStuck) as error:
        last_move = max((event.begin for event in error.results.events), default=0.0)
        message = f"{type(error).__name__}: {error}"
        return Verdict(seed, broken, message, error.results.seconds - last_move)
    return Verdict(seed, broken, "", 0.0)


def broken_program(seed: int) -> Broken:
    return break_one(random_program(seed, unseen_waits=False), seed)


def verdicts_on(seeds: Iterable[int]) -> list[Verdict]:
    return side_by_side(verdict_on, seeds)


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
        verdicts = verdicts_on(seeds)
        for verdict in verdicts:
            if not verdict.is_good:
                print(f"seed {verdict.seed}, after {verdict.seconds:.2f} s: {verdict.message or 'nothing was said'}")
                print(f"{verdict.broken}\n")
        print(table_of(verdicts))
        print(f"{time.monotonic() - begin:.0f} seconds")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python tests/random_programs.py", description=__doc__)
    parser.add_argument("--programs", type=int, default=200, help="how many correct ones, and as many broken ones")
    parser.add_argument("--seed", type=int, default=0, help="of the first; the others follow")
    parser.add_argument("--only", choices=("correct", "broken"), help="leave out the others")
    parser.add_argument("--show", action="store_true", help="print the program of this seed, whole and broken")
    return parser.parse_args()
