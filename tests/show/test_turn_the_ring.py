"""The ring, step by step: its sums are the sums, and its bytes those of the textbook."""

from __future__ import annotations

import sys

import cloudpickle  # type: ignore[import-untyped]
import pytest
import torch
import torch.distributed as dist
from looks import check_that_texts_stand_apart, words
from torch import Tensor

from ddp_lessons import show
from ddp_lessons.show.page.boxes import show_numbers
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


@pytest.mark.parametrize("world_size", [2, 3, 5])
def test_it_ends_with_the_sums_and_the_textbooks_bytes(world_size: int) -> None:
    explorer = show.turn_the_ring(ring_all_reduce, world_size)
    explorer.set(step=2 * (world_size - 1))
    sums = [sum(chunk * 10**rank for rank in range(world_size)) for chunk in range(1, world_size + 1)]
    for rank in range(world_size):
        assert words(explorer.picture, f"number {rank} ") == [show_numbers([number]) for number in sums]
        assert words(explorer.picture, f"bytes {rank}") == [show_bytes(2 * (world_size - 1) * 4)]


def test_every_step_completes_as_many_chunks_as_there_are_ranks() -> None:
    explorer = show.turn_the_ring(ring_all_reduce, 4)
    complete = []
    for step in range(1, 7):
        explorer.set(step=step)
        complete.append(explorer.picture.alt.split("; ")[1].split()[0])
    assert complete == ["0", "0", "4", "8", "12", "16"]


def test_the_chunks_that_moved_are_marked() -> None:
    explorer = show.turn_the_ring(ring_all_reduce, 4)
    explorer.set(step=1)
    cells = [patch for patch in explorer.picture.axes.patches if str(patch.get_gid()).startswith("cell")]
    marked = sorted(str(cell.get_gid()) for cell in cells if cell.get_linewidth() > 2)
    assert marked == ["cell 0 3", "cell 1 0", "cell 2 1", "cell 3 2"]


def test_bytes_tell_a_ring_from_one_that_sends_whole_tensors() -> None:
    explorer = show.turn_the_ring(whole_tensors, 3)
    explorer.set(step=2)
    assert explorer.picture.alt == (
        "Step 2 of 2: each rank has sent 24 B, in all 72 B; 9 of 9 numbers are complete sums."
    )


@pytest.mark.parametrize("world_size", [2, 8])
def test_words_stand_apart_at_every_size(world_size: int) -> None:
    explorer = show.turn_the_ring(ring_all_reduce, world_size)
    for step in (0, world_size):
        explorer.set(step=min(step, len(explorer.options["step"]) - 1))
        check_that_texts_stand_apart(explorer.picture)
