"""A call that cannot work is refused in one sentence of the learner's words, before any process starts."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy
import pytest
import torch
import torch.distributed as dist
from nights import by_day

import ddp_lessons
from ddp_lessons import WorkerFailed, Workers, launch
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


@contextmanager
def nothing_begins() -> Iterator[None]:
    _begun.clear()
    yield
    assert _begun == []


def refusal(call: Callable[[], object]) -> Exception:
    with nothing_begins(), pytest.raises((TypeError, ValueError)) as caught:
        call()
    return caught.value


_WRONG: list[tuple[dict[str, Any], str]] = [
    ({"world_size": 0}, "ValueError: world_size must be at least 1, not 0"),
    ({"world_size": 10_000}, "ValueError: world_size is 10,000, but at most 64 ranks start here"),
    ({"world_size": 2.5}, "TypeError: world_size must be an integer, the number of ranks, not 2.5"),
    ({"world_size": "4"}, "TypeError: world_size must be an integer, the number of ranks, not '4'"),
    ({"world_size": None}, "TypeError: world_size must be an integer, the number of ranks, not None"),
    ({"world_size": one_argument}, "TypeError: world_size must be an integer, the number of ranks, not one_argument"),
    ({"function": None}, r"TypeError: launch needs a function that every rank calls, not None.*without parentheses"),
    ({"function": 3}, "TypeError: launch needs a function that every rank calls, not 3"),
    ({"function": one_argument}, r"TypeError: launch calls one_argument\(rank, world_size\), but it is defined as"),
    ({"function": lambda: 0}, "TypeError: .*too many positional arguments"),
    ({"function": needs_data}, r"TypeError: .*data: 'object', \*, epochs.*missing a required argument: 'data'"),
    ({"backend": "glo"}, "ValueError: unknown backend 'glo'; torch has .*gloo"),
    ({"backend": "glo", "join": False}, "ValueError: unknown backend 'glo'"),
    ({"backend": 4}, "TypeError: backend must be a name"),
    ({"timeout_seconds": 0}, "TypeError: timeout_seconds must be a number of seconds greater than 0"),
    ({"timeout_seconds": float("nan")}, "TypeError: timeout_seconds must be"),
    ({"timeout_seconds": "60"}, "TypeError: timeout_seconds must be .*, not '60'"),
    ({"join": "no"}, "TypeError: join must be True or False, not 'no'"),  # it would count as true
    ({"quiet": None}, "TypeError: quiet must be True or False, not None"),
    ({"record": "calls"}, "TypeError: record must be True, False or \"values\", not 'calls'"),
    ({"live": "training"}, "TypeError: live must be a function that draws"),
    ({"on": "alpha"}, r"TypeError: on must be nodes, such as Hosts\("),
    ({"start_method": "forkserver"}, 'ValueError: start_method must be "fork", "spawn" or None'),
]


@pytest.mark.parametrize(("call", "words"), _WRONG, ids=[words[:40] for _, words in _WRONG])
def test_a_call_that_cannot_work_is_refused(call: dict[str, Any], words: str) -> None:
    error = refusal(lambda: launch(**{"function": run, "world_size": 2, **call}))
    assert re.match(words, f"{type(error).__name__}: {error}")


@pytest.mark.parametrize("world_size", [numpy.int64(2), torch.tensor(2)], ids=["numpy", "torch"])
def test_a_whole_number_of_another_library_is_a_world_size(world_size: Any) -> None:
    def kinds(rank: int, world_size: int) -> str:
        return type(world_size).__name__

    assert list(launch(kinds, world_size, quiet=True)) == ["int", "int"]


@pytest.mark.skipif(dist.is_mpi_available(), reason="this build of torch has MPI")
def test_a_backend_that_this_build_lacks_is_torchs_own_error() -> None:
    with pytest.raises(WorkerFailed, match="doesn't have MPI built in"):
        launch(run, 2, backend="mpi", quiet=True)


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
        from ddp_lessons.run.wire.messages import Meeting

        taken: list[int] = []
        torch.cuda.set_device = taken.append  # type: ignore[assignment]
        dist.init_process_group = lambda *args, **kwargs: None
        environment = {"LOCAL_RANK": str(rank)}
        start: Any = SimpleNamespace(backend=backend, rank=rank, world_size=world_size, environment=environment)
        rank_main._join(start, Meeting(str(tmp_path / "meeting")))
        return taken

    assert list(launch(join, 2, quiet=True)) == expected


@pytest.mark.parametrize("backend", ["gloo", "GLOO", "cpu:gloo", dist.Backend.GLOO])
def test_gloo_by_any_of_its_names_is_taken(backend: str) -> None:
    def backend_here(rank: int, world_size: int) -> str:
        dist.all_reduce(torch.ones(1))
        return str(dist.get_backend())

    assert all("gloo" in name for name in launch(backend_here, 2, backend=backend, quiet=True))


@pytest.mark.parametrize("timeout", [None, 30, float("inf"), 1e300, numpy.float32(30), numpy.int64(30)], ids=repr)
def test_any_number_of_seconds_is_a_patience(timeout: Any) -> None:
    assert list(launch(run, 1, timeout_seconds=timeout, quiet=True)) == [0]


def test_a_start_method_in_the_environment_that_is_not_one_is_refused_in_a_sentence() -> None:
    script = "from ddp_lessons import launch\nlaunch(lambda rank, world_size: rank)"
    environment = {**os.environ, "PYTHONPATH": str(_PROJECT), "DDP_LESSONS_START_METHOD": "threads"}
    ended = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True)
    assert re.search("ValueError: .*DDP_LESSONS_START_METHOD.*'threads'", ended.stderr)


def test_a_bad_function_leaves_open_workers_as_they_are() -> None:
    with Workers(2, quiet=True) as workers:
        for bad in (None, one_argument):
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
