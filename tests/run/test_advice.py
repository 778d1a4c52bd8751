"""Common errors have their own advice: raised by a real launch if this machine can, else given in torch's words."""

from __future__ import annotations

import mmap
import os
import pickle
import signal
import socket
import time
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


def failure(function: Callable[..., object], **options: Any) -> list[str]:
    """The lines of the message."""
    with pytest.raises(WorkerFailed) as failed:
        launch(function, 2, quiet=True, **options)
    return str(failed.value).splitlines()


def next_step(function: Callable[..., object], **options: Any) -> str:
    (line,) = [line for line in failure(function, **options) if line.startswith("  Next: ")]
    return line.removeprefix("  Next: ")


def advice_for(kind: str, message: str) -> str:
    return what_next(Raised(kind, message, (), "", 0.0), 0, Limits())


# --- the rendezvous -------------------------------------------------------------------------------------------------


def test_a_port_in_use_asks_for_another_one() -> None:
    def join(rank: int, world_size: int) -> None:
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            address = f"tcp://127.0.0.1:{taken.getsockname()[1]}"
            dist.init_process_group("gloo", init_method=address, rank=0, world_size=1)

    assert next_step(join, join=False).startswith("use a free port: set another MASTER_PORT")


@nightly
def test_a_store_that_does_not_answer_asks_for_rank_0_and_the_address() -> None:
    def join(rank: int, world_size: int) -> None:
        dist.init_process_group("gloo", init_method="tcp://127.0.0.1:1", rank=1, world_size=2, timeout=SOON)

    advice = next_step(join, join=False)
    assert advice.startswith(
        "check that rank 0 is running and that all ranks have the same MASTER_ADDR and MASTER_PORT"
    )


def test_a_rendezvous_that_not_all_reach_asks_for_all_ranks() -> None:
    def meet(rank: int, world_size: int) -> None:
        store: Any = dist
        store.TCPStore("127.0.0.1", 0, 2, is_master=True, timeout=SOON)

    assert next_step(meet).startswith("start all world_size ranks")


@pytest.mark.parametrize(("kind", "is_torchs"), [("DistNetworkError", True), ("ConnectionRefusedError", False)])
def test_a_refused_connection_is_of_the_rendezvous_only_if_torch_says_so(kind: str, is_torchs: bool) -> None:
    advice = advice_for(kind, "[Errno 111] Connection refused")
    assert advice.startswith("check that rank 0 is running") == is_torchs


def test_without_records_a_monitored_barrier_still_has_its_advice() -> None:
    def wait(rank: int, world_size: int) -> None:
        if rank == 1:
            time.sleep(3)
        dist.monitored_barrier(timeout=SOON)

    advice = "make sure that the ranks named in the error reach monitored_barrier"
    assert next_step(wait, record=False).startswith(advice)


# --- GPUs -----------------------------------------------------------------------------------------------------------


@without_a_gpu
def test_a_tensor_for_a_gpu_that_is_not_there_asks_for_the_cpu() -> None:
    def move(rank: int, world_size: int) -> None:
        torch.ones(1).cuda()

    assert next_step(move).startswith("use the CPU: torch finds no usable GPU here")


@without_a_gpu
def test_nccl_without_a_gpu_asks_for_gloo() -> None:
    def join(rank: int, world_size: int) -> None:
        dist.init_process_group("nccl")

    assert next_step(join, join=False).startswith('use backend="gloo"')


def test_a_tensor_on_a_device_without_a_backend_asks_for_the_other_device_or_for_both_backends() -> None:
    def sum_on_cpu(rank: int, world_size: int) -> None:
        dist.init_process_group("cuda:gloo")  # as with NCCL, which has no backend for CPU tensors
        dist.all_reduce(torch.ones(1))

    advice = next_step(sum_on_cpu, join=False)
    assert advice.startswith('move the tensor to the GPU, or pass backend="cpu:gloo,cuda:nccl"')


# --- DDP ------------------------------------------------------------------------------------------------------------


def leave_out_a_layer(rank: int, world_size: int) -> None:
    class Two(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = nn.Linear(2, 2), nn.Linear(2, 2)

        def forward(self, inputs: torch.Tensor) -> torch.Tensor:
            return self.first(inputs)  # type: ignore[no-any-return]

    model = nn.parallel.DistributedDataParallel(Two())
    for _ in range(2):
        model(torch.ones(1, 2)).sum().backward()


def test_unused_parameters_are_named_by_number_and_how_to_get_their_names() -> None:
    advice = next_step(leave_out_a_layer)
    assert "find_unused_parameters=True" in advice
    assert "No gradient for numbers 2 3 of list(model.named_parameters()), counted from 0" in advice
    assert "TORCH_DISTRIBUTED_DEBUG=INFO" in advice


def test_unused_parameters_are_named_where_torch_names_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TORCH_DISTRIBUTED_DEBUG", "INFO")
    advice = next_step(leave_out_a_layer)
    assert advice.endswith("No gradient for: second.bias, second.weight.")


# --- pickle ---------------------------------------------------------------------------------------------------------


def test_a_lambda_that_is_sent_asks_for_a_function_at_the_top_level() -> None:
    def send(rank: int, world_size: int) -> None:
        objects: list[Any] = [lambda: rank] if rank == 0 else [None]
        dist.broadcast_object_list(objects)

    assert next_step(send).startswith("define the function or class at the top level of a module")


def test_a_function_inside_another_one_does_so_too() -> None:
    def send(rank: int, world_size: int) -> None:
        def inside() -> None:
            pass

        pickle.dumps(inside)

    assert next_step(send).startswith("define the function or class at the top level of a module")


# --- memory and workers of a loader ---------------------------------------------------------------------------------


def test_a_tensor_that_is_too_large_asks_for_a_smaller_one() -> None:
    def take(rank: int, world_size: int) -> None:
        torch.empty(2**50)

    assert next_step(take).startswith("use smaller tensors or batches, or fewer ranks")


def test_a_rank_that_was_killed_may_have_been_out_of_memory() -> None:
    def die(rank: int, world_size: int) -> None:
        if rank == 1:
            os.kill(os.getpid(), signal.SIGKILL)

    lines = failure(die)
    assert "OOM killer ends a process with SIGKILL" in lines[-2]
    assert lines[-1].startswith('  torchrun would show: "Signal 9 (SIGKILL) received by PID')


def test_a_bus_error_asks_for_space() -> None:
    died = Died(-signal.SIGBUS, (), (), 0.0)
    assert what_next(died, 0, Limits()).startswith("free up space in /dev/shm and in the temporary folder")


class Deadly(Dataset[int]):
    def __len__(self) -> int:
        return 1

    def __getitem__(self, index: int) -> int:
        os.kill(os.getpid(), signal.SIGKILL)
        return index


def test_a_loaders_worker_that_was_killed_asks_for_no_workers() -> None:
    def load(rank: int, world_size: int) -> None:
        list(DataLoader(Deadly(), num_workers=1))

    assert next_step(load).startswith("use num_workers=0, so that the rank itself raises the error")


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


@pytest.mark.parametrize(("kind", "words", "advice"), OF_TORCH)
def test_what_this_machine_cannot_raise_is_known_by_torchs_words(kind: str, words: str, advice: str) -> None:
    assert advice_for(kind, f"{words} 1").startswith(advice)


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


def test_an_all_to_all_of_an_old_torch_has_another_name() -> None:
    """Words of torch 2.11."""
    assert advice_for("RuntimeError", "Backend gloo does not support alltoall").startswith("use all_to_all_single")


def test_an_import_that_a_spawned_process_lacks_asks_for_a_file() -> None:
    error = "Can't get attribute 'train' on <module '__main__' (built-in)>"
    assert advice_for("AttributeError", error).startswith("put the function into a .py file")


def test_memory_that_ran_out_in_native_code_asks_for_less() -> None:
    died = Died(-signal.SIGABRT, (), ("terminate called", "what():  std::bad_alloc"), 0.0)
    assert what_next(died, 0, Limits()).startswith("use smaller tensors or batches")


@nightly
def test_a_process_that_was_stopped_does_not_answer_and_is_not_called_starting() -> None:
    def run(rank: int, world_size: int) -> None:
        if rank == 1:
            os.kill(os.getpid(), signal.SIGSTOP)
        dist.all_reduce(torch.ones(1))

    with pytest.raises(WorkersStuck) as caught:
        launch(run, 2, timeout_seconds=1, quiet=True)
    assert "\n    rank 1   did not answer" in str(caught.value)
    assert "Next: rank 1 did not answer, not even to a signal. Look for a stopped process (SIGSTOP" in str(caught.value)


def test_torch_s_own_look_at_each_call_is_named_where_it_hides_a_deadlock(monkeypatch: pytest.MonkeyPatch) -> None:
    def run(rank: int, world_size: int) -> None:
        if rank == 0:
            dist.all_reduce(torch.ones(1))

    monkeypatch.setenv("TORCH_DISTRIBUTED_DEBUG", "DETAIL")
    with pytest.raises(WorkersStuck) as caught:
        launch(run, 2, timeout_seconds=2, quiet=True)
    assert "With TORCH_DISTRIBUTED_DEBUG=DETAIL torch itself waits" in caught.value.remark
