"""All processes that a measured process started, found by descent or by a mark in their environment.

The mark also finds processes that detached from their parent. The processes can be counted, measured and ended. Linux
only: everything is read from /proc.
"""

import os
import signal
import time
import uuid
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

MARK = "DDP_LESSONS_BENCHMARK"
MEGABYTE = 1024 * 1024
GIGABYTE = 1024 * MEGABYTE
TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")


@dataclass
class Family:
    """Start the first process with `environment`; every process that it starts belongs to the family."""

    root: int = 0
    mark: str = field(default_factory=lambda: uuid.uuid4().hex)

    @property
    def environment(self) -> dict[str, str]:
        return {**os.environ, MARK: self.mark}

    def members(self) -> list[int]:
        """Process ids, including the root's and zombies."""
        found = {self.root} if exists(self.root) else set()
        parents = parent_of_each()
        found |= {process for process in parents if is_marked(process, self.mark)}
        growing = True
        while growing:
            more = {process for process, parent in parents.items() if parent in found} - found
            found |= more
            growing = bool(more)
        return sorted(found)

    def descendants(self) -> list[int]:
        return [process for process in self.members() if process != self.root]

    def living(self) -> list[int]:
        return [process for process in self.members() if not is_zombie(process)]

    def megabytes(self) -> float:
        """The sum of proportional set sizes: a page shared by ten processes counts as a tenth for each."""
        return sum(proportional_set_size(process) for process in self.members()) / MEGABYTE

    def cpu_seconds(self) -> float:
        return sum(cpu_seconds(process) for process in self.members())

    def settle(self, limit_seconds: float = 20.0) -> None:
        """Wait until no process of the family computes, so that one measurement does not disturb the next."""
        deadline = time.monotonic() + limit_seconds
        before, quiet = self.cpu_seconds(), 0
        while quiet < 2 and time.monotonic() < deadline:
            time.sleep(0.1)
            now = self.cpu_seconds()
            quiet = quiet + 1 if now - before < 0.015 else 0
            before = now

    def kill(self) -> None:
        """End them all, including those started meanwhile."""
        for _ in range(20):
            living = self.living()
            if not living:
                return
            for process in living:
                kill(process)
            time.sleep(0.05)


def kill(process: int) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.kill(process, signal.SIGKILL)


def exists(process: int) -> bool:
    return process > 0 and Path(f"/proc/{process}").exists()


def read(process: int, name: str) -> str:
    """A file of /proc, empty if the process is gone or belongs to another user."""
    try:
        return Path(f"/proc/{process}/{name}").read_text(errors="replace")
    except OSError:
        return ""


def fields_of(process: int) -> list[str]:
    """The fields of /proc/*/stat starting with the state (the name before it may contain spaces)."""
    return read(process, "stat").rpartition(")")[2].split()


def parent_of_each() -> dict[int, int]:
    processes = [int(entry) for entry in os.listdir("/proc") if entry.isdigit()]
    known = {process: fields_of(process) for process in processes}
    return {process: int(fields[1]) for process, fields in known.items() if fields}


def is_marked(process: int, mark: str) -> bool:
    return f"{MARK}={mark}" in read(process, "environ")


def is_zombie(process: int) -> bool:
    return fields_of(process)[:1] in ([], ["Z"], ["X"])


def cpu_seconds(process: int) -> float:
    fields = fields_of(process)
    return (int(fields[11]) + int(fields[12])) / TICKS_PER_SECOND if fields else 0.0


def bytes_counted(text: str, name: str) -> int:
    """The bytes after `name:` in a file of /proc that counts in kB."""
    line = next((line for line in text.splitlines() if line.startswith(f"{name}:")), "")
    return int(line.split()[1]) * 1024 if line else 0


def proportional_set_size(process: int) -> int:
    return bytes_counted(read(process, "smaps_rollup"), "Pss")


def resident_set_size(process: int) -> int:
    return bytes_counted(read(process, "status"), "VmRSS")


def available_memory() -> int:
    """Available memory of the machine, in bytes."""
    return bytes_counted(Path("/proc/meminfo").read_text(), "MemAvailable")


def total_memory() -> int:
    return bytes_counted(Path("/proc/meminfo").read_text(), "MemTotal")
