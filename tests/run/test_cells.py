"""What was typed into the cells of a real notebook works in the ranks, and what ranks do stays in them."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest
from nights import by_day, nightly
from notebook_session import NotebookSession
from processes import PROJECT, alive, eventually, kept_port

_FIRST_CELL = """
import asyncio, atexit, builtins, dataclasses, functools, io, os, pickle, random, secrets, signal, subprocess
import sys, tempfile, threading, uuid, warnings
import numpy as np
import torch, torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset, DistributedSampler
from ddp_lessons import Workers, launch
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("lesson")


@pytest.fixture(scope="module")
def kernel(folder: Path) -> Iterator[NotebookSession]:
    path = os.pathsep.join([os.fspath(PROJECT), os.environ.get("PYTHONPATH", "")]).strip(os.pathsep)
    environment = {"PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "", "MY_SETTING": "as it was at first"}
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


# --- functions and classes ------------------------------------------------------------------------------------------

_FUNCTIONS = {
    "closure": """
        def add(number):
            def run(rank, world_size): return rank + number
            return run
        run = add(10)
    """,
    "partial": """
        def add(ten, rank, world_size): return rank + ten
        run = functools.partial(add, 10)
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
    "file": """
        def run(rank, world_size):
            with open(os.devnull) as file: assert not file.read()
            assert "IPython" not in sys.modules  # which has an `open` of its own among the notebook's variables
            return rank + 10
    """,
    "global statement": """
        counter = 9
        def run(rank, world_size):
            global counter
            counter += 1
            return rank + counter
    """,
}


@pytest.mark.parametrize("source", by_day(_FUNCTIONS.values(), 4), ids=_FUNCTIONS)
def test_every_kind_of_function_of_a_cell_runs(kernel: NotebookSession, source: str) -> None:
    assert value(kernel, source, "list(launch(run, 2))") == "[10, 11]"


_CLASSES = {
    "frozen dataclass with slots": """
        @dataclasses.dataclass(frozen=True, slots=True)
        class Thing:
            rank: int
            ten: int = 10
            @property
            def sum(self): return self.rank + self.ten
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
def test_every_kind_of_class_of_a_cell_is_made_sent_saved_and_returned(kernel: NotebookSession, source: str) -> None:
    use = """
        def helper(): return "helped"
        def run(rank, world_size, things):  # does not name the class
            kind, gathered, file = type(things[0]), [None] * world_size, io.BytesIO()
            dist.all_gather_object(gathered, (things[rank], run, helper))
            torch.save(things[rank], file)
            file.seek(0)
            seen = [kind(rank), torch.load(file, weights_only=False), *(thing for thing, *_ in gathered)]
            assert all(type(thing) is kind for thing in seen)
            assert all(functions == [run, helper] for _, *functions in gathered)
            return things[rank], [thing.sum for thing in seen]
        results = launch(run, 2, [Thing(0), Thing(1)])
        [(type(thing) is Thing, thing.sum, sums) for thing, sums in results]
    """
    assert value(kernel, source, use) == "[(True, 10, [10, 10, 10, 11]), (True, 11, [11, 11, 10, 11])]"


def test_a_dataset_of_a_cell_is_loaded_by_worker_processes(kernel: NotebookSession) -> None:
    source = """
        scale = 10
        class Squares(Dataset):
            def __init__(self, count): self.data = torch.arange(count)
            def __len__(self): return len(self.data)
            def __getitem__(self, index): return self.data[index] ** 2 * scale, os.getpid()
        def collate(samples): return [number for number, _ in samples], {process for _, process in samples}
        squares = Squares(8)
        def train(rank, world_size):
            sampler = DistributedSampler(squares, shuffle=False)
            loader = DataLoader(squares, batch_size=2, sampler=sampler, num_workers=2, collate_fn=collate)
            numbers, processes = zip(*loader)
            return int(sum(map(sum, numbers))), len(set().union(*processes) - {os.getpid()})
        list(launch(train, 2))
    """
    assert value(kernel, source) == "[(560, 2), (840, 2)]"


@nightly
def test_spawned_ranks_get_what_forked_ones_get(kernel: NotebookSession) -> None:
    source = """
        class Thing:
            def __init__(self, number): self.number = number + ten
        ten = 10
        def run(rank, world_size, thing):
            gathered = [None] * world_size
            dist.all_gather_object(gathered, Thing(rank))
            print("spawned")
            return thing, [thing.number for thing in gathered], os.getcwd() == here
        here = os.getcwd()
        results = launch(run, 2, Thing(5), start_method="spawn", quiet=True)
        type(results[1][0]) is Thing, results[1][1:], results.lines
    """
    assert value(kernel, source) == str((True, ([10, 11], True), (["spawned"], ["spawned"])))


# --- redefined a moment ago -----------------------------------------------------------------------------------------


def test_what_was_redefined_a_moment_ago_counts_on_kept_workers_too(kernel: NotebookSession) -> None:
    first = """
        number = 1
        class Base:
            def base(self): return "base 1"
        class Thing(Base):
            def name(self): return "thing 1"
        def helper(): return f"helper 1 {number}"
        def run(rank, world_size): return Thing().name(), pickle.loads(pickle.dumps(Thing())).base(), helper()
        workers = Workers(1)
    """
    both = "kept, fresh = workers.run(run)[0], launch(run, 1)[0]\nassert kept == fresh\nkept"
    assert value(kernel, first, both) == "('thing 1', 'base 1', 'helper 1 1')"
    helper = "def helper(): return f'helper 2 {number}'\nnumber = 2"
    assert value(kernel, helper, both) == "('thing 1', 'base 1', 'helper 2 2')"
    changed_in_place = "Base.base = lambda self: 'base 2'"
    again = "class Thing(Base):\n    def name(self): return 'thing 2'"
    assert value(kernel, changed_in_place, again, both) == "('thing 2', 'base 2', 'helper 2 2')"
    assert (
        value(kernel, "thing = workers.run(lambda r, w: Thing())[0]\nworkers.close()\ntype(thing) is Thing") == "True"
    )


def test_an_object_of_the_class_as_it_was_still_works_and_its_class_is_not_changed(kernel: NotebookSession) -> None:
    source = """
        class Thing:
            how = "kernel"
            def name(self): return "old"
        old = Thing()
        class Thing:
            def name(self): return "new"
        def run(rank, world_size, thing):
            type(thing).how = "rank"
            return thing, thing.name(), Thing().name()
        thing, *names = launch(run, 1, old)[0]
        names, type(thing) is type(old), type(old).how, thing.name(), Thing().name()
    """
    assert value(kernel, source) == "(['old', 'new'], True, 'kernel', 'old', 'new')"


# --- modules, folders, the environment ------------------------------------------------------------------------------


def test_a_module_beside_the_notebook_counts_as_it_is_on_disk_now(kernel: NotebookSession, folder: Path) -> None:
    module = folder / "beside.py"
    module.write_text("number = 1\ndef run(rank, world_size): return number\n")
    assert value(kernel, "import beside\nlaunch(beside.run, 1)[0]") == "1"
    module.write_text("number = 22\ndef run(rank, world_size): return number\n")
    assert value(kernel, "def ask(rank, world_size): return beside.number\nlaunch(ask, 1)[0]") == "22"
    assert value(kernel, "launch(beside.run, 1)[0]") == "22"


def test_the_kernels_folder_and_path_count(kernel: NotebookSession, folder: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere.py").write_text("def helper(): return 'from elsewhere'\n")
    source = f"""
        os.mkdir({os.fspath(tmp_path / "new")!r}); os.chdir({os.fspath(tmp_path / "new")!r})
        sys.path.insert(0, {os.fspath(tmp_path)!r})
        def run(rank, world_size):
            import elsewhere
            return elsewhere.helper(), os.path.basename(os.getcwd())
        launch(run, 1)[0]
    """
    try:
        assert value(kernel, source) == "('from elsewhere', 'new')"
        assert "No module named 'elsewhere'" in error(kernel, "sys.path.pop(0)\nlaunch(run, 1)")
    finally:
        kernel.run(f"os.chdir({os.fspath(folder)!r})")


def test_the_environment_counts_as_it_is_now_and_each_rank_is_told_who_it_is(kernel: NotebookSession) -> None:
    source = """
        names = "MY_SETTING RANK LOCAL_RANK WORLD_SIZE LOCAL_WORLD_SIZE MASTER_ADDR".split()
        os.environ.update(MY_SETTING="naïve 漢字 \\udcff", RANK="77")
        def run(rank, world_size): return [os.environ.get(name) for name in names], int(os.environ["MASTER_PORT"])
        told = [values for values, _ in launch(run, 2)]
        told == [[os.environ["MY_SETTING"], rank, rank, "2", "2", "127.0.0.1"] for rank in "01"]
    """
    assert value(kernel, source) == "True"
    assert value(kernel, "os.environ.pop('RANK')") == "'77'"
    assert value(kernel, "del os.environ['MY_SETTING']\nlaunch(run, 1)[0][0][0]") == ""


def test_ranks_share_the_cores_and_an_explicit_setting_wins(kernel: NotebookSession) -> None:
    source = """
        os.environ.pop("OMP_NUM_THREADS", None)
        def threads(rank, world_size): return torch.get_num_threads(), os.environ["OMP_NUM_THREADS"]
        cores = len(os.sched_getaffinity(0))
        [set(launch(threads, size)) == {(max(1, cores // size), str(max(1, cores // size)))} for size in (1, 2, 4)]
    """
    assert value(kernel, source) == "[True, True, True]"
    explicit = "os.environ['OMP_NUM_THREADS'] = '3'\nlist(launch(threads, 2))"
    assert value(kernel, explicit) == "[(3, '3'), (3, '3')]"
    kernel.run("del os.environ['OMP_NUM_THREADS']")


def test_random_numbers_differ_unless_seeded_and_those_of_the_notebook_are_not_disturbed(
    kernel: NotebookSession,
) -> None:
    source = """
        def seed(number): random.seed(number); np.random.seed(number); torch.manual_seed(number)
        def draw(rank, world_size, number=None):
            if number is not None: seed(number)
            shuffled = next(iter(DataLoader(range(10**6), shuffle=True))).item()
            seedable = random.random(), np.random.rand(), torch.rand(1).item(), shuffled
            return *seedable, np.random.default_rng().random(), uuid.uuid4()
        def three_numbers(): return random.random(), np.random.rand(), torch.rand(1).item()
        seed(0)
        undisturbed = three_numbers()
        seed(0)
        draws, seeded = [*launch(draw, 3), *launch(draw, 3), *Workers(2).run(draw)], launch(draw, 3, 1)
        counts = [[len(set(map(str, column))) for column in zip(*rows)] for rows in (draws, seeded)]
        counts, three_numbers() == undisturbed
    """
    assert value(kernel, source) == "([[8, 8, 8, 8, 8, 8], [1, 1, 1, 1, 3, 3]], True)"


# --- functions that join by themselves ------------------------------------------------------------------------------

_WAYS_TO_JOIN = {
    "env": "dist.init_process_group('gloo', init_method='env://')",
    "own address, as in PyTorch's tutorials": """
            os.environ.update(MASTER_ADDR='localhost', MASTER_PORT=str(port))
            dist.init_process_group('gloo', rank=rank, world_size=world_size)""",
    "file": "dist.init_process_group('gloo', init_method='file://' + meeting, rank=rank, world_size=world_size)",
    "tcp": "dist.init_process_group('gloo', init_method=f'tcp://127.0.0.1:{port}', rank=rank, world_size=world_size)",
    "own store": """dist.init_process_group('gloo', rank=rank, world_size=world_size,
                store=dist.TCPStore('127.0.0.1', int(os.environ['MASTER_PORT']), world_size, rank == 0))""",
    "mesh": "dist.init_device_mesh('cpu', (world_size,))",
}


@pytest.mark.parametrize("join", by_day(_WAYS_TO_JOIN.values(), 5), ids=_WAYS_TO_JOIN)
def test_a_function_that_joins_by_itself_runs_and_nothing_else_is_said(
    kernel: NotebookSession, join: str, tmp_path: Path
) -> None:
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


# --- where launch may stand -----------------------------------------------------------------------------------------

_ADD = """
    def add(rank, world_size):
        tensor = torch.ones(1) * rank
        dist.all_reduce(tensor)
        return tensor.item()
"""


@pytest.mark.parametrize(
    "source", ["%%time\nresults = launch(add, 3)", "results = await asyncio.to_thread(launch, add, 3)"]
)
def test_launch_may_stand_in_many_places(kernel: NotebookSession, source: str) -> None:
    assert value(kernel, _ADD, source, "list(results)") == "[3.0, 3.0, 3.0]"


@pytest.mark.parametrize(
    ("call", "words", "line"),
    [
        ("launch(lambda rank, size: dist.init_process_group('gloo'))", "join=False", "cell line 2"),
        ("launch(lambda rank, size: lock.locked())", "the variable lock, a lock.*; create it inside", "line 2"),
        (
            "def inner(rank, size):\n    launch(add)\nlaunch(inner)",
            "launch cannot be called inside a rank",
            "cell line 3",
        ),
    ],
)
def test_a_refused_call_is_one_sentence_with_the_line_of_the_cell(
    kernel: NotebookSession, call: str, words: str, line: str
) -> None:
    value(kernel, _ADD)
    told = error(kernel, f"lock = threading.Lock()\n{call}\nlaunch(add)")
    assert re.search(words, told)
    assert "ddp_lessons/run" not in told
    assert line in told


# --- what ranks do stays in them ------------------------------------------------------------------------------------

_MISCHIEF = {
    "reads stdin": "sys.stdin.read(); list(sys.stdin); os.read(0, 100)",
    "closes stdout": "sys.stdout.close(); sys.stderr.close()",
    "closes the descriptors": "os.close(1); os.close(2)",
    "an exit handler that hangs": "atexit.register(threading.Event().wait)",
    "signals are ignored": "[signal.signal(n, signal.SIG_IGN) for n in (signal.SIGTERM, signal.SIGINT)]",
    "changes the environment": "os.environ.clear(); os.environ['MISCHIEF'] = 'yes'; os.putenv('HOME', '/')",
    "changes libraries": "torch.ones = dist.all_reduce = builtins.print = None; sys.path.clear()",
    "changes what torch assumes": "torch.set_default_dtype(torch.float64); torch.set_grad_enabled(False)",
    "changes the notebook's variables": "box['mischief'] = True; globals()['add'] = None",
    "leaves its group": "dist.destroy_process_group()",
    "warnings are errors": "warnings.simplefilter('error')",
}


@pytest.mark.parametrize("mischief", by_day(_MISCHIEF.values(), 3), ids=_MISCHIEF)
def test_what_a_function_does_reaches_neither_kernel_nor_next_launch(kernel: NotebookSession, mischief: str) -> None:
    look = """
        def look(rank, world_size):
            dist.all_reduce(torch.ones(1))
            environment = dict(os.environ)
            del environment["MASTER_PORT"], environment["DDP_LESSONS_PROCESS"]
            kinds = torch.get_default_dtype(), torch.is_grad_enabled(), os.umask(0o22), threading.active_count()
            return os.getcwd(), environment, sys.path, kinds, box, callable(add)
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
    after = """
        after = list(launch(look, 2)), look_here()
        pairs = zip([*before[0][0], *before[0][1], *before[1]], [*after[0][0], *after[0][1], *after[1]], strict=True)
        [pair for pair in pairs if pair[0] != pair[1]]
    """
    assert value(kernel, _ADD, look, misbehave) == "([0, 1], True)"
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
    processes = list(map(int, kernel.run(textwrap.dedent(source)).stream.split()))
    try:
        assert len(processes) == 3
        assert eventually(lambda: not alive(processes))
    finally:
        for process in processes:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
