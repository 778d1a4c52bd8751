"""A call that cannot work is refused in one sentence of the learner's words, before any process starts."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy
import pytest
import torch
import torch.distributed as dist

from ddp_lessons import Workers, launch
from ddp_lessons.run.launcher.launch_arguments import checked_backend

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


def refusal(call: Callable[[], object]) -> str:
    """And that nothing has begun."""
    _begun.clear()
    with pytest.raises((TypeError, ValueError, RuntimeError)) as caught:
        call()
    assert _begun == []
    return f"{caught.type.__name__}: {caught.value}"


_WRONG: list[tuple[dict[str, Any], str]] = [
    ({"world_size": 0}, "ValueError: world_size must be at least 1, not 0"),
    ({"world_size": 10_000}, "ValueError: world_size is 10,000, but at most 64 ranks can start here"),
    ({"world_size": 2.5}, "TypeError: world_size must be an integer, the number of ranks, not 2.5"),
    ({"function": None}, r"TypeError: launch needs a function that every rank calls, not None.*without parentheses"),
    ({"function": one_argument}, r"TypeError: launch calls one_argument\(rank, world_size\), but it is defined as"),
    ({"function": needs_data}, r"TypeError: .*data: 'object', \*, epochs.*missing a required argument: 'data'"),
    ({"backend": "glo"}, "ValueError: unknown backend 'glo'; torch has .*gloo"),
    ({"timeout_seconds": 0}, "TypeError: timeout_seconds must be a positive number of seconds"),
    ({"join": "no"}, "TypeError: join must be True or False, not 'no'"),  # it would count as true
    ({"live": "training"}, "TypeError: live must be a function that draws"),
    ({"on": "alpha"}, r"TypeError: on must be nodes, such as Hosts\("),
    ({"start_method": "forkserver"}, 'ValueError: start_method must be "fork", "spawn" or None'),
]


@pytest.mark.parametrize(("call", "words"), _WRONG, ids=[words[:40] for _, words in _WRONG])
def test_a_call_that_cannot_work_is_refused(call: dict[str, Any], words: str) -> None:
    assert re.match(words, refusal(lambda: launch(**{"function": run, "world_size": 2, **call})))


@pytest.mark.parametrize(("world_size", "timeout"), [(numpy.int64(2), numpy.float32(30)), (torch.tensor(2), None)])
def test_a_number_may_be_of_another_library(world_size: Any, timeout: Any) -> None:
    def kinds(rank: int, world_size: int) -> str:
        return type(world_size).__name__

    assert list(launch(kinds, world_size, timeout_seconds=timeout, quiet=True)) == ["int", "int"]


@pytest.mark.parametrize("backend", ["NCCL", "cpu:gloo,cuda:nccl"])
def test_nccl_without_a_gpu_for_each_rank_is_refused(backend: str) -> None:
    world_size = torch.cuda.device_count() + 1
    message = refusal(lambda: launch(run, world_size, backend=backend))
    assert f"one GPU per rank: {world_size} ranks, but torch sees {world_size - 1} GPU" in message
    assert 'backend="gloo"' in message


@pytest.mark.parametrize(
    ("gpus", "world_size", "backend"), [(0, 2, "gloo"), (2, 4, "gloo"), (2, 2, "cpu:gloo,cuda:nccl")]
)
def test_without_a_named_backend_nccl_is_taken_where_each_rank_has_a_gpu(
    gpus: int, world_size: int, backend: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "device_count", lambda: gpus)
    monkeypatch.setattr(dist, "is_nccl_available", lambda: True)
    assert checked_backend(None, world_size) == backend


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


def test_closed_workers_say_that_they_are_closed() -> None:
    with Workers(1, quiet=True) as workers:
        pass
    assert re.match(r"RuntimeError: .*Workers are closed.*create new ones", refusal(lambda: workers.run(run)))
