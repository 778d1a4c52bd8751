"""The wait-for graph: its arrows are the waits that the launcher found, and its boxes never cover each other."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.distributed as dist
from nights import by_day, nightly

from ddp_lessons import WorkersStuck, launch, show
from ddp_lessons.show.messages.wait_graph import BOX


def receive_first(rank: int, world_size: int) -> None:
    dist.recv(torch.zeros(1), (rank + 1) % world_size)


def returns_early(rank: int, world_size: int) -> None:
    if rank != 1:
        dist.all_reduce(torch.zeros(2))


def both(rank: int, world_size: int) -> None:
    if rank == 0:
        dist.barrier()
    elif rank < 3:
        dist.recv(torch.zeros(1), (rank + 1) % world_size)


@functools.cache
def figure(function: Callable[[int, int], None], world_size: int) -> show.Figure:
    with pytest.raises(WorkersStuck) as stuck:
        launch(function, world_size, quiet=True)
    return show.waits(stuck.value)


def shapes(figure: show.Figure, kind: str, layout: int = -1) -> list[dict[str, Any]]:
    return [shape for shape in figure.document["layouts"][layout]["shapes"] if kind in shape]


def test_a_circle_is_named_and_its_arrows_are_red() -> None:
    ring = figure(receive_first, 3)
    assert ring.text.splitlines() == [
        "rank 0 waits for rank 1, in recv",
        "rank 1 waits for rank 2, in recv",
        "rank 2 waits for rank 0, in recv",
        "a circle: 0 -> 1 -> 2 -> 0",
    ]
    assert ring.alt == "Wait-for graph of 3 ranks: ranks 0, 1 and 2 wait in a circle."
    assert [arrow["color"] for arrow in shapes(ring, "line")] == ["alarm"] * 3


@nightly
def test_a_rank_that_returned_is_dashed_and_waited_for_by_all_others() -> None:
    early = figure(returns_early, 4)
    assert early.text.splitlines()[-1] == "rank 1 has returned"
    assert early.alt == "Wait-for graph: ranks 0, 2 and 3 wait for rank 1, which returned."
    assert [arrow["color"] for arrow in shapes(early, "line")] == ["rank 0", "rank 2", "rank 3"]
    assert [box["edge"] for box in shapes(early, "box") if box.get("is_dashed")] == ["rank 1"]


@nightly
def test_waits_that_lead_to_one_rank_are_followed_through_others() -> None:
    assert figure(both, 4).text.splitlines() == [
        "rank 0 waits for ranks 1, 2 and 3, in barrier",
        "rank 1 waits for rank 2, in recv",
        "rank 2 waits for rank 3, in recv",
        "rank 3 has returned",
    ]
    assert len(shapes(figure(both, 4), "line")) == 5


def test_two_that_wait_for_each_other_have_two_arrows_beside_each_other() -> None:
    one, other = (arrow["line"][0] for arrow in shapes(figure(receive_first, 2), "line"))
    assert [one[0][1], one[1][1]] != [other[0][1], other[1][1]]


@pytest.mark.parametrize("world_size", by_day([2, 3, 4, 5, 8, 16], 1))
def test_no_box_covers_another_at_any_width(world_size: int) -> None:
    ring = figure(receive_first, world_size)
    for layout in range(len(ring.document["layouts"])):
        wide = ring.document["layouts"][layout]["width"]
        frames = [box["box"] for box in shapes(ring, "box", layout) if box["box"][3] == BOX[1]]
        assert len(frames) == world_size
        assert all(left >= 0 and left + width <= wide for left, _, width, _ in frames)
        for (left, top, width, height), (x, y, _, _) in itertools.combinations(frames, 2):
            assert abs(x - left) >= width or abs(y - top) >= height


@nightly
def test_of_very_many_ranks_some_are_left_out_and_it_says_so() -> None:
    words = [shape["words"][2] for shape in shapes(figure(returns_early, 18), "words")]
    assert "2 further ranks left out" in " ".join(words)
    assert "rank 1" in words


def test_where_no_rank_waits_for_ever_it_says_so() -> None:
    results = launch(lambda rank, world_size: dist.barrier(), 2, quiet=True)
    assert show.waits(results).text == "No rank waits forever, so there is nothing to draw."
