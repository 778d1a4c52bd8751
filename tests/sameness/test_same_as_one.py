"""Right training programs are the same on one rank and on several; of broken ones the cause is named."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from broken_trainings import BROKEN
from nights import by_day
from right_trainings import RIGHT
from tiny_trainings import Program

from ddp_lessons.own_files import PACKAGE, read_toml
from ddp_lessons.run.workers import Workers
from ddp_lessons.sameness.rank_watch import watched_train
from ddp_lessons.sameness.run_records import Run
from ddp_lessons.sameness.same_training import checked_watch
from ddp_lessons.sameness.sameness_report import SamenessReport, judged

pytestmark = pytest.mark.no_second_try
Judge = Callable[[Program], SamenessReport]

# on every commit one program of each cause, or two if it is found in two ways
FIRST_OF_ITS_CAUSE = {program.cause: program for program in reversed(BROKEN)}
FOUND_IN_ANOTHER_WAY = ("each_rank_shuffles_for_itself", "fewer_steps_without_a_module")
BY_DAY = [one for one in BROKEN if FIRST_OF_ITS_CAUSE[one.cause] is one or one.name in FOUND_IN_ANOTHER_WAY]


def named(program: Program) -> str:
    return f"{program.name}-{'-'.join(map(str, program.ranks))}"


@pytest.fixture(scope="module")
def judge() -> Iterator[Judge]:
    """Judges a program on ranks that stay."""
    with ExitStack() as stack:
        workers: dict[int, Workers] = {}

        def report(program: Program) -> SamenessReport:
            watch = checked_watch(20, program.dtype, program.random)

            def run(size: int, in_float64: bool) -> Run:
                if size not in workers:
                    workers[size] = stack.enter_context(Workers(size, quiet=True, standing=True, record=False))
                told = watch | {"dtype": "float64"} if in_float64 else watch
                return Run(tuple(workers[size].run(watched_train, program.train, (), told)))

            return judged(run, program.ranks, program.random, watch["dtype"] == "float64")

        yield report


@pytest.mark.parametrize("program", by_day(RIGHT, 9), ids=named)
def test_a_right_program_is_the_same_training(judge: Judge, program: Program) -> None:
    report = judge(program)
    assert report.same is True, report.text
    assert report.text.startswith("The same training on 1")
    assert ("In float32, the runs diverge at step 1" in report.text) == (program.name == "turned_by_rounding")


@pytest.mark.parametrize("program", by_day(BROKEN, BY_DAY.__contains__), ids=named)
def test_of_a_broken_program_the_cause_is_named(judge: Judge, program: Program) -> None:
    report = judge(program)
    assert report.same is False, report.text
    assert report.cause == program.cause, report.text
    assert report.text.startswith(f"Not the same training: on {program.ranks[1]} ranks, ")
    assert report.lines[-1].startswith("Next: ")


def test_the_banks_are_as_large_as_is_claimed_and_have_every_cause() -> None:
    causes = read_toml(Path(PACKAGE, "sameness", "causes.toml"))
    assert {program.cause for program in BROKEN} == causes.keys()
    assert len({program.name for program in [*RIGHT, *BROKEN]}) == len(RIGHT) + len(BROKEN)
    known = sum(program.cause != "unknown" for program in BROKEN)
    claim = f"{len(RIGHT)} correct programs (no false alarm) and {len(BROKEN)} broken ones (all found, {known} with a"
    page = Path(PACKAGE).parent / "docs" / "package.md"
    assert claim in " ".join(page.read_text(encoding="utf-8").split())
