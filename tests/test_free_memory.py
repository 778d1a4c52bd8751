"""What is free is what the strictest of this machine, container and slice leaves, as the kernel writes it down."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from ddp_lessons.workshop import doctor
from ddp_lessons.workshop.free_memory import free_memory

GB = 10**9


def write(root: Path, files: dict[str, object]) -> Path:
    for name, content in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(f"{content}\n")
    return root


V2 = "sys/fs/cgroup"
V1 = "sys/fs/cgroup/memory"
SURROUNDINGS = {
    "a container": {"proc/self/cgroup": "0::/", f"{V2}/memory.max": GB, f"{V2}/memory.current": GB // 4},
    "a slice above a scope": {
        "proc/self/cgroup": "0::/user.slice/anna.slice/jupyter.scope",
        f"{V2}/user.slice/anna.slice/jupyter.scope/memory.max": "max",
        f"{V2}/user.slice/anna.slice/memory.max": GB,
        f"{V2}/user.slice/anna.slice/memory.current": GB // 4,
        f"{V2}/user.slice/memory.max": "max",
    },
    "version 1": {
        "proc/self/cgroup": "5:cpu,cpuacct:/x\n4:memory:/docker/abc",
        f"{V1}/docker/abc/memory.limit_in_bytes": GB,
        f"{V1}/docker/abc/memory.usage_in_bytes": GB // 4,
        f"{V1}/memory.limit_in_bytes": 2**63 - 4096,
    },
    "version 1, in a container that is named as outside of it": {
        "proc/self/cgroup": "4:memory:/docker/abc",
        f"{V1}/memory.limit_in_bytes": GB,
        f"{V1}/memory.usage_in_bytes": GB // 4,
    },
    "files that were read": {
        "proc/self/cgroup": "0::/",
        f"{V2}/memory.max": GB,
        f"{V2}/memory.current": GB,
        f"{V2}/memory.stat": f"anon {GB // 4}\ninactive_file {GB // 4 * 3}",
    },
}


@pytest.mark.parametrize("files", SURROUNDINGS.values(), ids=SURROUNDINGS)
def test_a_limit_of_the_container_or_slice_counts_less_what_is_used(files: dict[str, object], tmp_path: Path) -> None:
    assert free_memory(write(tmp_path, files)) == GB - GB // 4


@pytest.mark.parametrize("files", [{}, {"proc/self/cgroup": "0::/", f"{V2}/memory.max": "max"}])
def test_without_a_limit_the_machine_counts(files: dict[str, object], tmp_path: Path) -> None:
    assert free_memory(write(tmp_path, files)) == pytest.approx(psutil.virtual_memory().available, rel=0.5)


def test_the_doctor_calls_a_python_that_was_killed_short_of_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    killed = f"import os; os.kill(os.getpid(), {int(signal.SIGKILL)})"
    monkeypatch.setattr(doctor, "_USE_THE_PAIR", killed)
    assert subprocess.run([sys.executable, "-c", killed], check=False).returncode == -signal.SIGKILL
    finding = doctor.check_pair()
    assert (finding.verdict, "out of memory" in finding.found) == ("PROBLEM", True)
    assert "give this container more memory" in finding.remedy
