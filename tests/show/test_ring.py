"""A ring's picture holds the numbers that were sent, step by step, and says to whom."""

from __future__ import annotations

from typing import Any

import pytest
from recorded import call, record, ring_steps

from ddp_lessons import show
from ddp_lessons.record.results import Results


def sent(picture: Any) -> list[list[tuple[int, int, str]]]:
    """Step by step: from whom, to whom, what."""
    steps = picture.document["steps"]
    return [[(move["from"], move["to"], move["text"]) for move in step["moves"]] for step in steps]


def held(picture: Any, state: int) -> list[list[str]]:
    return [[text for tensor in one for text, _ in tensor] for one in picture.document["states"][state]["held"]]


@pytest.mark.parametrize("world_size", [2, 3, 16])
def test_in_each_step_every_rank_sends_its_values_to_its_right_neighbor(world_size: int) -> None:
    steps = sent(show.ring(ring_steps(world_size, 4)))
    assert steps == [
        [(rank, (rank + 1) % world_size, f"{step} {rank}") for rank in range(world_size)] for step in range(4)
    ]


def test_bytes_are_shown_where_values_were_not_recorded() -> None:
    calls = [[call("send", 1, 2, peer=1 - r, bytes=4000), call("recv", 1, 2, peer=1 - r, bytes=4000)] for r in (0, 1)]
    picture = show.ring(record(calls))
    assert sent(picture) == [[(0, 1, "4 KB"), (1, 0, "4 KB")]]
    assert "4 KB ->1" in picture.text


class Tensor:
    """What the picture knows of a tensor."""

    def __init__(self, *numbers: float) -> None:
        self.numbers = list(numbers)

    def tolist(self) -> list[float]:
        return self.numbers


def results_of(*values: Any) -> Results[Any]:
    return Results(values, ([], []), 1.0, ring_steps(2, 1))


def test_the_rows_around_the_steps_are_what_ranks_began_with_and_returned() -> None:
    picture = show.ring(results_of(Tensor(5, 6.5), Tensor(7, 8)), before=[[1, 2], Tensor(3, 4)])
    assert held(picture, 0) == [["1", "2"], ["3", "4"]]
    assert held(picture, -1) == [["5", "6.5"], ["7", "8"]]


def test_a_pair_of_tensors_is_before_and_after() -> None:
    picture = show.ring(results_of((Tensor(1), Tensor(3)), (Tensor(2), Tensor(3))))
    assert [line.split("|")[1].strip() for line in picture.text.splitlines()] == ["rank 0", "1", "0 0 ->1", "3"]


def test_answers_that_are_no_numbers_are_not_shown() -> None:
    picture = show.ring(results_of("done", None))
    assert held(picture, -1) == [[], []]
    assert "after" not in picture.text


def test_messages_elsewhere_name_the_receiver_and_lost_ones_say_so() -> None:
    calls = [[call("send", 1, 2, peer=2)], [call("send", 1, None, peer=2)], [call("recv", 1, 2, peer=0)], []]
    picture = show.ring(record(calls))
    assert sent(picture) == [[(0, 2, "16 B")]]  # the other one did not arrive
    assert "(not received)" in picture.text.splitlines()[1].split("|")[2]


def test_many_steps_are_cut_and_counted() -> None:
    picture = show.ring(ring_steps(2, 40))
    assert picture.text.endswith("8 further steps left out.")
    assert len(sent(picture)) == 32


def test_without_messages_it_says_what_a_ring_is_made_of() -> None:
    assert "made of send and recv" in show.ring(record([[call("barrier", 1, 2)], []])).text
    assert "Nothing was recorded" in show.ring(record([[], []])).text
