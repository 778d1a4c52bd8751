"""Run the training functions of these tests, on ranks that stay."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import torch
from tiny_trainings import Program

from ddp_lessons.run.workers import Workers
from ddp_lessons.sameness.rank_watch import watched_train
from ddp_lessons.sameness.run_records import Run
from ddp_lessons.sameness.same_training import checked_watch
from ddp_lessons.sameness.sameness_report import SamenessReport, judged


class Trials:
    """Workers for each number of ranks."""

    def __init__(self, stack: ExitStack) -> None:
        self._stack = stack
        self._workers: dict[int, Workers] = {}

    def report(self, program: Program, steps: int = 20) -> SamenessReport:
        watch = checked_watch(steps, program.dtype, program.random)

        def run(size: int, in_float64: bool) -> Run:
            return self._run(size, program, watch | {"dtype": torch.float64} if in_float64 else watch)

        return judged(run, program.ranks, program.random, program.dtype == torch.float64)

    def _run(self, size: int, program: Program, watch: dict[str, object]) -> Run:
        if size not in self._workers:
            workers = Workers(size, quiet=True, standing=True, record=False)
            self._workers[size] = self._stack.enter_context(workers)
        return Run(tuple(self._workers[size].run(watched_train, program.train, (), watch)))


@contextmanager
def trials() -> Iterator[Trials]:
    with ExitStack() as stack:
        yield Trials(stack)
