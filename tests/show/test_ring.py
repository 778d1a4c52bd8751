"""A ring's picture holds the numbers that were sent, step by step, and says to whom."""

from __future__ import annotations

from typing import Any

import pytest
from recorded import call, gids, record, ring_steps

from ddp_lessons import show
from ddp_lessons.record.results import Results


def words(picture: show.Picture) -> dict[str, str]:
    return {str(text.get_gid()): text.get_text().replace("\n", " ") for text in picture.axes.texts}


@pytest.mark.parametrize("world_size", [2, 3, 16])
def test_every_box_holds_what_the_rank_sent_in_that_step(world_size: int) -> None:
    shown = words(show.ring(ring_steps(world_size, 4)))
    for step in range(4):
        for rank in range(world_size):
            assert shown[f"values step {step + 1} {rank}"] == f"{step} {rank}"


def test_every_message_has_an_arrow_to_the_right_neighbor() -> None:
    axes = show.ring(ring_steps(4, 3)).axes
    arrows = [gid for gid in gids(axes, "arrow") if not gid.endswith("again")]
    assert sorted(arrows) == sorted(f"arrow step {s} {r} {(r + 1) % 4}" for s in (1, 2, 3) for r in range(4))
    assert len(gids(axes, "box")) == 12
    patches: dict[str, Any] = {str(patch.get_gid()): patch for patch in axes.patches}
    for rank in range(3):
        arrow = patches[f"arrow step 1 {rank} {rank + 1}"].get_path().vertices[:, 0]
        here, there = patches[f"box step 1 {rank}"], patches[f"box step 1 {rank + 1}"]
        assert (arrow[0], arrow.max()) == pytest.approx((here.get_x() + here.get_width(), there.get_x()), abs=2)


def test_bytes_are_shown_where_values_were_not_recorded() -> None:
    calls = [[call("send", 1, 2, peer=1 - r, bytes=4000), call("recv", 1, 2, peer=1 - r, bytes=4000)] for r in (0, 1)]
    picture = show.ring(record(calls))
    assert words(picture)["values step 1 0"] == "4 KB"
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
    shown = words(show.ring(results_of(Tensor(5, 6.5), Tensor(7, 8)), before=[[1, 2], Tensor(3, 4)]))
    assert [shown[f"values before {rank}"] for rank in (0, 1)] == ["1 2", "3 4"]
    assert [shown[f"values after {rank}"] for rank in (0, 1)] == ["5 6.5", "7 8"]


def test_a_pair_of_tensors_is_before_and_after() -> None:
    picture = show.ring(results_of((Tensor(1), Tensor(3)), (Tensor(2), Tensor(3))))
    assert [line.split("|")[1].strip() for line in picture.text.splitlines()] == ["rank 0", "1", "0 0 ->1", "3"]


def test_answers_that_are_no_numbers_have_no_row() -> None:
    shown = words(show.ring(results_of("done", None)))
    assert not [gid for gid in shown if gid.startswith("values after")]


def test_messages_elsewhere_name_the_receiver_and_lost_ones_say_so() -> None:
    calls = [[call("send", 1, 2, peer=2)], [call("send", 1, None, peer=2)], [call("recv", 1, 2, peer=0)], []]
    picture = show.ring(record(calls))
    assert words(picture)["arrow step 1 0 2"] == "→2"
    assert "(not received)" in picture.text.splitlines()[1].split("|")[2]


def test_many_steps_are_cut_and_counted() -> None:
    picture = show.ring(ring_steps(2, 40))
    assert picture.text.endswith("8 further steps left out.")
    assert len(gids(picture.axes, "box")) == 2 * 32


def test_without_messages_it_says_what_a_ring_is_made_of() -> None:
    assert "made of send and recv" in show.ring(record([[call("barrier", 1, 2)], []])).text
    assert "Nothing was recorded" in show.ring(record([[], []])).text
