"""Random programs: of a correct one nothing is ever said, of a broken one what is wrong with it.

`pytest -s` prints the table of what was caught; `python tests/random_programs.py --programs 2000` tries more.
"""

from __future__ import annotations

import pytest
from broken_programs import KINDS, break_one
from nights import by_day
from program_trials import broken_program, complaints_about, table_of, verdicts_on
from random_programs import random_program


@pytest.mark.no_second_try
@pytest.mark.parametrize("programs", by_day([60, 200], 1))
def test_of_correct_programs_nothing_is_said(programs: int) -> None:
    assert complaints_about(map(random_program, range(programs))) == []


@pytest.mark.parametrize("programs", by_day([20, 200], 1))
def test_programs_broken_in_one_place_are_caught_and_the_place_is_named(programs: int) -> None:
    verdicts = verdicts_on(range(programs))
    print(f"\n{table_of(verdicts)}")
    print("seeds of the rest:", [verdict.seed for verdict in verdicts if not verdict.is_good])
    assert sum(verdict.is_good for verdict in verdicts) >= 0.95 * programs


def test_every_kind_of_mistake_is_among_the_broken_programs() -> None:
    assert {broken_program(seed).kind for seed in range(200)} == set(KINDS)


def test_a_seed_gives_the_same_program_and_the_same_mistake() -> None:
    assert random_program(5) == random_program(5)
    assert break_one(random_program(5), 7) == break_one(random_program(5), 7)
