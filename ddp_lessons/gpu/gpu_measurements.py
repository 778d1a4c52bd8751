"""What the experiments share: the ranks and devices that this machine has for them, and how to record a result."""

from __future__ import annotations

import datetime
import platform
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib import metadata
from pathlib import Path
from typing import Any, TypeVar

import torch
import torch.distributed as dist

from ddp_lessons.record import recordings
from ddp_lessons.record.results import Results
from ddp_lessons.run.launch import launch

T = TypeVar("T")
RECORDINGS = Path(__file__).with_name("recordings")
MOST_LETTERS = 400


@dataclass(frozen=True)
class Measured:
    """`lines` are for readers, `values` are the same as numbers. Every check has to hold."""

    how: str  # ranks and backend
    lines: Sequence[str]
    values: Mapping[str, Any]
    checks: Mapping[str, bool]


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

    def launch(self, function: Callable[..., T], *args: object, timeout_seconds: float = 60.0) -> Results[T]:
        """Run `function(rank, world_size, device, *args)`, where each rank has selected its own device."""
        options: dict[str, Any] = {"backend": self.backend, "record": False, "quiet": True}
        return launch(_on_own_device, self.count, function, self, args, timeout_seconds=timeout_seconds, **options)


def ranks_on(device: str, may_share: bool = True) -> Ranks:
    """NCCL with as many ranks as there are GPUs. With one GPU, two ranks share it, or one rank has it alone."""
    if device == "cpu":
        return Ranks(2, "gloo", device)
    gpus = torch.cuda.device_count()
    return Ranks(2, "gloo", device) if gpus == 1 and may_share else Ranks(gpus, "cpu:gloo,cuda:nccl", device)


def _on_own_device(rank: int, world_size: int, function: Callable[..., T], ranks: Ranks, args: tuple[object, ...]) -> T:
    device = torch.device("cpu")
    if ranks.device == "cuda":
        device = torch.device("cuda", rank % torch.cuda.device_count())
        torch.cuda.set_device(device)
    return function(rank, world_size, device, *args)


def wait_for(device: torch.device) -> None:
    """Calls on a GPU return early; wait until it has done them."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def keep(name: str, measured: Measured, device: str) -> Path:
    """Write the recording, with the device, the versions and the date.

    Raises:
        ValueError: a check does not hold.
    """
    if broken := [check for check, holds in measured.checks.items() if not holds]:
        raise ValueError(f"not recorded, because a check failed: {', '.join(broken)}")
    file = RECORDINGS / f"{name}.json"
    recordings.keep(file, {**asdict(measured), "machine": _this_machine(device)})
    return file


def as_recorded(error: Exception) -> str:
    """The first line of its message, shortened, without folders and the name of this machine."""
    line = recordings.without_this_machine(f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0]}")
    return line if len(line) <= MOST_LETTERS else f"{line[: MOST_LETTERS - 3]}..."


def _this_machine(device: str) -> dict[str, str]:
    found = {
        "date": f"{datetime.date.today()}",
        "python": platform.python_version(),
        "torch": metadata.version("torch"),
    }
    if device != "cuda":
        return {**found, "device": "CPU"}
    count = torch.cuda.device_count()
    names = sorted({torch.cuda.get_device_name(index) for index in range(count)})
    nccl = ".".join(map(str, torch.cuda.nccl.version())) if dist.is_nccl_available() else ""
    return {**found, "device": f"{count} x {' and '.join(names)}", "cuda": str(torch.version.cuda), "nccl": nccl}
