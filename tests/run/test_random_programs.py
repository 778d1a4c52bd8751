"""Random programs: of a correct one nothing is ever said, of a broken one what is wrong with it.

`pytest -s` prints the table of what was caught; `python tests/random_programs.py --programs 2000` tries more.
"""

from __future__ import annotations

import pytest
from broken_programs import KINDS, break_one
from nights import by_day
from program_simulator import faults_of
from program_steps import WORLD, Collective, Content, Message, Program, Steps
from program_trials import broken_program, complaints_about, table_of, verdicts_on
from random_programs import random_program


def test_the_programs_are_correct_by_what_their_steps_say() -> None:
    for program in map(random_program, range(200)):
        ranks = range(program.world_size)
        assert faults_of(program, strict=True, hurry=ranks) == faults_of(program, strict=True, hurry=ranks[::-1]) == []


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


def message(how: str, peer: int, tag: int = 0, dtype: str = "float32", handle: int | None = None) -> Message:
    return Message(0, how, peer, tag, WORLD, Content((2,), dtype), handle)


def collective(name: str, root: int | None = None) -> Collective:
    return Collective(0, name, WORLD, root=root)


WRONG: dict[str, tuple[Steps, Steps]] = {
    "both send first": ((message("send", 1), message("recv", 1)), (message("send", 0), message("recv", 0))),
    "another tag": ((message("send", 1),), (message("recv", 0, tag=1),)),
    "another dtype": ((message("send", 1),), (message("recv", 0, dtype="int32"),)),
    "nobody receives, nor waits": ((message("isend", 1, handle=0),), ()),
    "never waited for": ((message("send", 1),), (message("irecv", 0, handle=0),)),
    "one does not come": ((collective("barrier"),), ()),
    "the root goes on alone": ((collective("broadcast", 0),), ()),
    "another root": ((collective("broadcast", 0),), (collective("broadcast", 1),)),
}


@pytest.mark.parametrize("steps", WRONG.values(), ids=WRONG.keys())
def test_the_simulator_knows_what_is_wrong(steps: tuple[Steps, Steps]) -> None:
    assert faults_of(Program(0, steps, {WORLD: (0, 1)}), strict=False)


def test_the_simulator_knows_that_a_broadcast_need_not_wait_for_all() -> None:
    """Rank 1 hears the root and goes on, although rank 2 first receives from it: on many backends that ends."""
    steps = (
        (collective("broadcast", 0),),
        (collective("broadcast", 0), message("send", 2)),
        (message("recv", 1), collective("broadcast", 0)),
    )
    program = Program(0, steps, {WORLD: (0, 1, 2)})
    assert faults_of(program, strict=False) == []
    assert faults_of(program, strict=True) != []
