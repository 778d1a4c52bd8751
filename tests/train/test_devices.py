"""Which device and which backend, with any number of GPUs that torch says there are."""

from __future__ import annotations

import pytest
import torch
import torch.distributed as dist

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
    [(0, True, 1, "gloo"), (1, True, 2, "gloo"), (2, True, 2, BOTH), (8, False, 2, "gloo")],
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


@pytest.mark.parametrize(
    ("gpus", "world_size", "speaks", "device"),
    [
        (4, 2, "cpu:gloo,cuda:gloo", "cpu"),
        (4, 2, BOTH, "cuda:1"),
        (2, 2, "cuda:nccl", "cuda:1"),
        (1, 2, BOTH, "cpu"),
        (0, 0, "", "cpu"),
        (3, 0, "", "cuda:0"),
    ],
)
def test_a_rank_has_a_gpu_if_all_have_and_the_group_can_and_one_process_alone_has_the_first(
    monkeypatch: pytest.MonkeyPatch, gpus: int, world_size: int, speaks: str, device: str
) -> None:
    machine(monkeypatch, gpus, rank=min(1, world_size), world_size=world_size, speaks=speaks)
    assert device_of_this_rank() == torch.device(device)
