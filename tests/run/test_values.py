"""What a rank gets and what it returns: anything that pickles arrives as it was, the rest is named."""

from __future__ import annotations

import collections
import dataclasses
import enum
import math
import os
import pickle
import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy
import psutil
import pytest
import torch
import torch.distributed as dist
from nights import by_day, nightly
from processes import PROJECT, without_address
from torch import Tensor, nn

from ddp_lessons import Results, WorkerFailed, Workers, launch
from ddp_lessons.run.wire.travel import from_notebook, pack_call, pack_value

_SHELLS = re.compile(r"torch\.(u?int[1-7]$|qu?int)")  # dtypes of which torch makes no plain tensors
_DTYPES = sorted({d for d in vars(torch).values() if isinstance(d, torch.dtype) and not _SHELLS.match(str(d))}, key=str)


class Color(enum.Enum):
    RED = 1


@dataclasses.dataclass(frozen=True)
class Score:
    name: str
    by_class: dict[str, Tensor]


@pytest.fixture(scope="module")
def echo() -> Iterator[Callable[[object], Any]]:
    """Through a rank that is kept, as an argument and as a variable that the function uses."""

    def there_and_back(value: object) -> Any:
        argument, variable = workers.run(lambda rank, world_size, argument: (argument, [value]), value)[0]
        assert type(variable[0]) is type(argument)
        return argument

    with Workers(1, quiet=True) as workers:
        yield there_and_back


# --- tensors --------------------------------------------------------------------------------------------------------


def test_a_tensor_of_every_dtype_arrives_bit_by_bit() -> None:
    def same_bits(rank: int, world_size: int, tensors: dict[torch.dtype, Tensor]) -> dict[torch.dtype, Tensor]:
        assert all(tensor.view(torch.uint8).tolist() == list(range(48)) for tensor in tensors.values())
        return {dtype: torch.arange(48, dtype=torch.uint8).view(dtype) for dtype in tensors}

    sent = {dtype: torch.arange(48, dtype=torch.uint8).view(dtype) for dtype in _DTYPES}
    (arrived,) = launch(same_bits, 1, sent, quiet=True)
    assert [tensor.dtype for tensor in arrived.values()] == _DTYPES
    assert all(tensor.view(torch.uint8).tolist() == list(range(48)) for tensor in arrived.values())


_matrix = torch.arange(24.0).reshape(4, 6)
_complex = torch.tensor([1 + 2j, 3 - 4j, 5j])
_SHAPES: dict[str, Tensor] = {
    "no dimension": torch.tensor(3.5),
    "the column of a batch of one": _matrix[:1, 1],
    "transposed": _matrix.T,
    "expanded": torch.ones(1, 3).expand(4, 3),
    "conjugated": _complex.conj(),
    "one imaginary part of a conjugate": _complex[:1].conj().imag,
    "not a number": torch.tensor([math.nan, math.inf, -0.0]),
}


@pytest.mark.parametrize("tensor", _SHAPES.values(), ids=_SHAPES)
def test_a_tensor_of_any_shape_arrives_equal(tensor: Tensor, echo: Callable[[object], Any]) -> None:
    arrived = echo(tensor)
    assert type(arrived) is Tensor
    torch.testing.assert_close(arrived, tensor, rtol=0, atol=0, equal_nan=True)
    assert torch.equal(torch.signbit(arrived.real), torch.signbit(tensor.real))


def test_what_arrives_can_be_changed_and_can_grow(echo: Callable[[object], Any]) -> None:
    tensor = echo(torch.arange(6.0)).add_(1)
    assert tensor.resize_(9)[:3].tolist() == [1, 2, 3]
    assert tensor.numpy().flags.writeable
    tensor.share_memory_()
    assert echo(numpy.broadcast_to(numpy.arange(3), (2, 3))).flags.writeable


def test_two_ranks_get_two_copies() -> None:
    shared = torch.zeros(3)

    def add_mine(rank: int, world_size: int, argument: Tensor) -> Tensor:
        return shared.add_(argument.add_(rank + 1))

    results = launch(add_mine, 2, shared, quiet=True)
    assert [tensor.tolist() for tensor in results] == [[2.0] * 3, [4.0] * 3]
    assert shared.tolist() == [0.0] * 3


def test_what_is_sent_twice_or_frozen_or_has_a_note_still_is(echo: Callable[[object], Any]) -> None:
    model, row, noted = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2)), torch.ones(2), torch.ones(2)
    model[0].bias = model[1].bias
    model[0].weight.requires_grad_(False)
    noted.note = "mine"  # type: ignore[attr-defined]
    there, weight, (one, other), computed, its_note = echo((model, model[0].weight, [row, row], model[0](row), noted))
    assert [(n, p.requires_grad, type(p)) for n, p in there.named_parameters()] == [
        (n, p.requires_grad, type(p)) for n, p in model.named_parameters()
    ]
    torch.testing.assert_close(there.state_dict(), model.state_dict(), rtol=0, atol=0)
    assert there[0].weight is weight
    assert there[0].bias is there[1].bias
    assert one is other
    assert (one.requires_grad, computed.requires_grad, its_note.note) == (False, True, "mine")


@nightly
def test_500_megabytes_go_there_and_come_back_and_one_copy_stays() -> None:
    sent = torch.arange(62_500_000)  # eight bytes each

    def turned(rank: int, world_size: int, tensor: Tensor) -> Tensor | None:
        return tensor.neg_() if rank == 0 else None

    before = psutil.Process().memory_info().rss
    results = launch(turned, 2, sent, quiet=True)
    assert torch.equal(results[0], -sent)  # type: ignore[arg-type]
    assert psutil.Process().memory_info().rss - before < 800e6


# --- everything else ------------------------------------------------------------------------------------------------

_VALUES: list[object] = [
    "naïve 漢字 🙂 \x00 \ud800",
    {1: "a", None: {(2, 3): {4.5}}},
    Color.RED,
    Score("recall", {"cat": torch.tensor([0.5, 1.0])}),
    collections.defaultdict(list, {"a": [1]}),
    KeyError("weights"),
    _matrix.to_sparse(),
    torch.max(_matrix, dim=0),
    numpy.array([(1, 2.5)], dtype=[("a", "i4"), ("b", "f8")]),
]


@pytest.mark.parametrize("value", _VALUES, ids=lambda value: f"{type(value).__name__} {without_address(value)}"[:40])
def test_a_value_of_any_kind_arrives_equal(value: object, echo: Callable[[object], Any]) -> None:
    arrived = echo(value)
    assert type(arrived) is type(value)
    assert str(arrived) == str(value)


def test_no_buffer_of_a_call_is_lent_by_a_stream() -> None:
    """A lent BytesIO in a reference cycle ends early releases of Python 3.12 after a failed launch (gh-111049)."""
    buffers = pack_call(print, [torch.ones(3), b"bytes"])[0] + pack_value([torch.ones(3)], from_notebook())
    owners = [type(memoryview(buffer).obj).__name__ for buffer in buffers]
    assert not [owner for owner in owners if "BytesIO" in owner], owners


# --- what cannot travel ---------------------------------------------------------------------------------------------


def _generator() -> Iterator[int]:
    yield 1


CANNOT_TRAVEL: dict[str, Callable[[int], object]] = {
    "dict.*generator.*Next: .*return": lambda rank: {"losses": ({"by epoch": _generator()},)},
    "DistributedDataParallel": lambda rank: nn.parallel.DistributedDataParallel(nn.Linear(2, 2)),
    "ProcessGroup": lambda rank: dist.group.WORLD,
    "Work": lambda rank: dist.isend(torch.ones(1), 0) if rank == 1 else None,
}


@pytest.mark.parametrize("words", by_day(CANNOT_TRAVEL, 2))
def test_a_value_that_cannot_travel_is_named_with_its_rank_and_type(words: str) -> None:
    """The catalog has the whole message."""

    def make(rank: int, world_size: int) -> object:
        made = CANNOT_TRAVEL[words](rank)
        return made if rank == 1 else None

    with pytest.raises(WorkerFailed, match=rf"(?s)\Arank 1 of 2 returned a {words}"):
        launch(make, 2, quiet=True)


def test_an_argument_that_cannot_travel_is_named_by_its_place_and_type() -> None:
    with pytest.raises(
        TypeError, match=r"argument 2 after world_size is a generator.*cannot be pickled and sent to a rank"
    ):
        launch(lambda rank, world_size, one, two: None, 2, 1, _generator(), quiet=True)


# --- results --------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def squares() -> Results[int]:
    return launch(lambda rank, world_size: print(f"I am {rank}") or rank * rank, 4, quiet=True)


def test_results_are_a_sequence_of_the_values_by_rank(squares: Results[int]) -> None:
    assert isinstance(squares, Sequence)
    assert [squares[0], squares[-1], len(squares), squares.index(4), squares.count(9)] == [0, 9, 4, 2, 1]
    assert (list(squares[1:3]), list(squares[::-1]), 4 in squares, 5 in squares) == ([1, 4], [9, 4, 1, 0], True, False)
    assert repr(squares) == "Results([0, 1, 4, 9])"
    with pytest.raises(IndexError):
        squares[4]


def test_results_are_not_changed_by_the_next_call_which_prints_although_stdout_was_closed() -> None:
    def put(rank: int, world_size: int, number: int) -> Tensor:
        print(number, end="")
        sys.stdout.close()
        tensor: Tensor = vars(sys.modules["__main__"]).setdefault("kept", torch.zeros(1))
        return tensor.fill_(number)

    with Workers(1, quiet=True) as workers:
        first, second = workers.run(put, 1), workers.run(put, 2)
    assert (first[0].item(), list(first.lines[0])) == (1, ["1"])
    assert (second[0].item(), list(second.lines[0])) == (2, ["2"])


def test_results_need_no_torch_to_be_read_in_another_process(squares: Results[int]) -> None:
    read = (
        "import pickle, sys; sys.modules['torch'] = None; results = pickle.load(sys.stdin.buffer); "
        "print(list(results), list(results.lines[1]), results.seconds > 0, list(results.events))"
    )
    environment = {**os.environ, "PYTHONPATH": str(PROJECT)}
    said = subprocess.run([sys.executable, "-c", read], input=pickle.dumps(squares), env=environment, stdout=-1)
    assert said.stdout.decode() == "[0, 1, 4, 9] ['I am 1'] True []\n"


def test_tensors_in_results_need_only_torch_to_be_read_in_another_process() -> None:
    """Not this package: what a rank returned is an ordinary tensor by then."""
    packed = pickle.dumps(list(launch(lambda rank, world_size: torch.arange(4.0)[::2], 2, quiet=True)))
    assert b"ddp_lessons" not in packed
    assert str(pickle.loads(packed)[1]) == "tensor([0., 2.])"
