"""The group over a store, against gloo: the same calls, the same numbers."""

from __future__ import annotations

import pathlib
from typing import Any

import nbformat
import pytest
import torch
import torch.distributed as dist
from mpi_programs import trained
from nights import by_day, nightly
from torch import Tensor

from ddp_lessons import WorkerFailed, launch
from ddp_lessons.train import board_group
from ddp_lessons.train.board_group import all_reduce_on_board, from_bytes, to_bytes

DTYPES = [torch.float32, torch.float64, torch.bfloat16, torch.int64, torch.bool]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("shape", [(), (1,), (0,), (3, 4)], ids=str)
def test_what_is_read_from_a_note_is_what_was_written(shape: tuple[int, ...], dtype: torch.dtype) -> None:
    tensor = (torch.rand(shape) * 100).to(dtype)
    torch.testing.assert_close(from_bytes(to_bytes(tensor), tensor), tensor, rtol=0, atol=0)
    if tensor.dim() == 2:
        torch.testing.assert_close(from_bytes(to_bytes(tensor.t()), tensor.t()), tensor.t(), rtol=0, atol=0)


def calls(rank: int, world_size: int, backend: str) -> list[Any]:
    assert board_group.BACKEND == "board"
    dist.init_process_group(backend)
    said: list[Any] = [dist.get_backend() == backend]
    dist.all_reduce(total := torch.arange(5.0) + rank)
    for root in range(world_size):
        dist.broadcast(given := torch.full((2, 2), float(rank)), root)
        said.append(given.tolist())
    dist.all_gather(gathered := [torch.zeros(2) for _ in range(world_size)], torch.tensor([rank, 1.5]))
    dist.barrier()
    for _ in range(3):  # each message has a note of its own
        if rank == 0:
            dist.send(total, 1)
        elif rank == 1:
            dist.recv(received := torch.zeros(5), 0)
            said.append(received.tolist())
        total += 1
    return [*said, total.tolist(), [one.tolist() for one in gathered]]


@nightly
@pytest.mark.parametrize("world_size", by_day([2, 3], 1))
def test_every_call_gives_what_gloo_gives(world_size: int) -> None:
    on_board, over_gloo = (list(launch(calls, world_size, name, join=False)) for name in ("board", "gloo"))
    assert on_board == over_gloo


def train(rank: int, world_size: int, backend: str) -> dict[str, Any]:
    assert board_group.BACKEND == "board"
    dist.init_process_group(backend)
    return {**trained("average_gradients"), **trained("buckets"), **trained("ddp")}


@nightly
def test_trainings_end_with_the_weights_that_gloo_gives() -> None:
    on_board, over_gloo = (list(launch(train, 2, name, join=False)) for name in ("board", "gloo"))
    for ours, gloos in zip(on_board, over_gloo, strict=True):
        assert ours.keys() == gloos.keys()
        for name, answer in ours.items():
            assert answer == (pytest.approx(gloos[name], rel=1e-12) if "weights" in name else True)


def test_all_ranks_have_the_same_bits() -> None:
    def run(rank: int, world_size: int) -> Tensor:
        board = dist.distributed_c10d._get_default_store()
        return all_reduce_on_board(board, torch.rand(1000), rank, world_size)

    first, *others = launch(run, 4)
    assert all(torch.equal(first, other) for other in others)


def test_only_sums_are_made() -> None:
    def run(rank: int, world_size: int) -> None:
        assert board_group.BACKEND == "board"
        dist.init_process_group("board")
        dist.all_reduce(torch.ones(1), op=dist.ReduceOp.MAX)

    with pytest.raises(WorkerFailed, match=r"this group only supports sums: use ReduceOp\.SUM"):
        launch(run, 2, join=False)


LESSON = pathlib.Path(__file__).parent.parent.parent / "notebooks" / "16_choose_a_backend.ipynb"


def cell_of_the_lesson(name: str) -> str:
    read: Any = nbformat.read
    return str(next(cell.source for cell in read(LESSON, as_version=4).cells if cell.id == name))


def test_the_group_of_the_lesson_makes_only_sums() -> None:
    cells = cell_of_the_lesson("group-import"), cell_of_the_lesson("group-code")

    def run(rank: int, world_size: int) -> tuple[list[float], str]:
        written: dict[str, Any] = {"dist": dist}
        exec("\n".join(cells), written)
        dist.Backend.register_backend("mine", written["MyGroup"], devices="cpu")
        dist.init_process_group("mine")
        dist.all_reduce(total := torch.tensor([1.0 + rank]))
        try:
            dist.all_reduce(torch.ones(1), op=dist.ReduceOp.MAX)
        except NotImplementedError as error:
            return total.tolist(), str(error)
        return total.tolist(), "gave something"

    assert list(launch(run, 2, join=False)) == [([3.0], "this group only adds up")] * 2


def test_a_call_without_a_method_is_refused_in_the_words_that_the_lesson_explains() -> None:
    def run(rank: int, world_size: int) -> None:
        written: dict[str, Any] = {"dist": dist}
        exec("\n".join(cells), written)
        dist.Backend.register_backend("mine", written["MyGroup"], devices="cpu")
        dist.init_process_group("mine")
        dist.broadcast(torch.ones(1), 0)

    cells = cell_of_the_lesson("group-import"), cell_of_the_lesson("group-code")
    with pytest.raises(WorkerFailed, match="ProcessGroup name not set"):
        launch(run, 2, join=False)
    assert "*ProcessGroup name not set*" in cell_of_the_lesson("ddp")
