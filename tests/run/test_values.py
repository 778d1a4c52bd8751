"""What a rank gets and what it returns: anything that pickles arrives as it was, the rest is named."""

from __future__ import annotations

import collections
import contextvars
import copy
import dataclasses
import datetime
import decimal
import enum
import fractions
import functools
import io
import math
import operator
import os
import pickle
import re
import socket
import subprocess
import sys
import threading
import uuid
import weakref
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

import numpy
import psutil
import pytest
import torch
import torch.distributed as dist
from nights import by_day, nightly
from processes import without_address
from torch import Tensor, nn

import ddp_lessons
from ddp_lessons import Results, WorkerFailed, Workers, launch

_PROJECT = Path(ddp_lessons.__file__).parents[1]
_SHELLS = re.compile(r"torch\.(u?int[1-7]$|qu?int)")  # dtypes of which torch makes no plain tensors
_DTYPES = sorted({d for d in vars(torch).values() if isinstance(d, torch.dtype) and not _SHELLS.match(str(d))}, key=str)


class Color(enum.Enum):
    RED = 1


class Point(NamedTuple):
    x: int
    y: Tensor


@dataclasses.dataclass(frozen=True)
class Score:
    name: str
    by_class: dict[str, Tensor]


class NeedsTwo(Exception):
    """Pickles, but cannot be read back: pickle calls it with one argument."""

    def __init__(self, code: int, reason: str) -> None:
        super().__init__(f"{code}: {reason}")


_kept: list[Workers] = []


@pytest.fixture(scope="module", autouse=True)
def close_kept_workers() -> Iterator[None]:
    yield
    for workers in _kept:
        workers.close()


def there_and_back(value: object) -> Any:
    """Through a rank that is kept, once as an argument and once as a variable that the function uses."""

    def give_back(rank: int, world_size: int, argument: object) -> tuple[object, list[object]]:
        return argument, [value]

    if not _kept:
        _kept.append(Workers(1, quiet=True))
    try:
        argument, variable = _kept[0].run(give_back, value)[0]
    except WorkerFailed:
        _kept.clear()
        raise
    assert type(variable[0]) is type(argument)
    return argument


def returned(make: Callable[[], object]) -> Any:
    """What arrives of something that a rank made."""

    def call(rank: int, world_size: int) -> object:
        return make()

    return launch(call, 1, quiet=True)[0]


def refusal(make: Callable[[], object]) -> WorkerFailed:
    def only_on_rank_1(rank: int, world_size: int) -> object:
        return make() if rank == 1 else None

    with pytest.raises(WorkerFailed) as caught:
        launch(only_on_rank_1, 2, quiet=True)
    return caught.value


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
    "no elements": torch.empty(0),
    "no rows": torch.empty(0, 3),
    "no columns, whole numbers": torch.empty(3, 0, 2, dtype=torch.int64),
    "one element": torch.ones(1, 1, 1),
    "a row": _matrix[1],
    "a column": _matrix[:, 1],
    "the column of a batch of one": _matrix[:1, 1],
    "every second, then the first": _matrix[0, ::2][:1],
    "every second": _matrix[::2, ::3],
    "transposed": _matrix.T,
    "a block": _matrix[1:3, 2:5],
    "expanded": torch.ones(1, 3).expand(4, 3),
    "permuted": torch.rand(2, 3, 4, 5).permute(3, 1, 0, 2),
    "channels last": torch.rand(2, 3, 4, 5).to(memory_format=torch.channels_last),
    "strided by hand": torch.as_strided(_matrix, (3, 3), (1, 1)),
    "conjugated": _complex.conj(),
    "imaginary part": _complex.imag,
    "imaginary part of a conjugate": _complex.conj().imag,
    "one imaginary part of a conjugate": _complex[:1].conj().imag,
    "not a number": torch.tensor([math.nan, math.inf, -0.0]),
    "shared memory": torch.arange(5.0).share_memory_(),
    "of numpy": torch.from_numpy(numpy.arange(6).reshape(2, 3).T),
    "64 dimensions": torch.ones([1] * 64),
}


@pytest.mark.parametrize("tensor", _SHAPES.values(), ids=_SHAPES)
def test_a_tensor_of_any_shape_arrives_equal(tensor: Tensor) -> None:
    arrived = there_and_back(tensor)
    assert type(arrived) is Tensor
    torch.testing.assert_close(arrived, tensor, rtol=0, atol=0, equal_nan=True)
    assert torch.equal(torch.signbit(arrived.real), torch.signbit(tensor.real))


@pytest.mark.parametrize(
    "make",
    [
        lambda: _matrix.to_sparse(),
        lambda: _matrix.to_sparse_csr(),
        lambda: torch.quantize_per_tensor(_matrix, 0.5, 1, torch.qint8),
        lambda: torch.max(_matrix, dim=0),
        lambda: nn.utils.rnn.pack_sequence([torch.ones(3), torch.ones(2)]),
        lambda: nn.Buffer(_matrix),
    ],
    ids=["sparse", "csr", "quantized", "max", "packed", "buffer"],
)
@pytest.mark.filterwarnings("ignore")
def test_a_tensor_of_another_kind_arrives_as_one(make: Callable[[], object]) -> None:
    arrived = returned(make)
    assert type(arrived) is type(make())
    assert str(arrived) == str(make())


def test_a_view_takes_along_its_own_elements_only() -> None:
    def corner(rank: int, world_size: int) -> Tensor:
        return torch.zeros(10_000, 10_000, dtype=torch.uint8)[:2, :2]

    (arrived,) = launch(corner, 1, quiet=True)
    assert arrived.untyped_storage().nbytes() == 4


def test_what_arrives_can_be_worked_with_like_any_tensor() -> None:
    tensor = there_and_back(torch.arange(6.0).reshape(2, 3))
    tensor.add_(1)
    assert tensor.numpy().flags.writeable
    tensor.share_memory_()
    assert tensor[0].tolist() == [1, 2, 3]


def test_what_arrives_can_grow_like_any_tensor() -> None:
    total = there_and_back(torch.ones(1))
    assert total.resize_(5)[0] == 1


def test_two_ranks_get_two_copies() -> None:
    shared = torch.zeros(3)

    def add_mine(rank: int, world_size: int, argument: Tensor) -> Tensor:
        return shared.add_(argument.add_(rank + 1))

    results = launch(add_mine, 2, shared, quiet=True)
    assert [tensor.tolist() for tensor in results] == [[2.0] * 3, [4.0] * 3]
    assert shared.tolist() == [0.0] * 3


def test_one_thing_sent_twice_is_one_thing_when_it_arrives() -> None:
    model, row = nn.Linear(2, 2), torch.ones(2)
    arrived_model, weight, (one, other) = there_and_back((model, model.weight, [row, row]))
    assert arrived_model.weight is weight
    assert one is other


def test_gradients_are_wanted_where_they_were() -> None:
    wanted, unwanted = torch.ones(2, requires_grad=True), torch.ones(2)
    assert [tensor.requires_grad for tensor in there_and_back([wanted, unwanted, wanted * 2])] == [True, False, True]


def test_a_tensor_keeps_the_attributes_that_were_put_on_it() -> None:
    tensor, parameter = torch.ones(2), nn.Parameter(torch.ones(2))
    tensor.note, parameter.note = "mine", "too"  # type: ignore[attr-defined]
    arrived = there_and_back([tensor, parameter])
    assert [arrived[0].note, arrived[1].note] == ["mine", "too"]


def test_a_model_arrives_with_parameters_buffers_and_frozen_layers() -> None:
    model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 3), nn.LSTM(3, 2))
    model[0].weight.requires_grad_(False)
    model[2].bias = model[1].bias = nn.Parameter(torch.rand(4)[:3])
    arrived = there_and_back(model)
    assert [(n, p.requires_grad, type(p)) for n, p in arrived.named_parameters()] == [
        (n, p.requires_grad, type(p)) for n, p in model.named_parameters()
    ]
    assert arrived[2].bias is arrived[1].bias
    torch.testing.assert_close(arrived.state_dict(), model.state_dict(), rtol=0, atol=0)


def test_an_optimizer_arrives_with_its_state_and_steps_the_model_that_came_along() -> None:
    model = nn.Linear(2, 1)
    optimizer = torch.optim.Adam(model.parameters())

    def step(rank: int, world_size: int) -> tuple[nn.Module, torch.optim.Optimizer]:
        model(torch.ones(1, 2)).sum().backward()
        optimizer.step()
        return model, optimizer

    ((stepped, its_optimizer),) = launch(step, 1, quiet=True)
    assert its_optimizer.param_groups[0]["params"][0] is stepped.weight
    assert its_optimizer.state[stepped.weight]["step"] == 1
    assert not torch.equal(stepped.weight, model.weight)


@pytest.mark.parametrize("batch_size", [2, None])
def test_data_of_the_notebook_goes_on_to_the_workers_of_a_loader(batch_size: int | None) -> None:
    data = torch.arange(8.0)

    def load(rank: int, world_size: int) -> float:
        samples: Any = list(data)
        loader: Any = torch.utils.data.DataLoader(samples, batch_size=batch_size, num_workers=2)
        return float(sum(batch.sum() for batch in loader))

    assert list(launch(load, 1, quiet=True)) == [28.0]


@nightly
def test_500_megabytes_go_there_and_come_back_and_one_copy_stays() -> None:
    sent = torch.arange(62_500_000)  # eight bytes each

    def turned(rank: int, world_size: int, tensor: Tensor) -> Tensor | None:
        return tensor.neg_() if rank == 0 else None

    before = psutil.Process().memory_info().rss
    results = launch(turned, 2, sent, quiet=True)
    assert torch.equal(results[0], -sent)  # type: ignore[arg-type]
    assert psutil.Process().memory_info().rss - before < 800e6


def test_200_megabytes_of_bytes_come_back() -> None:
    def make(rank: int, world_size: int) -> bytes:
        return b"x" * 200_000_000

    assert len(launch(make, 1, quiet=True)[0]) == 200_000_000


# --- everything else ------------------------------------------------------------------------------------------------

_VALUES: list[object] = [
    None,
    NotImplemented,
    ...,
    True,
    10**1000,
    -0.0,
    1e-320,
    3 + 4j,
    "",
    "naïve 漢字 🙂 \x00 \ud800",
    b"\x00\xff",
    bytearray(b"abc"),
    (),
    [[], [[]], {}],
    {1: "a", None: {(2, 3): {4.5}}},
    frozenset({1, 2}),
    range(3, 100, 7),
    slice(1, None, 2),
    Color.RED,
    Color,
    Point(1, torch.ones(2)),
    Score("recall", {"cat": torch.tensor([0.5, 1.0])}),
    collections.OrderedDict(b=1, a=2),
    collections.Counter("hello"),
    collections.deque([1, 2], maxlen=2),
    collections.defaultdict(list, {"a": [1]}),
    datetime.datetime(2024, 2, 29, tzinfo=datetime.timezone.utc),
    decimal.Decimal("0.1"),
    fractions.Fraction(1, 3),
    uuid.UUID(int=5),
    Path("a folder/file"),
    re.compile("a(b)", re.IGNORECASE),
    functools.partial(operator.add, 1),
    torch.float16,
    torch.device("cpu"),
    torch.Size([2, 3]),
    torch.float64,
    numpy.float32(1.5),
    numpy.datetime64("2024-01-01"),
    torch.nn.functional.relu,
    math,
    int,
    print,
]


@pytest.mark.parametrize("value", _VALUES, ids=lambda value: f"{type(value).__name__} {without_address(value)}"[:40])
def test_a_value_of_any_kind_arrives_equal(value: object) -> None:
    arrived = there_and_back(value)
    assert type(arrived) is type(value)
    assert str(arrived) == str(value)


@pytest.mark.parametrize(
    "array",
    [
        numpy.arange(12).reshape(3, 4),
        numpy.asfortranarray(numpy.arange(12).reshape(3, 4)),
        numpy.arange(12)[::-2],
        numpy.array(5),
        numpy.empty((0, 3)),
        numpy.array(["a", "ü"]),
        numpy.array([{}, None], dtype=object),
        numpy.array([(1, 2.5)], dtype=[("a", "i4"), ("b", "f8")]),
        numpy.array([1, 2], dtype=">i4"),
        numpy.broadcast_to(numpy.arange(3), (2, 3)),
        numpy.array(["2024-01-01"], dtype="datetime64[D]"),
    ],
    ids=lambda array: f"{array.dtype} {array.shape}",
)
def test_an_array_of_numpy_arrives_equal_and_writable(array: Any) -> None:
    arrived = there_and_back(array)
    numpy.testing.assert_array_equal(arrived, array, strict=True)
    assert arrived.dtype == array.dtype
    assert arrived.flags.writeable


def test_an_enum_comes_home_as_the_very_member() -> None:
    assert there_and_back(Color.RED) is Color.RED


def test_what_contains_itself_arrives() -> None:
    loop: list[Any] = [1]
    loop.append(loop)
    arrived = there_and_back(loop)
    assert arrived[1] is arrived


def test_exceptions_are_values_too() -> None:
    def both(rank: int, world_size: int) -> Sequence[object]:
        try:
            return [1 / 0]
        except ZeroDivisionError as error:
            return [error, KeyError("weights"), WorkerFailed, KeyboardInterrupt, StopIteration(3), SystemExit(2)]

    assert [repr(value) for value in launch(both, 1, quiet=True)[0]] == [
        "ZeroDivisionError('division by zero')",
        "KeyError('weights')",
        repr(WorkerFailed),
        repr(KeyboardInterrupt),
        "StopIteration(3)",
        "SystemExit(2)",
    ]


def test_functions_and_classes_made_in_the_rank_arrive() -> None:
    def make(rank: int, world_size: int) -> tuple[Callable[[int], int], object]:
        class Made:
            def __init__(self, numbers: list[int]) -> None:
                self.numbers = numbers

        return lambda number: number + rank, Made([rank])

    add, made = launch(make, 2, quiet=True)[1]
    assert add(10) == 11
    assert vars(made) == {"numbers": [1]}


def test_what_each_rank_returns_is_in_its_place_also_if_the_last_returns_first() -> None:
    def after_the_next(rank: int, world_size: int) -> int:
        token = torch.zeros(1)
        if rank + 1 < world_size:
            dist.recv(token, rank + 1)
        if rank > 0:
            dist.send(token, rank - 1)
        return rank * 10

    assert list(launch(after_the_next, 4, quiet=True)) == [0, 10, 20, 30]


# --- what cannot travel ---------------------------------------------------------------------------------------------


def _generator() -> Iterator[int]:
    yield 1


async def _coroutine() -> None:
    pass


_UNTRANSPORTABLE: dict[str, tuple[Callable[[], object], str]] = {
    "generator": (_generator, "returned a generator"),
    "generator in a list": (lambda: [1, _generator()], "returned a list.*generator"),
    "generator deep inside": (lambda: {"losses": ({"by epoch": _generator()},)}, "returned a dict.*generator"),
    "coroutine": (_coroutine, "returned a coroutine"),
    "lock": (threading.Lock, "returned a lock"),
    "lock inside an object": (threading.Event, "returned a Event.*lock"),
    "thread": (threading.current_thread, "returned a _MainThread"),
    "frame": (sys._getframe, "returned a frame"),
    "socket": (socket.socket, "returned a socket"),
    "process": (lambda: subprocess.Popen(["true"]), "returned a Popen"),
    "file": (lambda: io.FileIO(os.devnull, "wb"), "returned a FileIO"),
    "weak reference": (lambda: weakref.ref(Color), "returned a (ReferenceType|weakref)"),
    "context": (contextvars.copy_context, "returned a Context"),
    "batches": (lambda: iter(torch.utils.data.DataLoader([1, 2])), "returned a _SingleProcessDataLoaderIter"),  # type: ignore[arg-type]
    "group": (lambda: dist.group.WORLD, "returned a ProcessGroup"),
    "handle": (lambda: dist.isend(torch.ones(1), 0), "returned a Work"),
}


@pytest.mark.parametrize(("make", "words"), by_day(_UNTRANSPORTABLE.values(), 2), ids=_UNTRANSPORTABLE)
def test_a_value_that_cannot_travel_is_named_with_its_rank_and_type(make: Callable[[], object], words: str) -> None:
    message = str(refusal(make))
    assert re.search(f"^rank 1 of 2 {words}", message)
    assert "cannot be pickled and sent to the notebook" in message


class ReadsBadly:
    def __reduce__(self) -> tuple[Callable[..., object], tuple[object, ...]]:
        return operator.truediv, (1, 0)


class WritesBadly:
    def __getstate__(self) -> NoReturn:
        raise RuntimeError("I am too shy")


@pytest.mark.parametrize(
    ("make", "words"),
    by_day(
        [
            (lambda: NeedsTwo(3, "no"), "NeedsTwo.*missing 1 required positional argument"),
            (ReadsBadly, "ReadsBadly.*division by zero"),
            (lambda: [ReadsBadly()], "list.*division by zero"),
            (WritesBadly, "WritesBadly.*I am too shy"),
        ],
        2,
    ),
    ids=["exception", "reads badly", "inside a list", "writes badly"],
)
def test_a_value_that_breaks_on_its_way_is_named_with_its_rank_and_type(make: Callable[[], object], words: str) -> None:
    assert re.search(f"rank 1 of 2 returned a {words}", str(refusal(make)), re.S)


def test_a_model_wrapped_in_ddp_is_named() -> None:
    """Unpickled, it asks for the process group, which the notebook does not have."""

    def wrapped(rank: int, world_size: int) -> nn.Module:
        return nn.parallel.DistributedDataParallel(nn.Linear(2, 2))

    with pytest.raises(WorkerFailed, match="returned a DistributedDataParallel"):
        launch(wrapped, 1, quiet=True)


def test_a_list_that_is_too_deep_for_pickle_is_a_plain_error() -> None:
    def nest(rank: int, world_size: int) -> object:
        nested: list[Any] = []
        for _ in range(100_000):
            nested = [nested]
        return nested

    with pytest.raises(WorkerFailed, match="rank 0 of 1 returned a list"):
        launch(nest, 1, quiet=True)


def test_the_advice_for_a_value_that_cannot_travel_is_to_return_another() -> None:
    advice = str(refusal(_generator)).rpartition("Next: ")[2]
    assert "return" in advice


def test_an_argument_that_cannot_travel_is_named_by_its_place_and_type() -> None:
    def take(rank: int, world_size: int, one: object, two: object) -> None: ...

    with pytest.raises(TypeError, match=r"argument 2 after world_size is a generator.*cannot be pickled for a rank"):
        launch(take, 2, 1, _generator(), quiet=True)


def test_a_variable_that_cannot_travel_is_named_with_the_function_that_uses_it() -> None:
    door = threading.Lock()

    def enter(rank: int, world_size: int) -> bool:
        return door.locked()

    with pytest.raises(TypeError, match=r"enter uses the variable door, a lock.*create it inside enter"):
        launch(enter, 2, quiet=True)


def test_a_default_argument_that_cannot_travel_is_named() -> None:
    def enter(rank: int, world_size: int, door: object = threading.Lock()) -> None: ...

    with pytest.raises(TypeError, match=r"enter cannot be pickled|door"):
        launch(enter, 2, quiet=True)


def test_an_argument_that_only_breaks_in_the_rank_is_told_in_one_sentence() -> None:
    def take(rank: int, world_size: int, value: object) -> None: ...

    with pytest.raises(WorkerFailed, match=r"ReadsBadly|ZeroDivisionError: division by zero"):
        launch(take, 2, ReadsBadly(), quiet=True)


def test_after_a_value_that_could_not_travel_the_next_launch_works() -> None:
    refusal(_generator)
    assert there_and_back(1) == 1


# --- results --------------------------------------------------------------------------------------------------------


def square(rank: int, world_size: int) -> int:
    print(f"I am {rank}")
    return rank * rank


@pytest.fixture(scope="module")
def squares() -> Results[int]:
    return launch(square, 4, quiet=True)


def test_results_are_a_sequence_of_the_values_by_rank(squares: Results[int]) -> None:
    assert isinstance(squares, Sequence)
    assert [squares[0], squares[3], squares[-1], len(squares), squares.index(4), squares.count(9)] == [0, 9, 9, 4, 2, 1]
    assert (list(squares[1:3]), list(squares[::-1]), 4 in squares, 5 in squares) == ([1, 4], [9, 4, 1, 0], True, False)


def test_results_know_no_rank_beyond_the_last(squares: Results[int]) -> None:
    with pytest.raises(IndexError):
        squares[4]
    with pytest.raises(TypeError):
        squares["0"]  # type: ignore[call-overload]


def test_results_unpack_and_read_well(squares: Results[int]) -> None:
    first, *_, last = squares
    assert (first, last, repr(squares)) == (0, 9, "Results([0, 1, 4, 9])")


def test_results_are_true_also_if_all_values_are_none() -> None:
    def nothing(rank: int, world_size: int) -> None: ...

    results = launch(nothing, 2, quiet=True)
    assert list(results) == [None, None]
    assert results


def test_results_hold_lines_events_and_seconds(squares: Results[int]) -> None:
    assert [list(lines) for lines in squares.lines] == [["I am 0"], ["I am 1"], ["I am 2"], ["I am 3"]]
    assert type(squares.lines[2]).__name__ == "list"
    assert len(squares.events) == 0
    assert squares.seconds > 0


def test_results_are_not_changed_by_the_next_call_on_the_same_workers() -> None:
    def put(rank: int, world_size: int, number: int) -> Tensor:
        print(number)
        tensor: Tensor = vars(sys.modules["__main__"]).setdefault("kept", torch.zeros(1))
        return tensor.fill_(number)

    with Workers(1, quiet=True) as workers:
        first, second = workers.run(put, 1), workers.run(put, 2)
    assert (first[0].item(), list(first.lines[0])) == (1, ["1"])
    assert (second[0].item(), list(second.lines[0])) == (2, ["2"])


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, lambda results: pickle.loads(pickle.dumps(results))])
def test_a_copy_of_results_is_the_same_data(
    copied: Callable[[Results[int]], Results[int]], squares: Results[int]
) -> None:
    twin = copied(squares)
    assert (list(twin), twin.lines, twin.events, twin.seconds) == (
        list(squares),
        squares.lines,
        squares.events,
        squares.seconds,
    )


def test_results_can_be_saved_and_loaded_by_torch(squares: Results[int]) -> None:
    file = io.BytesIO()
    torch.save(squares, file)
    file.seek(0)
    assert list(torch.load(file, weights_only=False)) == [0, 1, 4, 9]


_READ = """
import pickle, sys
class NoTorch:
    def find_spec(self, name, path=None, target=None):
        if name == "torch":
            raise ImportError("this process has no torch")
sys.meta_path.insert(0, NoTorch())
results = pickle.load(sys.stdin.buffer)
print(list(results), list(results.lines[1]), results[-1], results.seconds > 0, list(results.events))
"""


def test_results_need_no_torch_to_be_read_in_another_process(squares: Results[int]) -> None:
    environment = {**os.environ, "PYTHONPATH": str(_PROJECT)}
    said = subprocess.run(
        [sys.executable, "-c", _READ], input=pickle.dumps(squares), env=environment, capture_output=True
    )
    assert said.stdout.decode() == "[0, 1, 4, 9] ['I am 1'] 9 True []\n", said.stderr.decode()


def test_tensors_in_results_need_only_torch_to_be_read_in_another_process() -> None:
    """Not this package: what a rank returned is an ordinary tensor by then."""

    def make(rank: int, world_size: int) -> dict[str, Tensor]:
        return {"weights": torch.arange(4.0)[::2], "none": torch.empty(0)}

    packed = pickle.dumps(list(launch(make, 2, quiet=True)))
    assert b"ddp_lessons" not in packed
    assert str(pickle.loads(packed)[1]["weights"]) == "tensor([0., 2.])"


def test_a_failure_survives_pickling_with_the_results_that_there_were() -> None:
    def only_rank_0_returns(rank: int, world_size: int) -> Tensor:
        print("here")
        if rank == 1:
            raise ValueError("no")
        return torch.ones(1)

    with pytest.raises(WorkerFailed) as caught:
        launch(only_rank_0_returns, 2, quiet=True)
    twin = pickle.loads(pickle.dumps(caught.value))
    assert (str(twin), twin.rank, twin.traceback(1)) == (str(caught.value), 1, caught.value.traceback(1))
    assert (twin.results[0], list(twin.results.lines[1])) == (torch.ones(1), ["here"])
    assert repr(twin.results[1]) == "<no value>"
