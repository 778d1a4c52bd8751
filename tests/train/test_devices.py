"""Which device and which backend, with any number of GPUs that torch says there are."""

from __future__ import annotations

import os

import pytest
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from ddp_lessons import launch
from ddp_lessons.train.devices import backend_for, device_of_this_rank

BOTH = "cpu:gloo,cuda:nccl"


@pytest.fixture(autouse=True)
def _no_torchrun(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"):
        monkeypatch.delenv(name, raising=False)


def machine(
    monkeypatch: pytest.MonkeyPatch, gpus: int, rank: int = 0, world_size: int = 0, speaks: str = "", nccl: bool = True
) -> None:
    """A process with so many GPUs, alone or (world_size > 0) in a group."""
    monkeypatch.setattr(torch.cuda, "device_count", lambda: gpus)
    monkeypatch.setattr(dist, "is_nccl_available", lambda: nccl)
    monkeypatch.setattr(dist, "is_initialized", lambda: world_size > 0)
    monkeypatch.setattr(dist, "get_rank", lambda: rank)
    monkeypatch.setattr(dist, "get_world_size", lambda: world_size)
    monkeypatch.setattr(dist, "get_backend_config", lambda: speaks)


@pytest.mark.parametrize(
    ("gpus", "nccl", "world_size", "backend"),
    [(0, True, 1, "gloo"), (1, True, 2, "gloo"), (2, True, 2, BOTH), (8, True, 3, BOTH), (8, False, 2, "gloo")],
)
def test_nccl_only_with_a_gpu_for_each_rank(
    monkeypatch: pytest.MonkeyPatch, gpus: int, nccl: bool, world_size: int, backend: str
) -> None:
    machine(monkeypatch, gpus, nccl=nccl)
    assert backend_for(world_size) == backend


def test_on_several_machines_the_ranks_of_this_one_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "4")
    machine(monkeypatch, gpus=4, rank=6, world_size=8, speaks="cuda:nccl")
    monkeypatch.setenv("LOCAL_RANK", "2")
    assert backend_for(8) == BOTH
    assert device_of_this_rank() == torch.device("cuda", 2)
    machine(monkeypatch, gpus=3, rank=6, world_size=8, speaks="cuda:nccl")
    assert (backend_for(8), device_of_this_rank().type) == ("gloo", "cpu")


def test_in_a_group_with_both_backends_python_objects_need_no_gpu() -> None:
    """Torch itself says which device they go through. gloo stands in for NCCL, which this machine may not have."""

    def run(rank: int, world_size: int) -> list[str]:
        with pytest.MonkeyPatch.context() as patch:
            machine(patch, gpus=2)
            given = backend_for(world_size).replace("nccl", "gloo")
        dist.init_process_group(given)
        return [str(dist.get_backend_config()), dist.distributed_c10d._get_object_coll_device()]

    assert list(launch(run, 2, join=False)) == [["cpu:gloo,cuda:gloo", "cpu"]] * 2


@pytest.mark.parametrize(
    ("gpus", "speaks", "device"),
    [
        (0, "cpu:gloo,cuda:gloo", "cpu"),
        (4, "cpu:gloo,cuda:gloo", "cpu"),
        (4, "cpu:gloo,cuda:nccl", "cuda:1"),
        (2, "cuda:nccl", "cuda:1"),
        (1, "cpu:gloo,cuda:nccl", "cpu"),
    ],
)
def test_a_rank_has_a_gpu_if_all_have_and_the_group_can(
    monkeypatch: pytest.MonkeyPatch, gpus: int, speaks: str, device: str
) -> None:
    machine(monkeypatch, gpus, rank=1, world_size=2, speaks=speaks)
    assert device_of_this_rank() == torch.device(device)


@pytest.mark.parametrize(("gpus", "device"), [(0, "cpu"), (1, "cuda:0"), (3, "cuda:0")])
def test_one_process_alone_has_the_first_gpu(monkeypatch: pytest.MonkeyPatch, gpus: int, device: str) -> None:
    machine(monkeypatch, gpus)
    assert device_of_this_rank() == torch.device(device)


def test_ranks_that_were_launched_agree_with_their_group() -> None:
    def run(rank: int, world_size: int) -> tuple[str, bool, float]:
        device = device_of_this_rank()
        number = torch.ones(1, device=device)
        dist.all_reduce(number)  # their group can do it there
        return device.type, torch.cuda.device_count() >= world_size, number.item()

    for kind, has_gpus, total in launch(run, 2):
        assert (kind, total) == ("cuda" if has_gpus else "cpu", 2)


def test_a_rank_that_is_shown_no_gpu_computes_on_the_cpu() -> None:
    def run(rank: int, world_size: int) -> tuple[int, str]:
        os.environ["CUDA_VISIBLE_DEVICES"] = ""
        return torch.cuda.device_count(), device_of_this_rank().type

    assert list(launch(run, 2)) == [(0, "cpu")] * 2


def test_ddp_moves_no_model_to_the_gpu_that_device_ids_names() -> None:
    def run(rank: int, world_size: int) -> str:
        with pytest.raises(ValueError, match="device_ids"):
            DistributedDataParallel(torch.nn.Linear(1, 1), device_ids=[0])
        model = DistributedDataParallel(torch.nn.Linear(1, 1), device_ids=None)  # right for the CPU
        return next(model.parameters()).device.type

    assert list(launch(run, 2)) == ["cpu", "cpu"]
