"""Common errors have their own advice: raised by a real launch if this machine can, else given in torch's words."""

from __future__ import annotations

import mmap
import os
import signal
import socket
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from nights import nightly
from torch import nn
from torch.utils.data import DataLoader, Dataset

from ddp_lessons import WorkerFailed, WorkersStuck, launch
from ddp_lessons.run.diagnosis.advice import what_next
from ddp_lessons.run.launcher.limits import Limits
from ddp_lessons.run.launcher.rank_states import Died
from ddp_lessons.run.wire.messages import Raised

SOON = timedelta(seconds=1)
without_a_gpu = pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has a GPU")


def joins_at_a_port_in_use(rank: int, world_size: int) -> None:
    """Torch names it EADDRINUSE."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        address = f"tcp://127.0.0.1:{taken.getsockname()[1]}"
        dist.init_process_group("gloo", init_method=address, rank=0, world_size=1)


def joins_where_nobody_answers(rank: int, world_size: int) -> None:
    dist.init_process_group("gloo", init_method="tcp://127.0.0.1:1", rank=1, world_size=2, timeout=SOON)


def meets_alone(rank: int, world_size: int) -> None:
    dist.TCPStore("127.0.0.1", 0, 2, is_master=True, timeout=SOON)  # type: ignore[attr-defined]


def moves_to_a_gpu(rank: int, world_size: int) -> None:
    torch.ones(1).cuda()


def joins_with_nccl(rank: int, world_size: int) -> None:
    dist.init_process_group("nccl")


def sums_on_the_cpu(rank: int, world_size: int) -> None:
    dist.init_process_group("cuda:gloo")  # as with NCCL, which has no backend for CPU tensors
    dist.all_reduce(torch.ones(1))


def sends_a_lambda(rank: int, world_size: int) -> None:
    objects: list[Any] = [lambda: rank] if rank == 0 else [None]
    dist.broadcast_object_list(objects)


class Deadly(Dataset[int]):
    def __len__(self) -> int:
        return 1

    def __getitem__(self, index: int) -> int:
        os.kill(os.getpid(), signal.SIGKILL)
        return index


def loads_with_a_worker_that_is_killed(rank: int, world_size: int) -> None:
    list(DataLoader(Deadly(), num_workers=1))


@pytest.mark.parametrize(
    ("function", "advice"),
    [
        (joins_at_a_port_in_use, "use a free port: set another MASTER_PORT"),
        pytest.param(
            joins_where_nobody_answers,
            "check that rank 0 is running and that all ranks have the same MASTER_ADDR and MASTER_PORT",
            marks=nightly,
        ),
        (meets_alone, "start all world_size ranks"),
        pytest.param(
            moves_to_a_gpu, "use the CPU, without .cuda() or device='cuda': torch finds no", marks=without_a_gpu
        ),
        pytest.param(joins_with_nccl, 'use backend="gloo"', marks=without_a_gpu),
        (sums_on_the_cpu, 'move the tensor to the GPU, or pass backend="cpu:gloo,cuda:nccl"'),
        (sends_a_lambda, "define the function or class at the top level of a module"),
        (loads_with_a_worker_that_is_killed, "use num_workers=0, so that the rank itself raises the error"),
    ],
)
def test_a_common_error_has_its_own_advice(function: Callable[..., object], advice: str) -> None:
    joins_by_itself = function.__name__.startswith("joins") or function is sums_on_the_cpu
    with pytest.raises(WorkerFailed) as failed:
        launch(function, 2, quiet=True, join=not joins_by_itself)
    assert f"\n  Next: {advice}" in str(failed.value)


def test_unused_parameters_are_named_where_torch_names_them(monkeypatch: pytest.MonkeyPatch) -> None:
    def leave_out_a_layer(rank: int, world_size: int) -> None:
        layers = nn.ModuleDict({"first": nn.Linear(2, 2), "second": nn.Linear(2, 2)})
        layers.forward = layers["first"].forward
        model = nn.parallel.DistributedDataParallel(layers)
        for _ in range(2):
            model(torch.ones(1, 2)).sum().backward()

    monkeypatch.setenv("TORCH_DISTRIBUTED_DEBUG", "INFO")
    with pytest.raises(WorkerFailed, match=r"Next: .*Parameters without a gradient: second.bias, second.weight\."):
        launch(leave_out_a_layer, 2, quiet=True)


def test_a_rank_that_was_killed_has_the_words_of_torchrun() -> None:
    with pytest.raises(WorkerFailed) as failed:
        launch(lambda rank, world_size: os.kill(os.getpid(), signal.SIGKILL), 2, quiet=True)
    last_line = str(failed.value).splitlines()[-1]
    assert last_line.startswith('  torchrun would show: "Signal 9 (SIGKILL) received by PID')


# --- in torch's words: this machine cannot raise them ----------------------------------------------------------------

OF_TORCH = (
    ("AssertionError", "Torch not compiled with CUDA enabled", "use the CPU"),
    ("RuntimeError", "Distributed package doesn't have NCCL built in", 'use backend="gloo"'),
    ("ValueError", "ProcessGroupNCCL is only supported with GPUs, no GPUs found!", 'use backend="gloo"'),
    ("OutOfMemoryError", "CUDA out of memory. Tried to allocate ", "use a smaller batch or model"),
    (
        "RuntimeError",
        "It is possible that dataloader's workers are out of shared memory. Please try to raise your shared memory "
        "limit.",
        "use num_workers=0 or smaller batches, or give the container more shared memory",
    ),
)


@pytest.mark.parametrize("words", [words for _, words, _ in OF_TORCH])
def test_these_are_torchs_words(words: str) -> None:
    folder = Path(torch.__file__).parent
    python = [folder / "cuda" / "__init__.py", folder / "distributed" / "distributed_c10d.py"]
    libraries = sorted((folder / "lib").glob("lib*torch*")) + sorted((folder / "lib").glob("libc10*"))
    is_of_cuda = "CUDA out" in words or "ProcessGroupNCCL" in words
    if is_of_cuda and not any("cuda" in file.name for file in libraries):
        pytest.skip("this torch is built without CUDA")
    assert any(_holds(file, words.encode()) for file in [*python, *libraries])


def _holds(file: Path, words: bytes) -> bool:
    with open(file, "rb") as opened, mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ) as content:
        return content.find(words) >= 0


def raised(kind: str, message: str) -> Raised:
    return Raised(kind, message, (), "", 0.0)


@pytest.mark.parametrize(
    ("end", "advice"),
    [
        *[(raised(kind, f"{words} 1"), advice) for kind, words, advice in OF_TORCH],
        (raised("DistNetworkError", "[Errno 111] Connection refused"), "check that rank 0 is running"),
        (raised("ConnectionRefusedError", "[Errno 111] Connection refused"), "fix that line"),
        (raised("AttributeError", "Can't get attribute 'train' on <module '__main__' (built-in)>"), "put the function"),
        (Died(-signal.SIGBUS, (), (), 0.0), "free up space in /dev/shm and in the temporary folder"),
        (Died(-signal.SIGABRT, (), ("what():  std::bad_alloc",), 0.0), "use smaller tensors or batches"),
    ],
)
def test_what_this_machine_cannot_raise_is_known_by_its_words(end: Any, advice: str) -> None:
    assert what_next(end, 0, Limits()).startswith(advice)


def test_torch_s_own_look_at_each_call_is_named_where_it_hides_a_deadlock(monkeypatch: pytest.MonkeyPatch) -> None:
    def run(rank: int, world_size: int) -> None:
        if rank == 0:
            dist.all_reduce(torch.ones(1))

    monkeypatch.setenv("TORCH_DISTRIBUTED_DEBUG", "DETAIL")
    with pytest.raises(WorkersStuck) as caught:
        launch(run, 2, timeout_seconds=2, quiet=True)
    assert "With TORCH_DISTRIBUTED_DEBUG=DETAIL, torch itself waits" in caught.value.remark
