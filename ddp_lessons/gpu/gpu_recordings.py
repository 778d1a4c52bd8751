"""What an experiment measured, and the recordings of it: one small JSON file each, with device, versions and date."""

from __future__ import annotations

import datetime
import json
import platform
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from importlib import metadata
from pathlib import Path
from typing import Any

from ddp_lessons.record import recordings

RECORDINGS = Path(__file__).with_name("recordings")
MOST_LETTERS = 400


@dataclass(frozen=True)
class Measured:
    """`lines` are for readers, `values` are the same as numbers. Every check has to hold."""

    how: str  # ranks and backend
    lines: Sequence[str]
    values: Mapping[str, Any]
    checks: Mapping[str, bool]
    machine: Mapping[str, str] = field(default_factory=dict)

    @property
    def broken(self) -> list[str]:
        return [check for check, holds in self.checks.items() if not holds]

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Measured:
        return cls(**json.loads(text))


def this_machine(device: str) -> dict[str, str]:
    found = {"date": f"{datetime.date.today():%Y-%m-%d}", "python": platform.python_version()}
    found["torch"] = metadata.version("torch")
    if device != "cuda":
        return {**found, "device": "CPU"}
    import torch

    count, nccl = torch.cuda.device_count(), getattr(torch.cuda, "nccl", None)
    names = sorted({torch.cuda.get_device_name(index) for index in range(count)})
    found["device"] = f"{count} x {' and '.join(names)}"
    found["cuda"] = str(torch.version.cuda)
    found["nccl"] = ".".join(map(str, nccl.version())) if nccl is not None else ""
    return {**found, "driver": _driver()}


def _driver() -> str:
    asked = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
    try:
        said = subprocess.run(asked, capture_output=True, text=True, timeout=20, check=False).stdout
    except (OSError, subprocess.SubprocessError):
        return ""
    return said.splitlines()[0].strip() if said.strip() else ""


def keep(name: str, measured: Measured) -> Path:
    """Write the recording.

    Raises:
        ValueError: a check does not hold.
    """
    if measured.broken:
        raise ValueError(f"{name} is not recorded, because a check failed: {', '.join(measured.broken)}")
    recordings.keep(file := RECORDINGS / f"{name}.json", asdict(measured))
    return file


def as_recorded(line: str) -> str:
    """A line of output, shortened, without folders and the name of the machine that printed it."""
    line = recordings.without_this_machine(line)
    return line if len(line) <= MOST_LETTERS else f"{line[: MOST_LETTERS - 3]}..."
