"""The cost model, against what a head can work out."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from ddp_lessons.train.costs import ring_seconds, star_seconds, tree_seconds


@pytest.mark.parametrize("cost", [star_seconds, tree_seconds, ring_seconds])
def test_one_rank_alone_has_nothing_to_do(cost: Callable[..., float]) -> None:
    assert cost(1, 1000, 1, 1) == 0


def test_latency_alone_counts_the_messages_in_a_row() -> None:
    costs = [cost(8, 0, 1.0, 1e9) for cost in (star_seconds, tree_seconds, ring_seconds)]
    assert costs == [14, 6, 14]


def test_bytes_alone_count_the_tensors_of_the_busiest_rank() -> None:
    costs = [cost(8, 1e9, 0.0, 1e9) for cost in (star_seconds, tree_seconds, ring_seconds)]
    assert costs == [14, 6, pytest.approx(1.75)]


def test_a_world_that_is_no_power_of_two_needs_the_rounds_of_the_next_one() -> None:
    assert [tree_seconds(world_size, 0, 1.0, 1.0) / 2 for world_size in (2, 3, 4, 5, 8, 9)] == [1, 2, 2, 3, 3, 4]
