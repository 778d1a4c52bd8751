"""check.ranks_of: right and wrong ways to number ranks over nodes."""

from __future__ import annotations

import ast
import itertools
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from banks import name_of, right, wrong

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


def as_a_tuple(gpus: str, machine: int) -> tuple[int, ...]:
    return tuple(by_accumulation(gpus, machine))


def by_counting(gpus: str, machine: int) -> list[int]:
    owners = [owner for owner, count in enumerate(split(gpus)) for _ in range(count)]
    return [rank for rank, owner in enumerate(owners) if owner == machine]


def with_numpy(gpus: str, machine: int) -> Any:
    return list(np.split(np.arange(sum(split(gpus))), np.cumsum(split(gpus)))[machine])


def as_elements_of_a_tensor(gpus: str, machine: int) -> Any:
    return list(torch.arange(sum(split(gpus))).split(split(gpus))[machine])


def one_machine_after_the_other(gpus: str, machine: int) -> list[int]:
    mine, start = [], 0
    for number, count in enumerate(map(int, gpus.split(","))):
        if number == machine:
            mine = list(range(start, start + count))
        start += count
    return mine


def by_literal_eval(gpus: str, machine: int) -> list[int]:
    counts = ast.literal_eval(f"[{gpus}]")
    first: int = sum(counts[:machine])
    ranks: list[int] = []
    while len(ranks) < counts[machine]:
        ranks.append(first + len(ranks))
    return ranks


RIGHT: list[Function] = [
    *(machines.ranks_of, by_accumulation, by_local_ranks, as_a_tuple, by_counting, with_numpy),
    *(as_elements_of_a_tensor, one_machine_after_the_other, by_literal_eval),
]


@pytest.mark.parametrize("function", right(*RIGHT), ids=name_of)
def test_right_answers_pass(function: Function) -> None:
    report = check.ranks_of(function)
    assert report.passed, report.text


def only_the_machine_before(gpus: str, machine: int) -> range:
    first = split(gpus)[machine - 1]
    return range(first, first + split(gpus)[machine])


class EqualToEverything(list[int]):
    def __eq__(self, other: object) -> bool:
        return True

    __hash__ = None


def for_ever(gpus: str, machine: int) -> Any:
    while machine:
        gpus += ","
    return by_accumulation(gpus, machine)


def leaves(gpus: str, machine: int) -> Any:
    sys.exit()


def takes_all_memory(gpus: str, machine: int) -> Any:
    return [0] * 10**12


def as_floats(gpus: str, machine: int) -> list[float]:
    return [float(rank) for rank in by_accumulation(gpus, machine)]


def a_tensor(gpus: str, machine: int) -> Any:
    return torch.tensor(list(by_accumulation(gpus, machine)))


def a_generator(gpus: str, machine: int) -> Any:
    return (rank for rank in by_accumulation(gpus, machine))


def as_texts(gpus: str, machine: int) -> list[str]:
    return list(map(str, by_accumulation(gpus, machine)))


def first_and_last(gpus: str, machine: int) -> list[int]:
    ranks = by_accumulation(gpus, machine)
    return [ranks.start, ranks.stop]


def one_too_many(gpus: str, machine: int) -> list[int]:
    ranks = by_accumulation(gpus, machine)
    return list(range(ranks.start, ranks.stop + 1))


def backwards(gpus: str, machine: int) -> list[int]:
    return list(by_accumulation(gpus, machine))[::-1]


def machines_from_1(gpus: str, machine: int) -> range:
    return by_accumulation(gpus, machine - 1)


def as_if_equal_on_all(gpus: str, machine: int) -> list[int]:
    each = split(gpus)[0]
    return [machine * each + gpu for gpu in range(split(gpus)[machine])]


def for_two_machines(gpus: str, machine: int) -> list[int]:
    counts = split(gpus)
    return list(range(counts[0])) if machine == 0 else list(range(counts[0], counts[0] + counts[machine]))


def eight_on_each_before(gpus: str, machine: int) -> list[int]:
    """Once that is as many as this node has."""
    return [8 * machine + gpu for gpu in range(split(gpus)[machine])]


def into_two_names(gpus: str, machine: int) -> list[int]:
    first, second = split(gpus)
    return list(range(first, first + second)) if machine else list(range(first))


def two_letters(gpus: str, machine: int) -> list[int]:
    first, second = list(gpus)
    return list(range(int(first), int(first) + int(second)))


WRONG: list[tuple[Function, str]] = [
    (
        lambda gpus, machine: EqualToEverything(),
        "Node 0 has 8 GPUs, but this list has 0 ranks. Return one rank per GPU",
    ),
    (for_ever, "ranks_of('8,2', 1) does not return and is at"),
    (leaves, "ranks_of('8,2', 0) calls sys.exit() instead of returning"),
    (takes_all_memory, "ranks_of('8,2', 0) raises MemoryError"),
    (as_floats, "Ranks are integers, but 0.0 is not"),
    (a_tensor, "It returns an object of type Tensor. Return a list (or a range) of ranks"),
    (a_generator, "It returns an object of type generator. Return a list (or a range) of ranks"),
    (as_texts, "Ranks are integers"),
    (first_and_last, "Node 0 has 8 GPUs, but this list has 2 ranks. Return one rank per GPU"),
    (one_too_many, "Node 0 has 8 GPUs, but this list has 9 ranks. Return one rank per GPU"),
    (backwards, "These are the right ranks in the wrong order"),
    (machines_from_1, "Node 0 has 8 GPUs, but this list has 0 ranks. Return one rank per GPU"),
    (as_if_equal_on_all, "GPUs. Start the list at"),
    (for_two_machines, "the nodes before it have 4 GPUs. Start the list at 4"),
    (
        eight_on_each_before,
        "The first rank on node 1 is 2, because the nodes before it have 2 GPUs. Start the list at 2",
    ),
    (into_two_names, "There can be any number of nodes, here 1. Keep the counts in a list"),
    (two_letters, 'gpus is a string such as "8,2"'),
    (
        lambda gpus, machine: list(range(split(gpus)[machine])),
        "These are the local ranks on this node. Add the number of GPUs on all earlier nodes",
    ),
    (
        lambda gpus, machine: [machine * split(gpus)[machine] + gpu for gpu in range(split(gpus)[machine])],
        "It assumes that every earlier node has as many GPUs as this one",
    ),
    (
        lambda gpus, machine: [sum(split(gpus)[: machine + 1]) + gpu for gpu in range(split(gpus)[machine])],
        "The GPUs of this node are counted as if they belonged to an earlier node",
    ),
    (
        lambda gpus, machine: [rank + 1 for rank in by_accumulation(gpus, machine)],
        "These ranks are too high by 1. Count ranks from 0.",
    ),
    (lambda gpus, machine: list(range(sum(split(gpus)))), "These are the ranks of all nodes"),
    (
        only_the_machine_before,
        "For node 0, the first rank is 0, because no node comes before it. Index 0 - 1 is -1, which reads the last "
        "node's count. Sum only the counts before this node.",
    ),
    (
        lambda gpus, machine: [rank + 5 for rank in by_accumulation(gpus, machine)],
        "For node 0, the first rank is 0, because no node comes before it. Sum only the counts before this node.",
    ),
    (lambda gpus, machine: gpus * machine, "Return a list (or a range) of ranks"),
    (lambda gpus, machine: sum(gpus[:machine]) + gpus[machine], 'gpus is a string such as "8,2"'),
    (lambda gpus, machine: list(range(int(gpus[0]), int(gpus[0]) + int(gpus[2]))), "Node 0 has 8 GPUs"),
    (lambda gpus, machine: None if machine else list(range(split(gpus)[0])), "It returns None"),
]


@pytest.mark.parametrize(("function", "sentence"), wrong(WRONG), ids=name_of)
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
