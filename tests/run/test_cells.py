"""What was typed into the cells of a real notebook works in the ranks, and what ranks do stays in them."""

from __future__ import annotations

import ast
import contextlib
import os
import re
import signal
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest
from nights import by_day, nightly
from notebook_session import NotebookSession
from processes import PROJECT, alive, eventually, kept_port

_FIRST_CELL = """
import asyncio, atexit, builtins, collections, contextlib, dataclasses, enum, functools, gc, io, logging
import multiprocessing, os, pickle, random, resource, secrets, signal, subprocess, sys, tempfile, threading, typing
import uuid, warnings
import numpy as np
import torch, torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, Dataset, DistributedSampler, IterableDataset
from ddp_lessons import Workers, WorkerFailed, launch
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("lesson")


@pytest.fixture(scope="module")
def kernel(folder: Path) -> Iterator[NotebookSession]:
    path = os.pathsep.join([os.fspath(PROJECT), os.environ.get("PYTHONPATH", "")]).strip(os.pathsep)
    environment = {"PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": ""}
    with NotebookSession(environment, os.fspath(folder)) as session:
        value(session, _FIRST_CELL)
        yield session


def value(kernel: NotebookSession, *cells: str) -> str:
    """What the last of these cells evaluates to."""
    for source in cells:
        cell = kernel.run(textwrap.dedent(source).strip())
        assert not cell.error, cell.error
    return str(cell.value)


def error(kernel: NotebookSession, source: str) -> str:
    return str(kernel.run(textwrap.dedent(source).strip()).error)


# --- kinds of functions ---------------------------------------------------------------------------------------------

_FUNCTIONS = {
    "function": """
        def run(rank, world_size): return rank + 10
    """,
    "lambda": "run = lambda rank, world_size: rank + 10",
    "closure": """
        def add(number):
            def run(rank, world_size): return rank + number
            return run
        run = add(10)
    """,
    "closure over itself": """
        def counting():
            def down(number): return 10 if number == 0 else down(number - 1)
            return lambda rank, world_size: rank + down(5)
        run = counting()
    """,
    "nonlocal": """
        def counting():
            count = 9
            def run(rank, world_size):
                nonlocal count
                count += 1
                return rank + count
            return run
        run = counting()
    """,
    "default arguments": """
        def run(rank, world_size, ten=[10], *, zero={"zero": 0}): return rank + ten[0] + zero["zero"]
    """,
    "any arguments": """
        def run(*args, **options): return args[0] + 10
    """,
    "recursive": """
        def run(rank, world_size, depth=10): return rank if depth == 0 else 1 + run(rank, world_size, depth - 1)
    """,
    "mutually recursive": """
        def even(n): return 10 if n == 0 else odd(n - 1)
        def odd(n): return even(n - 1)
        def run(rank, world_size): return rank + even(4)
    """,
    "partial": """
        def add(ten, rank, world_size): return rank + ten
        run = functools.partial(add, 10)
    """,
    "instance": """
        class Add:
            def __init__(self, ten): self.ten = ten
            def __call__(self, rank, world_size): return rank + self.ten
        run = Add(10)
    """,
    "method": """
        class Trainer:
            ten = 10
            def run(self, rank, world_size): return rank + self.ten
        run = Trainer().run
    """,
    "static method": """
        class Trainer:
            @staticmethod
            def run(rank, world_size): return rank + 10
        run = Trainer.run
    """,
    "class method": """
        class Trainer:
            ten = 10
            @classmethod
            def run(cls, rank, world_size): return rank + cls.ten
        run = Trainer.run
    """,
    "decorated": """
        def ten_more(function):
            @functools.wraps(function)
            def wrapped(*args): return function(*args) + 10
            return wrapped
        @torch.no_grad()
        @ten_more
        def run(rank, world_size): return rank
    """,
    "with a context manager": """
        @contextlib.contextmanager
        def ten(): yield 10
        def run(rank, world_size):
            with ten() as number: return rank + number
    """,
    "with a generator": """
        def tens():
            while True: yield 10
        def run(rank, world_size): return rank + next(tens())
    """,
    "with asyncio": """
        async def ten():
            await asyncio.sleep(0)
            return 10
        def run(rank, world_size): return rank + asyncio.run(ten())
    """,
    "made by exec": """exec("def run(rank, world_size): return rank + 10")""",
    "globals in a comprehension": """
        ten, zeros = 10, [0, 0]
        def run(rank, world_size): return [rank + ten + zero for zero in zeros if (lambda: ten)()][0]
    """,
    "global that hides a builtin": """
        sum = 10
        def run(rank, world_size): return rank + sum
        del_me = run
    """,
    "global statement": """
        counter = 9
        def run(rank, world_size):
            global counter
            counter += 1
            return rank + counter
    """,
    "submodule": """
        import xml.dom.minidom
        def run(rank, world_size): return rank + len(xml.dom.minidom.parseString("<a/>").toxml()) - 16
    """,
    "imported under another name": """
        from math import factorial as how_many
        import os.path as there
        def run(rank, world_size): return rank + how_many(3) + len(there.join("a", "bc"))
    """,
    "imports inside": """
        def run(rank, world_size):
            import colorsys, json as j
            return rank + j.loads("10")
    """,
}


@pytest.mark.parametrize("source", by_day(_FUNCTIONS.values(), 4), ids=_FUNCTIONS)
def test_every_kind_of_function_of_a_cell_runs(kernel: NotebookSession, source: str) -> None:
    kernel.run("for name in ('sum', 'run'): globals().pop(name, None)")
    assert value(kernel, source, "list(launch(run, 2))") == "[10, 11]"


def test_a_function_that_opens_a_file_does_not_load_ipython_into_the_ranks(kernel: NotebookSession) -> None:
    """IPython puts an `open` of its own among the notebook's variables."""
    source = """
        def run(rank, world_size):
            with open(os.devnull) as file: return file.read(), "IPython" in sys.modules
        list(launch(run, 2))
    """
    assert value(kernel, source) == "[('', False), ('', False)]"


def test_a_function_run_from_a_file_by_the_notebook_works(kernel: NotebookSession, folder: Path) -> None:
    source = "ten = 10\nclass Box:\n  pass\ndef helper(): return ten\ndef run(rank, world_size):\n  box = Box()\n"
    (folder / "script.py").write_text(source + "  box.sum = rank + helper()\n  return box\n")
    assert value(kernel, "%run script.py", "[box.sum for box in launch(run)], isinstance(launch(run)[0], Box)") == (
        "([10, 11], True)"
    )


# --- kinds of classes -----------------------------------------------------------------------------------------------

_CLASSES = {
    "class": """
        class Thing:
            def __init__(self, rank): self.rank = rank
            @property
            def sum(self): return self.rank + 10
    """,
    "inherited over cells": """
        class Base:
            def __init__(self, rank): self.rank = rank
        class Middle(Base):
            sum = property(lambda self: self.rank + ten)
            ten = 10
        ten = 10
        class Thing(Middle):
            def __init__(self, rank): super().__init__(rank)
    """,
    "dataclass": """
        @dataclasses.dataclass
        class Thing:
            rank: int
            parts: list[int] = dataclasses.field(default_factory=lambda: [10])
            @property
            def sum(self): return self.rank + self.parts[0]
    """,
    "frozen dataclass with slots": """
        @dataclasses.dataclass(frozen=True, slots=True, order=True)
        class Thing:
            rank: int
            ten: int = 10
            @property
            def sum(self): return self.rank + self.ten
    """,
    "slots": """
        class Thing:
            __slots__ = ("rank", "__dict__")
            def __init__(self, rank): self.rank, self.other = rank, 10
            @property
            def sum(self): return self.rank + self.other
    """,
    "named tuple": """
        class Thing(typing.NamedTuple):
            rank: int
            ten: int = 10
            @property
            def sum(self): return self.rank + self.ten
    """,
    "old named tuple": """
        Pair = collections.namedtuple("Pair", "rank ten", defaults=[10])
        class Thing(Pair):
            sum = property(lambda self: self.rank + self.ten)
    """,
    "enum": """
        class Thing(enum.Enum):
            ZERO = 0
            ONE = 1
            @property
            def sum(self): return self.value + 10
    """,
    "enum of numbers": """
        class Thing(enum.IntFlag):
            ZERO = 0
            ONE = enum.auto()
            @property
            def sum(self): return self + 10
    """,
    "abstract": """
        import abc
        class Base(abc.ABC):
            @property
            @abc.abstractmethod
            def sum(self): ...
        class Thing(Base):
            def __init__(self, rank): self.rank = rank
            @property
            def sum(self): return self.rank + 10
    """,
    "metaclass": """
        class Meta(type):
            registry = {}
            def __new__(cls, name, bases, names):
                made = super().__new__(cls, name, bases, {**names, "ten": 10})
                cls.registry[name] = made
                return made
        class Thing(metaclass=Meta):
            def __init__(self, rank): self.rank = rank
            sum = property(lambda self: self.rank + self.ten)
    """,
    "generic": """
        T = typing.TypeVar("T")
        class Base(typing.Generic[T]):
            def __init__(self, rank: T): self.rank = rank
        class Thing(Base[int]):
            sum = property(lambda self: self.rank + 10)
    """,
    "protocol": """
        @typing.runtime_checkable
        class HasRank(typing.Protocol):
            rank: int
        class Thing:
            def __init__(self, rank):
                self.rank = rank
                assert isinstance(self, HasRank)
            sum = property(lambda self: self.rank + 10)
    """,
    "exception": """
        class Thing(Exception):
            @property
            def sum(self): return self.args[0] + 10
    """,
    "subclass hook": """
        class Base:
            kinds = []
            def __init_subclass__(cls, ten=0): cls.ten = ten; Base.kinds.append(cls.__name__)
        class Thing(Base, ten=10):
            def __init__(self, rank): self.rank = rank
            sum = property(lambda self: self.rank + self.ten)
    """,
    "list": """
        class Thing(list):
            def __init__(self, rank=0): super().__init__([rank, 10])
            sum = property(lambda self: self[0] + self[1])
    """,
    "module": """
        class Thing(nn.Module):
            def __init__(self, rank):
                super().__init__()
                self.layer = nn.Linear(1, 1, bias=False)
                nn.init.constant_(self.layer.weight, rank)
                self.register_buffer("ten", torch.tensor(10))
            def forward(self, x): return self.layer(x) + self.ten
            @property
            def sum(self): return int(self(torch.ones(1)))
    """,
}


@pytest.mark.parametrize("source", _CLASSES.values(), ids=_CLASSES)
def test_every_kind_of_class_of_a_cell_is_made_used_and_returned(kernel: NotebookSession, source: str) -> None:
    use = """
        def run(rank, world_size, thing):
            mine = Thing(rank)
            assert isinstance(thing, Thing)
            assert isinstance(pickle.loads(pickle.dumps(mine)), Thing)
            return mine, mine.sum, thing
        results = launch(run, 2, Thing(1))
        kinds = {type(thing) is Thing for result in results for thing in result[::2]}
        [sum for _, sum, _ in results], [mine.sum for mine, _, _ in results], kinds
    """
    assert value(kernel, source, use) == "([10, 11], [10, 11], {True})"


def test_a_function_with_its_own_backward_of_a_cell_works(kernel: NotebookSession) -> None:
    source = """
        class Tenfold(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x): return x * 10
            @staticmethod
            def backward(ctx, gradient): return gradient * 100
        def run(rank, world_size):
            x = torch.tensor(2.0, requires_grad=True)
            y = Tenfold.apply(x)
            y.backward()
            return y.item(), x.grad.item()
        list(launch(run, 2))
    """
    assert value(kernel, source) == "[(20.0, 100.0), (20.0, 100.0)]"


def test_a_hook_of_a_cell_sees_the_gradients_of_ddp(kernel: NotebookSession) -> None:
    source = """
        from torch.distributed import GradBucket
        seen = []
        def hook(state, bucket: GradBucket) -> torch.futures.Future[torch.Tensor]:
            state.append(bucket.index())
            return dist.all_reduce(bucket.buffer() / dist.get_world_size(), async_op=True).get_future().then(
                lambda future: future.value()[0]
            )
        def run(rank, world_size):
            model = DDP(nn.Linear(3, 1, bias=False))
            model.register_comm_hook(seen, hook)
            model(torch.ones(1, 3) * rank).sum().backward()
            return seen, model.module.weight.grad.tolist()
        list(launch(run, 2)), seen
    """
    assert value(kernel, source) == "([([0], [[0.5, 0.5, 0.5]]), ([0], [[0.5, 0.5, 0.5]])], [])"


def test_source_text_of_the_cell_can_be_read_in_a_rank(kernel: NotebookSession) -> None:
    source = """
        import inspect
        def helper(x):
            return x + 1  # a comment
        def run(rank, world_size):
            return inspect.getsource(helper)
        launch(run, 1)[0]
    """
    assert "a comment" in value(kernel, source)


# --- data -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("worker_processes", [0, 2])
def test_a_dataset_of_a_cell_is_loaded_by_worker_processes(kernel: NotebookSession, worker_processes: int) -> None:
    source = f"""
        scale = 10
        class Squares(Dataset):
            def __init__(self, count): self.data = torch.arange(count)
            def __len__(self): return len(self.data)
            def __getitem__(self, index): return self.data[index] ** 2 * scale, os.getpid()
        class Lines(IterableDataset):
            def __iter__(self): yield from range(5)
        def collate(samples): return [number for number, _ in samples], {{process for _, process in samples}}
        squares = Squares(8)
        def train(rank, world_size):
            sampler = DistributedSampler(squares, shuffle=False)
            loader = DataLoader(
                squares, batch_size=2, sampler=sampler, num_workers={worker_processes}, collate_fn=collate,
                worker_init_fn=lambda number: None, persistent_workers={worker_processes} > 0,
            )
            total, processes = 0, set()
            for epoch in range(2):
                sampler.set_epoch(epoch)
                for numbers, where in loader:
                    total += sum(numbers)
                    processes |= where - {{os.getpid()}}
            lines = DataLoader(Lines(), batch_size=None, num_workers=min({worker_processes}, 1))
            return int(total), len(processes), list(lines)
        list(launch(train, 2))
    """
    kernel.run("globals().pop('sum', None)")
    expected = f"[(1120, {worker_processes}, [0, 1, 2, 3, 4]), (1680, {worker_processes}, [0, 1, 2, 3, 4])]"
    assert value(kernel, source) == expected


def test_worker_processes_of_a_rank_are_forked(kernel: NotebookSession) -> None:
    """Only so do they know the classes of cells. From Python 3.14 on it is no longer the default."""
    source = "launch(lambda rank, world_size: multiprocessing.get_start_method(), 1)[0]"
    assert value(kernel, source) == "'fork'"


def test_a_model_of_a_cell_trains_under_ddp_to_equal_weights(kernel: NotebookSession) -> None:
    source = """
        class Block(nn.Module):
            def __init__(self, width):
                super().__init__()
                self.inner = nn.Linear(width, width)
            def forward(self, x): return F.relu(self.inner(x))
        class Net(Block):
            def __init__(self):
                super().__init__(4)
                self.blocks = nn.ModuleList(Block(4) for _ in range(2))
            def forward(self, x):
                for block in self.blocks: x = block(x)
                return super().forward(x)
        torch.manual_seed(0)  # one net in thirty has no gradient at all, as each output is below 0
        net = Net()
        def train(rank, world_size, model):
            model = DDP(model)
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for _ in range(3):
                optimizer.zero_grad()
                model(torch.randn(8, 4)).square().sum().backward()
                optimizer.step()
            return model.module
        one, other = launch(train, 2, net)
        same = all(torch.equal(a, b) for a, b in zip(one.parameters(), other.parameters()))
        type(one) is Net, same, torch.equal(one.inner.weight, net.inner.weight)
    """
    assert value(kernel, source) == "(True, True, False)"


def test_a_large_variable_of_the_notebook_goes_along_and_is_not_changed(kernel: NotebookSession) -> None:
    source = """
        images = torch.ones(10_000, 28, 28)
        def run(rank, world_size):
            images[:] = rank
            return images.sum().item()
        list(launch(run, 2)), images.mean().item()
    """
    assert value(kernel, source) == "([0.0, 7840000.0], 1.0)"


# --- redefined a moment ago -----------------------------------------------------------------------------------------


@nightly
def test_spawned_ranks_get_what_forked_ones_get(kernel: NotebookSession) -> None:
    source = """
        class Thing:
            def __init__(self, number): self.number = number + ten
        class Numbers(Dataset):
            def __len__(self): return 4
            def __getitem__(self, index): return Thing(index).number
        ten = 10
        def run(rank, world_size, thing):
            gathered = [None] * world_size
            dist.all_gather_object(gathered, Thing(rank))
            print("spawned")
            loaded = [batch.tolist() for batch in DataLoader(Numbers(), batch_size=2, num_workers=1)]
            return thing, [thing.number for thing in gathered], loaded, os.getcwd() == here
        here = os.getcwd()
        results = launch(run, 2, Thing(5), start_method="spawn", quiet=True)
        type(results[1][0]) is Thing, results[1][1:], results.lines
    """
    expected = (True, ([10, 11], [[10, 11], [12, 13]], True), (["spawned"], ["spawned"]))
    assert value(kernel, source) == str(expected)


def test_what_was_redefined_a_moment_ago_counts(kernel: NotebookSession) -> None:
    first = """
        number = 1
        class Base:
            def base(self): return "base 1"
        class Thing(Base):
            def name(self): return "thing 1"
        def helper(): return f"helper 1 {number}"
        def run(rank, world_size): return Thing().name(), Thing().base(), helper()
        launch(run, 1)[0]
    """
    assert value(kernel, first) == "('thing 1', 'base 1', 'helper 1 1')"
    assert (
        value(kernel, "def helper(): return f'helper 2 {number}'\nnumber = 2", "launch(run, 1)[0][2]") == "'helper 2 2'"
    )
    changed_in_place = "Thing.name = lambda self: 'thing 2'\nBase.base = lambda self: 'base 2'"
    assert value(kernel, changed_in_place, "launch(run, 1)[0][:2]") == "('thing 2', 'base 2')"
    anew = "class Thing(Base):\n    def name(self): return 'thing 3'"
    assert value(kernel, anew, "launch(run, 1)[0][:2]") == "('thing 3', 'base 2')"


def test_what_was_redefined_a_moment_ago_counts_on_kept_workers_too(kernel: NotebookSession) -> None:
    open_them = """
        class Thing:
            name = "first"
        def run(rank, world_size): return Thing(), Thing.name, pickle.loads(pickle.dumps(Thing())).name
        workers = Workers(2)
        workers.run(run)[1][1:], isinstance(workers.run(run)[1][0], Thing)
    """
    redefine = """
        class Thing:
            name = "second"
        workers.run(run)[1][1:], isinstance(workers.run(run)[1][0], Thing)
    """
    assert value(kernel, open_them) == "(('first', 'first'), True)"
    assert value(kernel, redefine) == "(('second', 'second'), True)"
    kernel.run("workers.close()")


def test_an_object_of_the_class_as_it_was_still_works(kernel: NotebookSession) -> None:
    source = """
        class Thing:
            def name(self): return "old"
        old = Thing()
        class Thing:
            def name(self): return "new"
        def run(rank, world_size, thing): return thing, thing.name(), Thing().name()
        result = launch(run, 1, old)[0]
        result[1:], type(result[0]) is type(old), result[0].name(), Thing().name()
    """
    assert value(kernel, source) == "(('old', 'new'), True, 'old', 'new')"


_WHERE_CLASSES_LIVE = {
    "class": "class Thing:\n    how = 'kernel'\n    def name(self): return number",
    "nested class": """
        class Outer:
            class Inner:
                how = "kernel"
                def name(self): return number
        Thing = Outer.Inner
    """,
    "class of a function": """
        def make():
            class Made:
                how = "kernel"
                def name(self): return number
            return Made
        Thing = make()
    """,
    "class under another name": """
        class Original:
            how = "kernel"
            def name(self): return number
        Thing = Original
        del Original
    """,
}


@pytest.mark.parametrize("source", _WHERE_CLASSES_LIVE.values(), ids=_WHERE_CLASSES_LIVE)
def test_a_class_of_the_notebook_is_not_changed_by_what_ranks_return(kernel: NotebookSession, source: str) -> None:
    use = """
        number = 1
        methods = dict(vars(Thing))
        def run(rank, world_size, thing):
            type(thing).how = "rank"
            return thing
        thing = launch(run, 1, Thing())[0]
        number = 2
        type(thing) is Thing, Thing.how, thing.name(), vars(Thing)["name"] is methods["name"]
    """
    assert value(kernel, source, use) == "(True, 'kernel', 2, True)"


def test_a_nested_enum_comes_home_as_the_very_member(kernel: NotebookSession) -> None:
    source = """
        class Outer:
            class Color(enum.Enum):
                RED = 1
        def run(rank, world_size, color): return color, Outer.Color.RED
        results = launch(run, 2, Outer.Color.RED)
        all(color is Outer.Color.RED for pair in results for color in pair)
    """
    assert value(kernel, source) == "True"


# --- plain pickle inside a rank -------------------------------------------------------------------------------------


def test_classes_and_functions_of_a_cell_pass_through_torch_and_collectives(kernel: NotebookSession) -> None:
    source = """
        import io
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.layer = nn.Linear(2, 2)
        class Stage(enum.Enum):
            TRAIN = 1
        @dataclasses.dataclass
        class Point:
            rank: int
        def helper(x): return x + 10
        def run(rank, world_size):
            file = io.BytesIO()
            torch.save([Net(), Point(rank), Stage.TRAIN], file)
            file.seek(0)
            net, point, stage = torch.load(file, weights_only=False)
            gathered, sent = [None] * world_size, [Point(100), helper, run] if rank == 0 else [None] * 3
            dist.all_gather_object(gathered, Point(rank))
            dist.broadcast_object_list(sent)
            return type(net) is Net, point, stage is Stage.TRAIN, gathered, sent[0], sent[1](1), sent[2] is run
        results = launch(run, 2)
        results[1] == (True, Point(1), True, [Point(0), Point(1)], Point(100), 11, True)
    """
    assert value(kernel, source) == "True"


@pytest.mark.parametrize("how", ["fork", "spawn", "forkserver"])
def test_a_rank_starts_processes_of_its_own(kernel: NotebookSession, how: str) -> None:
    source = f"""
        import multiprocessing
        def run(rank, world_size):
            with multiprocessing.get_context("{how}").Pool(1) as pool:
                return pool.map(abs, [-1, -2])
        list(launch(run, 2))
    """
    assert value(kernel, source) == "[[1, 2], [1, 2]]"


# --- modules, folders, the environment ------------------------------------------------------------------------------


def test_a_module_beside_the_notebook_counts_as_it_is_on_disk_now(kernel: NotebookSession, folder: Path) -> None:
    module = folder / "beside.py"
    module.write_text("number = 1\ndef run(rank, world_size): return number\n")
    assert value(kernel, "import beside\nlaunch(beside.run, 1)[0]") == "1"
    module.write_text("number = 22\ndef run(rank, world_size): return number\n")
    assert value(kernel, "def ask(rank, world_size): return beside.number\nlaunch(ask, 1)[0]") == "22"
    assert value(kernel, "launch(beside.run, 1)[0]") == "22"


def test_a_module_written_a_moment_ago_is_found(kernel: NotebookSession, folder: Path) -> None:
    source = """
        import importlib
        importlib.invalidate_caches()
        from fresh.deep import Thing, helper
        def run(rank, world_size): return Thing(), helper()
        type(launch(run, 1)[0][0]) is Thing, launch(run, 1)[0][1]
    """
    (folder / "fresh").mkdir()
    (folder / "fresh" / "__init__.py").write_text("")
    (folder / "fresh" / "deep.py").write_text("class Thing: pass\ndef helper(): return 'helped'\n")
    assert value(kernel, source) == "(True, 'helped')"


def test_the_kernels_path_of_modules_counts(kernel: NotebookSession, tmp_path: Path) -> None:
    (tmp_path / "elsewhere.py").write_text("def run(rank, world_size): return 'from elsewhere'\n")
    source = f"""
        sys.path.insert(0, {os.fspath(tmp_path)!r})
        def run(rank, world_size):
            import elsewhere
            return elsewhere.run(rank, world_size)
        launch(run, 1)[0]
    """
    assert value(kernel, source) == "'from elsewhere'"
    assert "No module named 'elsewhere'" in error(kernel, "sys.path.pop(0)\nlaunch(run, 1)")


def test_the_kernels_folder_counts_and_a_module_imported_before_the_move_too(
    kernel: NotebookSession, folder: Path, tmp_path: Path
) -> None:
    (folder / "left_behind.py").write_text("def helper(): return 'still there'\n")
    (tmp_path / "data.txt").write_text("here")
    move = f"import left_behind\nos.chdir({os.fspath(tmp_path)!r})"
    source = """
        def run(rank, world_size): return open("data.txt").read(), os.getcwd()
        launch(run, 1)[0] == ("here", os.getcwd())
    """
    with_module = "def run(rank, world_size): return left_behind.helper()\nlaunch(run, 1)[0]"
    try:
        assert value(kernel, move, source) == "True"
        assert value(kernel, with_module) == "'still there'"
    finally:
        kernel.run(f"os.chdir({os.fspath(folder)!r})")


def test_a_folder_that_is_gone_is_no_reason_not_to_launch(kernel: NotebookSession, folder: Path) -> None:
    source = """
        os.mkdir("gone"); os.chdir("gone"); os.rmdir(os.path.join(os.pardir, "gone"))
        def run(rank, world_size): return rank
        list(launch(run, 2))
    """
    try:
        assert value(kernel, source) == "[0, 1]"
    finally:
        kernel.run(f"os.chdir({os.fspath(folder)!r})")


def test_the_environment_of_the_notebook_counts_as_it_is_now(kernel: NotebookSession) -> None:
    source = """
        os.environ["MY_SETTING"] = "naïve 漢字 \\udcff"
        os.environ.pop("LANGUAGE", None)
        def run(rank, world_size): return [os.environ.get(name) for name in ("MY_SETTING", "LANGUAGE", "HOME")]
        launch(run, 1)[0] == [os.environ["MY_SETTING"], None, os.environ.get("HOME")]
    """
    assert value(kernel, source) == "True"
    assert value(kernel, "del os.environ['MY_SETTING']\nlaunch(run, 1)[0][0]") == ""


def test_each_rank_is_told_who_it_is_as_by_torchrun(kernel: NotebookSession) -> None:
    source = """
        names = "RANK LOCAL_RANK WORLD_SIZE LOCAL_WORLD_SIZE MASTER_ADDR".split()
        os.environ["RANK"] = "77"
        def run(rank, world_size): return [os.environ[name] for name in names], int(os.environ["MASTER_PORT"]) > 1023
        list(launch(run, 2)) == [(["0", "0", "2", "2", "127.0.0.1"], True), (["1", "1", "2", "2", "127.0.0.1"], True)]
    """
    assert value(kernel, source) == "True"
    assert value(kernel, "os.environ.pop('RANK')") == "'77'"


def test_torchs_own_way_of_looking_closely_can_be_set_in_a_cell(kernel: NotebookSession) -> None:
    source = """
        os.environ["TORCH_DISTRIBUTED_DEBUG"] = "DETAIL"
        def run(rank, world_size): dist.all_reduce(torch.ones(2 + rank))
        launch(run, 2, timeout_seconds=20)
    """
    try:
        assert "mismatch" in error(kernel, source).lower()
    finally:
        assert value(kernel, "del os.environ['TORCH_DISTRIBUTED_DEBUG']\nlaunch(lambda r, w: r, 1)[0]") == "0"


def test_ranks_share_the_cores_and_an_explicit_setting_wins(kernel: NotebookSession) -> None:
    source = """
        os.environ.pop("OMP_NUM_THREADS", None)
        def threads(rank, world_size):
            torch.rand(500, 500) @ torch.rand(500, 500)
            return torch.get_num_threads(), os.environ["OMP_NUM_THREADS"]
        cores = len(os.sched_getaffinity(0))
        [set(launch(threads, size)) == {(max(1, cores // size), str(max(1, cores // size)))} for size in (1, 2, 4)]
    """
    assert value(kernel, source) == "[True, True, True]"
    explicit = "os.environ['OMP_NUM_THREADS'] = '3'\nlist(launch(threads, 2))"
    assert value(kernel, explicit) == "[(3, '3'), (3, '3')]"
    assert value(kernel, "del os.environ['OMP_NUM_THREADS']\nlaunch(threads, 1)[0][0] == cores") == "True"


def test_an_explicit_number_of_threads_for_one_library_wins_too(kernel: NotebookSession) -> None:
    source = """
        def mine(rank, world_size):
            torch.set_num_threads(5)
            return torch.get_num_threads()
        list(launch(mine, 2)), torch.get_num_threads() != 5
    """
    assert value(kernel, source) == "([5, 5], True)"


# --- random numbers -------------------------------------------------------------------------------------------------


def test_random_numbers_differ_between_ranks_and_launches_unless_seeded(kernel: NotebookSession) -> None:
    source = """
        random.seed(0); np.random.seed(0); torch.manual_seed(0)
        def draw(rank, world_size, seed=None):
            if seed is not None:
                random.seed(seed); np.random.seed(seed); torch.manual_seed(seed)
            shuffled = next(iter(DataLoader(range(10**6), shuffle=True))).item()
            dropped = F.dropout(torch.ones(64)).tolist()
            seedable = random.random(), np.random.rand(), torch.rand(1).item(), dropped, shuffled
            return *seedable, np.random.default_rng().random(), uuid.uuid4(), secrets.token_hex()
        draws = [*launch(draw, 3), *launch(draw, 3), *Workers(2).run(draw)]
        [len(set(map(str, column))) for column in zip(*draws)]
    """
    assert value(kernel, source) == "[8, 8, 8, 8, 8, 8, 8, 8]"
    seeded = "[len(set(map(str, column))) for column in zip(*launch(draw, 3, 1), *launch(draw, 2, 1))][:5]"
    assert value(kernel, seeded) == "[1, 1, 1, 1, 1]"


def test_random_numbers_of_the_notebook_are_not_disturbed(kernel: NotebookSession) -> None:
    source = """
        def next_three(): return random.random(), np.random.rand(), torch.rand(1).item()
        random.seed(7); np.random.seed(7); torch.manual_seed(7)
        undisturbed = next_three()
        random.seed(7); np.random.seed(7); torch.manual_seed(7)
        launch(lambda rank, world_size: torch.manual_seed(3) and None, 2)
        next_three() == undisturbed
    """
    assert value(kernel, source) == "True"


# --- functions that join by themselves ------------------------------------------------------------------------------


def test_the_functions_of_the_two_official_tutorials_run_on_the_cpu(kernel: NotebookSession) -> None:
    """Without their GPU calls (`.to(rank)`, `device_ids`), and on a free port; nothing is added for `launch`."""
    source = f"""
        def setup(rank, world_size):
            os.environ['MASTER_ADDR'] = 'localhost'
            os.environ['MASTER_PORT'] = '{kept_port()}'
            dist.init_process_group("gloo", rank=rank, world_size=world_size)

        def cleanup():
            dist.destroy_process_group()

        class ToyModel(nn.Module):
            def __init__(self):
                super(ToyModel, self).__init__()
                self.net1 = nn.Linear(10, 10)
                self.relu = nn.ReLU()
                self.net2 = nn.Linear(10, 5)
            def forward(self, x):
                return self.net2(self.relu(self.net1(x)))

        def demo_basic(rank, world_size):
            print(f"Running basic DDP example on rank {{rank}}.")
            setup(rank, world_size)
            ddp_model = DDP(ToyModel())
            loss_fn = nn.MSELoss()
            optimizer = torch.optim.SGD(ddp_model.parameters(), lr=0.001)
            optimizer.zero_grad()
            outputs = ddp_model(torch.randn(20, 10))
            loss_fn(outputs, torch.randn(20, 5)).backward()
            optimizer.step()
            cleanup()
            print(f"Finished running basic DDP example on rank {{rank}}.")

        def run(rank, size):
            tensor = torch.zeros(1)
            if rank == 0:
                tensor += 1
                dist.send(tensor=tensor, dst=1)
            else:
                dist.recv(tensor=tensor, src=0)
            print('Rank ', rank, ' has data ', tensor[0])

        def init_process(rank, size, fn, backend='gloo'):
            os.environ['MASTER_ADDR'] = '127.0.0.1'
            os.environ['MASTER_PORT'] = '{kept_port()}'
            dist.init_process_group(backend, rank=rank, world_size=size)
            fn(rank, size)

        first, second = launch(demo_basic, 2, join=False), launch(init_process, 2, run, join=False)
        [list(lines) for results in (first, second) for lines in results.lines]
    """
    basic = [
        [f"{word} basic DDP example on rank {rank}." for word in ("Running", "Finished running")] for rank in (0, 1)
    ]
    assert ast.literal_eval(value(kernel, source)) == [
        *basic,
        ["Rank  0  has data  tensor(1.)"],
        ["Rank  1  has data  tensor(1.)"],
    ]


_WAYS_TO_JOIN = {
    "nothing": "dist.init_process_group()",
    "env": "dist.init_process_group('gloo', init_method='env://')",
    "env with who": "dist.init_process_group('gloo', rank=rank, world_size=world_size)",
    "file": "dist.init_process_group('gloo', init_method='file://' + meeting, rank=rank, world_size=world_size)",
    "tcp": "dist.init_process_group('gloo', init_method=f'tcp://127.0.0.1:{port}', rank=rank, world_size=world_size)",
    "own store": """dist.init_process_group('gloo', rank=rank, world_size=world_size,
                store=dist.TCPStore('127.0.0.1', int(os.environ['MASTER_PORT']), world_size, rank == 0))""",
    "mesh": "dist.init_device_mesh('cpu', (world_size,))",
}


@pytest.mark.parametrize("join", by_day(_WAYS_TO_JOIN.values(), 6), ids=_WAYS_TO_JOIN)
def test_a_function_that_joins_by_itself_runs(kernel: NotebookSession, join: str, tmp_path: Path) -> None:
    source = f"""
        meeting, port = {os.fspath(tmp_path / "meeting")!r}, {kept_port()}
        def run(rank, world_size):
            assert not dist.is_initialized()
            {join}
            tensor = torch.ones(1) * rank
            dist.all_reduce(tensor)
            return tensor.item()
        results = launch(run, 3, join=False)
        list(results), [list(lines) for lines in results.lines]
    """
    assert value(kernel, source) == "([3.0, 3.0, 3.0], [[], [], []])"


def test_a_function_that_joins_a_second_time_is_told_of_the_option(kernel: NotebookSession) -> None:
    source = """
        def run(rank, world_size):
            dist.init_process_group("gloo", rank=rank, world_size=world_size)
        launch(run, 2)
    """
    told = error(kernel, source)
    assert "cell line 2" in told
    assert "join=False" in told


def test_a_function_that_leaves_its_group_changes_nothing_for_the_next_launch(kernel: NotebookSession) -> None:
    source = """
        def run(rank, world_size):
            dist.barrier()
            dist.destroy_process_group()
            return dist.is_initialized()
        list(launch(run, 2)), list(launch(run, 2)), dist.is_initialized()
    """
    assert value(kernel, source) == "([False, False], [False, False], False)"


# --- where launch may stand -----------------------------------------------------------------------------------------

_ADD = """
    def add(rank, world_size):
        tensor = torch.ones(1) * rank
        dist.all_reduce(tensor)
        print("added")
        return tensor.item()
"""


@pytest.mark.parametrize(
    "source",
    [
        "%%time\nresults = launch(add, 3)",
        "%time results = launch(add, 3)",
        "%%capture\nresults = launch(add, 3)",
        "if __name__ == '__main__':\n    results = launch(add, 3)",
        "with torch.no_grad():\n    results = launch(add, 3)",
        "def main():\n    return launch(add, 3)\nresults = main()",
        "exec('results = launch(add, 3)')",
        "with contextlib.redirect_stdout(None):\n    results = launch(add, 3, quiet=True)",
        "results = await asyncio.to_thread(launch, add, 3)",
        "async def main():\n    await asyncio.sleep(0)\n    return launch(add, 3)\nresults = await main()",
        "results = launch(world_size=3, function=add)",
    ],
)
def test_launch_may_stand_in_many_places(kernel: NotebookSession, source: str) -> None:
    assert value(kernel, _ADD, source, "list(results)") == "[3.0, 3.0, 3.0]"


def test_launches_of_two_threads_of_the_notebook_do_not_mix(kernel: NotebookSession) -> None:
    source = """
        def mine(rank, world_size, name):
            names = [None] * world_size
            dist.all_gather_object(names, (name, rank))
            print(name)
            return names
        both = await asyncio.gather(*(asyncio.to_thread(launch, mine, size, size) for size in (2, 3, 2)))
        [list(results) == [[(size, r) for r in range(size)]] * size and results.lines[1][0] == str(size)
         for size, results in zip((2, 3, 2), both)]
    """
    assert value(kernel, source) == "[True, True, True]"


def test_what_is_printed_for_a_thread_of_the_notebook_is_shown(kernel: NotebookSession) -> None:
    source = """
        thread = threading.Thread(target=launch, args=(add, 2))
        thread.start()
        thread.join()
    """
    value(kernel, _ADD)
    assert kernel.run(textwrap.dedent(source)).text.split() == "rank 0 | added rank 1 | added".split()


def test_a_launch_inside_a_rank_is_refused_at_the_line_of_the_cell(kernel: NotebookSession) -> None:
    source = """
        def inner(rank, world_size): return 0
        def outer(rank, world_size):
            return launch(inner, 2)
        launch(outer, 2)
    """
    told = error(kernel, source)
    assert "launch was called inside a rank" in told
    assert "cell line 3" in told


@pytest.mark.parametrize(
    ("call", "words"),
    [
        ("launch(add, 0)", "ValueError: world_size must be at least 1, not 0"),
        ("launch(add, 2, 'too much')", "TypeError: launch calls add.rank, world_size, <str>.*too many"),
        ("launch(add, 2, backend='nccl')", "ValueError: NCCL needs one GPU per rank"),
        ("launch(lambda rank, world_size: lock.locked(), 2)", "<lambda> uses the variable lock, a lock"),
        ("launch(add)\nlaunch(add, -1)", "ValueError: world_size must be at least 1, not -1"),
    ],
)
def test_a_refused_call_is_one_sentence_with_the_line_of_the_cell(
    kernel: NotebookSession, call: str, words: str
) -> None:
    value(kernel, _ADD)
    told = error(kernel, f"lock = threading.Lock()\n{call}\nlaunch(add)")
    line = call.count("\n") + 2
    assert re.search(words, told)
    assert "ddp_lessons/run" not in told
    assert f"line {line}" in told


# --- what ranks do stays in them ------------------------------------------------------------------------------------

_MISCHIEF = {
    "reads stdin": "sys.stdin.read(); list(sys.stdin); os.read(0, 100)",
    "closes stdin": "sys.stdin.close(); os.close(0)",
    "closes stdout": "sys.stdout.close(); sys.stderr.close()",
    "closes the descriptors": "os.close(1); os.close(2)",
    "opens files in their place": "os.close(1); os.close(2); kept = io.FileIO('lost', 'w'); print('lost')",
    "replaces stdout": "sys.stdout = sys.stderr = None",
    "puts a list in the place of stdout": "sys.stdout = []",
    "threads that live on": "threading.Thread(target=threading.Event().wait).start()",
    "threads that print on": "threading.Thread(target=lambda: [print('on') for _ in iter(int, 1)]).start()",
    "a process that lives on": "os.fork() or os.execlp('sleep', 'sleep', '1234567')",
    "a child in a session of its own": "subprocess.Popen(['sleep', '1234567'], start_new_session=True)",
    "a process of multiprocessing": "multiprocessing.Process(target=threading.Event().wait).start()",
    "a farewell that hangs": "atexit.register(threading.Event().wait)",
    "a farewell that raises": "atexit.register(lambda: 1 / 0)",
    "a deaf ear": "[signal.signal(n, signal.SIG_IGN) for n in (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1)]",
    "an alarm": "signal.setitimer(signal.ITIMER_REAL, 1000)",
    "changes the folder": "os.chdir('/')",
    "removes its folder": "os.chdir(tempfile.mkdtemp()); os.rmdir(os.getcwd())",
    "changes the environment": "os.environ.clear(); os.environ['MISCHIEF'] = 'yes'; os.putenv('HOME', '/')",
    "changes the path of modules": "sys.path.clear(); sys.modules.pop('numpy'); sys.meta_path.clear()",
    "changes libraries": "torch.ones = dist.all_reduce = None; np.random.seed(0); random.seed(0)",
    "changes how torch counts": "torch.set_default_dtype(torch.float64); torch.set_default_device('meta')",
    "switches gradients off": "torch.set_grad_enabled(False); torch.inference_mode().__enter__()",
    "changes builtins": "builtins.print = builtins.open = None",
    "changes the notebook's variables": "box['mischief'] = True; globals()['add'] = None",
    "changes limits": "resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64)); os.nice(5); os.umask(0)",
    "collects no garbage": "gc.disable(); gc.freeze(); sys.setrecursionlimit(10**6)",
    "traces itself": "sys.settrace(lambda *a: None); sys.setprofile(lambda *a: None)",
    "warnings are errors": "warnings.simplefilter('error')",
    "turns off logging": "logging.disable(100)",
    "prints without an end of line": "print('end', end=''); sys.stdout = None",
}


@pytest.mark.parametrize("mischief", by_day(_MISCHIEF.values(), 3), ids=_MISCHIEF)
def test_what_a_function_does_reaches_neither_kernel_nor_next_launch(kernel: NotebookSession, mischief: str) -> None:
    look = """
        def look(rank, world_size):
            dist.all_reduce(torch.ones(1))
            environment = dict(os.environ)
            del environment["MASTER_PORT"], environment["DDP_LESSONS_PROCESS"]
            kinds = torch.get_default_dtype(), torch.rand(1).device, torch.is_grad_enabled(), np.random.rand(1).dtype
            limits = resource.getrlimit(resource.RLIMIT_NOFILE), os.nice(0), os.umask(0o22), sys.getrecursionlimit()
            return os.getcwd(), environment, sys.path, kinds, limits, threading.active_count(), box, callable(add)
        box = {}
        def threads(): return sorted(thread.name for thread in threading.enumerate())
        def look_here(): return os.getcwd(), dict(os.environ), list(sys.path), threads(), os.umask(0o22)
        before = list(launch(look, 2)), look_here()
    """
    misbehave = f"""
        def misbehave(rank, world_size):
            {mischief}
            return rank
        results = launch(misbehave, 2, quiet=True)
        list(results), results.seconds < 3
    """
    value(kernel, _ADD, look)
    assert value(kernel, misbehave) == "([0, 1], True)"
    after = """
        after = list(launch(look, 2)), look_here()
        pairs = zip([*before[0][0], *before[0][1], *before[1]], [*after[0][0], *after[0][1], *after[1]], strict=True)
        [pair for pair in pairs if pair[0] != pair[1]]
    """
    assert value(kernel, after) == "[]"
    assert kernel.run("print('the kernel still prints')").stream == "the kernel still prints\n"


def test_what_ranks_started_ends_with_them(kernel: NotebookSession) -> None:
    source = """
        def leave_behind(rank, world_size):
            plain = subprocess.Popen(["sleep", "1234567"])
            own_session = subprocess.Popen(["sleep", "1234567"], start_new_session=True)
            daemon = subprocess.run("setsid sleep 1234567 >/dev/null 2>&1 & echo $!", shell=True, capture_output=True)
            return plain.pid, own_session.pid, int(daemon.stdout)
        print(*launch(leave_behind, 2)[0])
    """
    plain, *others = kernel.run(textwrap.dedent(source)).stream.split()
    try:
        assert eventually(lambda: not alive([int(plain)]))
        assert eventually(lambda: not alive(list(map(int, others))))
    finally:
        for process in others:
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(process), signal.SIGKILL)


def test_open_workers_survive_a_function_that_closes_what_it_prints_to(kernel: NotebookSession) -> None:
    source = """
        def close(rank, world_size):
            print("before")
            sys.stdout.close()
            os.close(1); os.close(2)
        def speak(rank, world_size):
            print("after")
            os.system("echo from a shell")
        with Workers(2, quiet=True) as workers:
            said = [list(workers.run(function).lines[1]) for function in (close, speak, close, speak)]
        said
    """
    once = "['before'], ['after', 'from a shell']"
    assert value(kernel, source) == f"[{once}, {once}]"


@nightly
def test_a_look_at_a_rank_takes_no_number_of_its_output(kernel: NotebookSession) -> None:
    """Each look opens files, and may come before the rank has opened again what the previous function closed."""
    source = """
        def close(rank, world_size):
            from ddp_lessons.run.rank import rank_main, what_blocks
            def open_for_long(*args, **settings):
                file = open(*args, **settings)
                time.sleep(0.2)
                return file
            def print_to_late(output, print_to=rank_main.print_to):
                time.sleep(0.1)
                print_to(output)
            what_blocks._is_idle = lambda *_: True
            what_blocks.open, rank_main.print_to = open_for_long, print_to_late
            os.close(1); os.close(2)
        def speak(rank, world_size):
            time.sleep(0.5)
            print("after")
        with Workers(2, quiet=True) as workers:
            said = [list(workers.run(function).lines[0]) for function in (close, speak)]
        said
    """
    assert value(kernel, "import time", source) == "[[], ['after']]"


def test_after_all_this_the_kernel_has_no_more_open_files_than_a_launch_needs(kernel: NotebookSession) -> None:
    source = """
        def count(): return len(os.listdir("/proc/self/fd"))
        launch(add, 2, quiet=True)
        before = count()
        for _ in range(5): launch(add, 2, quiet=True)
        count() <= before + 2
    """
    assert value(kernel, _ADD, source) == "True"
    assert sys.platform == "linux"
