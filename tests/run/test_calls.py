"""A call that cannot work is refused in one sentence of the learner's words, before any process starts."""

from __future__ import annotations

import functools
import os
import re
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy
import pytest
import torch
import torch.distributed as dist
from nights import by_day
from processes import without_address

import ddp_lessons
from ddp_lessons import Workers, launch
from ddp_lessons.run.launcher.launch_arguments import checked_backend

_PROJECT = Path(ddp_lessons.__file__).parents[1]
# what Python reports when a process, a meeting place or a port is made
_BEGINNINGS = {"subprocess.Popen", "os.fork", "os.posix_spawn", "socket.bind", "socket.sendmsg", "tempfile.mkdtemp"}
_begun: list[str] = []
sys.addaudithook(lambda event, arguments: _begun.append(event) if event in _BEGINNINGS else None)


def run(rank: int, world_size: int) -> int:
    return rank


def one_argument(rank: int) -> int:
    return rank


def needs_data(rank: int, world_size: int, data: object, *, epochs: int = 1) -> int:
    return rank


def needs_a_keyword(rank: int, world_size: int, *, epochs: int) -> int:
    return rank


def steps(rank: int, world_size: int) -> Iterator[int]:
    yield rank


async def train(rank: int, world_size: int) -> int:
    return rank


async def train_steps(rank: int, world_size: int) -> AsyncIterator[int]:
    yield rank


@contextmanager
def nothing_begins() -> Iterator[None]:
    _begun.clear()
    yield
    assert _begun == []


def refusal(call: Callable[[], object]) -> Exception:
    with nothing_begins(), pytest.raises((TypeError, ValueError)) as caught:
        call()
    return caught.value


@pytest.mark.parametrize(
    ("world_size", "kind", "words"),
    [
        (0, ValueError, "world_size must be at least 1, not 0"),
        (-1, ValueError, "world_size must be at least 1, not -1"),
        (10_000, ValueError, "world_size is 10,000.*each is a process"),
        (10**30, ValueError, "at most"),
        (2.5, TypeError, r"an integer, the number of ranks, not 2.5 \(float\)"),
        (4.0, TypeError, r"an integer, the number of ranks, not 4.0 \(float\)"),
        (float("nan"), TypeError, "an integer, the number of ranks, not nan"),
        ("4", TypeError, r"not '4' \(str\); write 4"),
        ("four", TypeError, r"not 'four' \(str\)$"),
        (None, TypeError, "not None"),
        (True, TypeError, "not True"),
        ([4], TypeError, r"not \[4\] \(list\)"),
        (4 + 0j, TypeError, "complex"),
        (torch.tensor(2.5), TypeError, "Tensor"),
        (torch.tensor([1, 2]), TypeError, "Tensor"),
        (one_argument, TypeError, "function"),
    ],
    ids=without_address,
)
def test_a_world_size_that_is_not_a_number_of_ranks_is_refused(
    world_size: Any, kind: type[Exception], words: str
) -> None:
    error = refusal(lambda: launch(run, world_size))
    assert type(error) is kind
    assert re.search(words, str(error))
    assert str(refusal(lambda: Workers(world_size))) == str(error)


@pytest.mark.parametrize("world_size", [numpy.int64(2), torch.tensor(2)], ids=["numpy", "torch"])
def test_a_whole_number_of_another_library_is_a_world_size(world_size: Any) -> None:
    def kinds(rank: int, world_size: int) -> str:
        return type(world_size).__name__

    assert list(launch(kinds, world_size, quiet=True)) == ["int", "int"]


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (None, "needs a function that every rank calls, not None.*without parentheses"),
        (3, "needs a function that every rank calls, not 3"),
        ("run", "needs a function that every rank calls, not 'run'"),
        (torch.ones(2), "needs a function that every rank calls"),
        (steps, r"steps is a generator \(it has a yield\).*return a list"),
        (steps(0, 1), "needs a function that every rank calls"),
        (functools.partial(steps), "is a generator"),
        (train, r"train is a coroutine \(async def\).*define it with def"),
        (functools.partial(train), "is a coroutine"),
        (train_steps, "train_steps is a (coroutine|generator)"),
        (one_argument, r"launch calls one_argument\(rank, world_size\), but it is defined as one_argument\(rank"),
        (lambda: 0, "too many positional arguments"),
        (needs_data, "missing a required argument: 'data'"),
        (needs_a_keyword, "missing a required.*argument: 'epochs'"),
    ],
    ids=lambda value: getattr(value, "__name__", type(value).__name__) if not isinstance(value, str) else value[:20],
)
def test_what_no_rank_can_call_is_refused(function: Any, words: str) -> None:
    assert re.search(words, str(refusal(lambda: launch(function, 2))))


@pytest.mark.parametrize("arguments", [(), (1, 2)], ids=["too few", "too many"])
def test_a_wrong_number_of_arguments_is_refused_with_how_the_call_would_look(arguments: tuple[object, ...]) -> None:
    message = str(refusal(lambda: launch(needs_data, 2, *arguments)))
    assert "needs_data(rank, world_size" in message
    assert "data: 'object', *, epochs: 'int' = 1" in message


def test_the_two_arguments_in_the_wrong_order_are_refused_in_words_without_addresses() -> None:
    message = str(refusal(lambda: launch(4, run)))  # type: ignore[arg-type, call-overload, unused-ignore]
    assert re.search(r"\b4\b|\brun\b", message)
    assert "0x" not in message


def test_an_instance_that_cannot_be_called_is_refused_by_what_it_is() -> None:
    class Trainer:
        def train(self, rank: int, world_size: int) -> int:
            return rank

    assert "Trainer" in str(refusal(lambda: launch(Trainer(), 2)))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("backend", "words"),
    [
        ("glo", "unknown backend 'glo'; torch has .*gloo"),
        ("", "unknown backend ''"),
        ("tcp", "unknown backend 'tcp'"),
        ("gloo,", "unknown backend 'gloo,'"),
        ("mpi", "this build of torch has no backend 'mpi'"),
        (4, "backend must be a name"),
        (["gloo"], "backend must be a name"),
    ],
    ids=without_address,
)
def test_a_backend_that_is_not_there_is_refused(backend: Any, words: str) -> None:
    assert re.search(words, str(refusal(lambda: launch(run, 2, backend=backend))))
    assert re.search(words, str(refusal(lambda: Workers(2, backend=backend))))


def test_a_backend_that_is_not_there_is_refused_also_if_the_function_joins_by_itself() -> None:
    assert "unknown backend 'glo'" in str(refusal(lambda: launch(run, 2, backend="glo", join=False)))


@pytest.mark.parametrize("backend", ["nccl", "NCCL", "cuda:nccl", "cpu:gloo,cuda:nccl"])
def test_nccl_without_a_gpu_for_each_rank_is_refused(backend: str) -> None:
    world_size = torch.cuda.device_count() + 1
    message = str(refusal(lambda: launch(run, world_size, backend=backend)))
    assert f"one GPU per rank: {world_size} ranks, but torch sees {world_size - 1} GPUs" in message
    assert 'backend="gloo"' in message


@pytest.mark.parametrize(
    ("gpus", "world_size", "backend"),
    [(0, 2, "gloo"), (1, 2, "gloo"), (2, 4, "gloo"), (2, 2, "cpu:gloo,cuda:nccl"), (4, 2, "cpu:gloo,cuda:nccl")],
)
def test_without_a_named_backend_nccl_is_taken_where_each_rank_has_a_gpu(
    gpus: int, world_size: int, backend: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "device_count", lambda: gpus)
    monkeypatch.setattr(dist, "is_nccl_available", lambda: True)
    assert checked_backend(None, world_size) == backend


@pytest.mark.parametrize("devices", by_day([[], ["nvidia0", "nvidia1"]], 1))
def test_gpus_are_counted_also_where_only_the_function_imports_torch(devices: list[str], tmp_path: Path) -> None:
    for device in devices:
        (tmp_path / device).touch()
    count = (
        "import sys; from ddp_lessons.run.launcher import launch_arguments as arguments\n"
        f"arguments._DEVICES = ({str(tmp_path / 'nvidia[0-9]*')!r},)\n"
        "arguments._gpus(); print('torch' in sys.modules)"
    )
    asked = subprocess.run([sys.executable, "-c", count], cwd=_PROJECT, capture_output=True, text=True, check=True)
    assert asked.stdout == f"{bool(devices)}\n"


@pytest.mark.parametrize(("backend", "expected"), [("gloo", [[], []]), ("cpu:gloo,cuda:nccl", [[0], [1]])])
def test_with_nccl_each_rank_has_a_gpu_of_its_own(backend: str, expected: list[list[int]], tmp_path: Path) -> None:
    def join(rank: int, world_size: int) -> list[int]:
        from ddp_lessons.run.rank import rank_main
        from ddp_lessons.run.wire.messages import Rejoin

        taken: list[int] = []
        torch.cuda.set_device = taken.append  # type: ignore[assignment]
        dist.init_process_group = lambda *args, **kwargs: None
        environment = {"LOCAL_RANK": str(rank)}
        start: Any = SimpleNamespace(backend=backend, rank=rank, world_size=world_size, environment=environment)
        rank_main._join(start, Rejoin(str(tmp_path / "meeting")))
        return taken

    assert list(launch(join, 2, quiet=True)) == expected


@pytest.mark.parametrize("backend", ["gloo", "GLOO", "cpu:gloo", dist.Backend.GLOO])
def test_gloo_by_any_of_its_names_is_taken(backend: str) -> None:
    def backend_here(rank: int, world_size: int) -> str:
        dist.all_reduce(torch.ones(1))
        return str(dist.get_backend())

    assert all("gloo" in name for name in launch(backend_here, 2, backend=backend, quiet=True))


@pytest.mark.parametrize("timeout", [0, -1, float("nan"), "60", True, [60]], ids=repr)
def test_a_patience_that_is_not_a_time_is_refused(timeout: Any) -> None:
    assert "timeout_seconds must be" in str(refusal(lambda: launch(run, 2, timeout_seconds=timeout)))


@pytest.mark.parametrize("timeout", [None, 30, float("inf"), 1e300, numpy.float32(30), numpy.int64(30)], ids=repr)
def test_any_number_of_seconds_is_a_patience(timeout: Any) -> None:
    assert list(launch(run, 1, timeout_seconds=timeout, quiet=True)) == [0]


@pytest.mark.parametrize("name", ["join", "quiet"])
@pytest.mark.parametrize("value", ["no", "False", None, 2], ids=repr)
def test_a_switch_that_is_neither_true_nor_false_is_refused(name: str, value: Any) -> None:
    """`join="no"` would count as true."""
    options: dict[str, Any] = {name: value}
    assert str(refusal(lambda: launch(run, 2, **options))) == f"{name} must be True or False, not {value!r}"


@pytest.mark.parametrize("method", ["forkserver", "Fork", "", 3])
def test_an_unknown_start_method_is_refused(method: Any) -> None:
    assert 'start_method must be "fork", "spawn" or None' in str(refusal(lambda: launch(run, 2, start_method=method)))


def test_a_start_method_in_the_environment_that_is_not_one_is_refused_in_a_sentence() -> None:
    script = "from ddp_lessons import launch\nlaunch(lambda rank, world_size: rank)"
    environment = {**os.environ, "PYTHONPATH": str(_PROJECT), "DDP_LESSONS_START_METHOD": "threads"}
    ended = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True)
    assert re.search("ValueError: .*DDP_LESSONS_START_METHOD.*'threads'", ended.stderr)


def test_a_bad_function_leaves_open_workers_as_they_are() -> None:
    with Workers(2, quiet=True) as workers:
        for bad in (None, steps, one_argument):
            refusal(lambda bad=bad: workers.run(bad))  # type: ignore[misc]
        assert list(workers.run(run)) == [0, 1]


def test_closed_workers_say_that_they_are_closed() -> None:
    with Workers(1, quiet=True) as workers:
        pass
    with nothing_begins(), pytest.raises(RuntimeError, match=r"Workers are closed.*Create new ones"):
        workers.run(run)


@pytest.mark.parametrize("threads", ["", "two", "0"])
def test_a_number_of_threads_that_is_not_one_is_passed_over_as_openmp_itself_does(
    threads: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", threads)
    assert list(launch(run, 2, quiet=True)) == [0, 1]


def test_after_all_these_a_good_call_works() -> None:
    assert list(launch(run, 4, quiet=True)) == [0, 1, 2, 3]
