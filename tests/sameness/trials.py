"""Run the training functions of these tests, on ranks that stay."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from tiny_trainings import Program

from ddp_lessons.run.workers import Workers
from ddp_lessons.sameness.rank_watch import watched_train
from ddp_lessons.sameness.run_records import Run
from ddp_lessons.sameness.same_training import checked_watch
from ddp_lessons.sameness.sameness_report import SamenessReport, report_of


class Trials:
    """Workers for each number of ranks."""

    def __init__(self, stack: ExitStack) -> None:
        self._stack = stack
        self._workers: dict[int, Workers] = {}

    def report(self, program: Program, steps: int = 20) -> SamenessReport:
        watch = checked_watch(steps, program.dtype, program.random)
        return report_of([self._run(size, program, watch) for size in program.ranks], program.random)

    def _run(self, size: int, program: Program, watch: dict[str, object]) -> Run:
        if size not in self._workers:
            workers = Workers(size, quiet=True, outlive_failures=True, record=False)
            self._workers[size] = self._stack.enter_context(workers)
        return Run(tuple(self._workers[size].run(watched_train, program.train, (), watch)))


@contextmanager
def trials() -> Iterator[Trials]:
    with ExitStack() as stack:
        yield Trials(stack)
