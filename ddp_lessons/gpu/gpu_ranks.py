"""How many ranks an experiment has on this machine, their backend, and the device of each."""

from __future__ import annotations

from dataclasses import dataclass

import torch


@dataclass(frozen=True)
class Ranks:
    """`device` is "cuda" or "cpu"."""

    count: int
    backend: str
    device: str

    @property
    def how(self) -> str:
        if self.device == "cpu":
            return f"{self.count} ranks on the CPU, gloo"
        if self.backend == "gloo":
            return f"{self.count} ranks share one GPU, gloo"
        return f"{self.count} ranks, a GPU each, NCCL" if self.count > 1 else "1 rank, NCCL: nothing is sent"


def ranks_on(device: str, may_share: bool = True) -> Ranks:
    """NCCL with as many ranks as there are GPUs. With one GPU, two ranks share it, or one rank has it alone."""
    if device == "cpu":
        return Ranks(2, "gloo", device)
    gpus = torch.cuda.device_count()
    return Ranks(2, "gloo", device) if gpus == 1 and may_share else Ranks(gpus, "cpu:gloo,cuda:nccl", device)


def own_device(rank: int, ranks: Ranks) -> torch.device:
    """Select and return the GPU of this rank, or the CPU."""
    if ranks.device == "cpu":
        return torch.device("cpu")
    device = torch.device("cuda", rank % torch.cuda.device_count())
    torch.cuda.set_device(device)
    return device


def wait_for(device: torch.device) -> None:
    """Calls on a GPU return early; wait until it has done them."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
