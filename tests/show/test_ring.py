"""The ring, step by step: its sums are the sums, and its bytes those of the textbook."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import cloudpickle  # type: ignore[import-untyped]
import pytest
import torch
import torch.distributed as dist
from looks import check_that_words_stand_apart
from torch import Tensor

from ddp_lessons import show
from ddp_lessons.show.page.picture import show_bytes
from ddp_lessons.train.point_to_point import send_and_receive
from ddp_lessons.train.ring import ring_all_reduce

# as functions of a cell do, so that ranks need not import this module, and all that it imports
cloudpickle.register_pickle_by_value(sys.modules[__name__])


def whole_tensors(tensor: Tensor) -> None:
    """The sum is right, and it is no ring all-reduce."""
    rank, world_size = dist.get_rank(), dist.get_world_size()
    passing = tensor.clone()
    for _ in range(world_size - 1):
        arrived = torch.empty_like(tensor)
        send_and_receive(passing, (rank + 1) % world_size, arrived, (rank - 1) % world_size)
        tensor += arrived
        passing = arrived


def film(all_reduce: Callable[[Tensor], Any], world_size: int) -> Any:
    return show.ring(all_reduce, world_size).document


def held(state: Any, rank: int) -> list[str]:
    return [text for tensor in state["held"][rank] for text, _ in tensor]


@pytest.mark.parametrize("world_size", [2, 3, 5])
def test_it_ends_with_the_sums_and_the_textbooks_bytes(world_size: int) -> None:
    last = film(ring_all_reduce, world_size)["states"][-1]
    sums = [sum(chunk * 10**rank for rank in range(world_size)) for chunk in range(1, world_size + 1)]
    assert [held(last, rank) for rank in range(world_size)] == [list(map(str, sums))] * world_size
    assert last["sent"] == [show_bytes(2 * (world_size - 1) * 4)] * world_size


def test_every_step_completes_as_many_chunks_as_there_are_ranks() -> None:
    document = film(ring_all_reduce, 4)
    complete = [step["caption"].split("; ")[1].split()[0] for step in document["steps"]]
    assert complete == ["0", "0", "4", "8", "12", "16"]
    sums = [
        [tone for one in state["held"] for tensor in one for _, tone in tensor].count("sum")
        for state in document["states"]
    ]
    assert sums == [0, 0, 0, 4, 8, 12, 16]


def test_in_each_step_every_rank_passes_one_chunk_to_the_next() -> None:
    for step in film(ring_all_reduce, 4)["steps"]:
        assert [(move["from"], move["to"]) for move in step["moves"]] == [(0, 1), (1, 2), (2, 3), (3, 0)]


def test_what_travels_is_what_the_sender_held() -> None:
    document = film(ring_all_reduce, 4)
    for state, step in zip(document["states"], document["steps"], strict=False):
        assert all(move["text"] in held(state, move["from"]) for move in step["moves"])


def test_bytes_tell_a_ring_from_one_that_sends_whole_tensors() -> None:
    assert film(whole_tensors, 3)["steps"][-1]["caption"] == (
        "Step 2 of 2: each rank has sent 24 B, in all 72 B; 9 of 9 numbers are complete sums."
    )


def test_a_stub_that_sends_nothing_says_so() -> None:
    document = film(lambda tensor: None, 3)
    assert (document["steps"], document["first"]) == ([], "No rank sends a message, so there are no steps.")


@pytest.mark.parametrize("world_size", [2, 4])
def test_words_stand_apart_at_every_size(world_size: int) -> None:
    check_that_words_stand_apart(show.ring(ring_all_reduce, world_size).still)
