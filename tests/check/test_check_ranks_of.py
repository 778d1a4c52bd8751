"""check.ranks_of: right and wrong ways to number ranks over machines."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pytest

from ddp_lessons import check
from ddp_lessons.train import machines

Function = Callable[[Any, Any], Any]


def split(gpus: str) -> list[int]:
    return [int(count) for count in gpus.split(",")]


def by_accumulation(gpus: str, machine: int) -> range:
    ends = [0, *itertools.accumulate(split(gpus))]
    return range(ends[machine], ends[machine + 1])


def by_local_ranks(gpus: str, machine: int) -> list[int]:
    return [sum(split(gpus)[:machine]) + gpu for gpu in range(split(gpus)[machine])]


@pytest.mark.parametrize("function", [machines.ranks_of, by_accumulation, by_local_ranks])
def test_right_answers_pass(function: Function) -> None:
    report = check.ranks_of(function)
    assert report.passed, report.text


def only_the_machine_before(gpus: str, machine: int) -> range:
    first = split(gpus)[machine - 1]
    return range(first, first + split(gpus)[machine])


WRONG: list[tuple[Function, str]] = [
    (
        lambda gpus, machine: list(range(split(gpus)[machine])),
        "its local ranks: add the GPUs of the machines before it",
    ),
    (
        lambda gpus, machine: [machine * split(gpus)[machine] + gpu for gpu in range(split(gpus)[machine])],
        "as if each machine before had as many GPUs as this one",
    ),
    (
        lambda gpus, machine: [sum(split(gpus)[: machine + 1]) + gpu for gpu in range(split(gpus)[machine])],
        "counts the GPUs of this machine as if they were on a machine before",
    ),
    (lambda gpus, machine: [rank + 1 for rank in by_accumulation(gpus, machine)], "Ranks begin with 0."),
    (lambda gpus, machine: list(range(sum(split(gpus)))), "the ranks of all machines together"),
    (only_the_machine_before, "No machine stands before machine 0"),
    (lambda gpus, machine: [rank + 5 for rank in by_accumulation(gpus, machine)], "No machine stands before machine 0"),
    (lambda gpus, machine: gpus * machine, "and the answer is a list (or a range) of ranks"),
    (lambda gpus, machine: sum(gpus[:machine]) + gpus[machine], 'gpus is a text such as "8,2"'),
    (lambda gpus, machine: list(range(int(gpus[0]), int(gpus[0]) + int(gpus[2]))), "Machine 0 has 8 GPUs"),
    (lambda gpus, machine: None if machine else list(range(split(gpus)[0])), "It returns None"),
]


@pytest.mark.parametrize(("function", "sentence"), WRONG)
def test_wrong_answers_are_refused_by_name(function: Function, sentence: str) -> None:
    report = check.ranks_of(function)
    assert not report.passed
    assert sentence in report.mistake, report.text
    assert all(len(line) < 250 for line in report.text.split("\n"))


def only_one_digit(gpus: str, machine: int) -> list[int]:
    counts = [int(letter) for letter in gpus if letter.isdigit()]
    return list(range(sum(counts[:machine]), sum(counts[:machine]) + counts[machine]))


def test_numbers_of_two_digits_are_tried() -> None:
    assert "ranks_of('12,4', 1)" in check.ranks_of(only_one_digit).text


def test_a_stub_and_what_is_no_function() -> None:
    def stub(gpus: str, machine: int) -> list[int]: ...  # type: ignore[empty-body]

    assert check.ranks_of(stub).text == "check.ranks_of: not started yet"
    assert "function" in check.ranks_of(3).mistake  # type: ignore[arg-type]


@pytest.mark.parametrize(("gpus", "machine"), [("8,2", 2), ("8,2", -1), ("8,-2", 1), ("8,two", 0)])
def test_what_cannot_be_counted_is_refused(gpus: str, machine: int) -> None:
    with pytest.raises(ValueError, match=r"machine|invalid literal"):
        machines.ranks_of(gpus, machine)
