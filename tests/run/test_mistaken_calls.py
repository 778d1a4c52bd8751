"""Mistakes of many kinds in calls of many kinds: nearly all are named with the right cause and the right line.

`pytest -m "" -s` runs them all and prints the table.
"""

from __future__ import annotations

import pytest
from mistaken_calls import CONTEXTS, all_mistaken, correct
from mistaken_trials import WORLD_SIZE, missing_in, table_of, verdict_on, verdicts_on
from nights import by_day, nightly

from ddp_lessons import launch

pytestmark = nightly


# every 29th: a prime number, so that all kinds have their turn
@pytest.mark.time_limit(1800)
@pytest.mark.parametrize("every", by_day([29, 1], 1))
def test_nearly_all_are_named_with_the_right_cause(every: int) -> None:
    verdicts = verdicts_on(all_mistaken()[::every])
    print(f"\n{table_of(verdicts)}")
    missed = [(one.program.file, one.program.text, one.message, one.misses) for one in verdicts if not one.is_right]
    assert len(missed) <= 0.03 * len(verdicts), missed


@pytest.mark.parametrize("context", CONTEXTS)
def test_without_the_mistake_the_calls_are_right(context: str) -> None:
    assert list(launch(correct(context).function, WORLD_SIZE, quiet=True)) == [None] * WORLD_SIZE


@pytest.mark.parametrize(
    ("instead_of", "said"),
    [
        ("Shape mismatch", "All is as it is"),
        ("_world.py line ", "_world.py line 9"),
        ("no rank can", "did not return within"),
    ],
)
def test_a_message_that_says_it_wrongly_is_not_counted(instead_of: str, said: str) -> None:
    program = next(one for one in all_mistaken() if (one.kind, one.name) == ("other shape", "all_reduce world"))
    verdict = verdict_on(program)
    assert verdict.is_right
    told = verdict.message if instead_of in verdict.message else f"no rank can make progress\n{verdict.message}"
    assert list(missing_in(told, program)) == []
    assert list(missing_in(told.replace(instead_of, said), program)) != []
