"""The tools that are compared, and how to call each of them."""

import importlib.util
import json
import select
import subprocess
import sys
from dataclasses import dataclass
from typing import Literal, Protocol

from .family import Family
from .kernel import ROOT, CellFailed, Kernel, peer_cell, time_answers
from .measurement import HANG, Sample

Role = Literal["floor", "ours", "peer"]


@dataclass(frozen=True)
class Tool:
    """One row of the table. `cell` is its file under peers/, `needs` the package that must be installed.

    There is a pause before each call, as with a learner. A tool that prepares during the pause is also shown without
    it.
    """

    title: str
    cell: str
    needs: str
    role: Role
    is_slow: bool = False
    has_pauses: bool = True

    @property
    def is_installed(self) -> bool:
        return importlib.util.find_spec(self.needs) is not None

    def open(self) -> "Runner":
        return FloorProcess() if self.role == "floor" else KernelWith(self.cell, self.has_pauses)


FLOOR = Tool("floor: bare fork, gloo, one all_reduce", "floor", "torch", "floor")
OURS = Tool("ours: launch", "ours", "ddp_lessons", "ours")
OURS_IN_A_ROW = Tool("ours: launch, straight after another", "ours", "ddp_lessons", "ours", has_pauses=False)
OURS_SPAWNED = Tool('ours: launch, start_method="spawn"', "ours_spawned", "ddp_lessons", "ours", is_slow=True)
PLAIN_FORK = Tool("plain fork from the kernel", "plain_fork", "torch", "peer")
NOTEBOOK_LAUNCHER = Tool("accelerate notebook_launcher", "notebook_launcher_cell", "accelerate", "peer")
MP_SPAWN = Tool("mp.spawn of a module's function", "mp_spawn", "torch", "peer", is_slow=True)
TORCHRUN = Tool("torchrun --standalone of a script", "torchrun_cell", "torch", "peer", is_slow=True)
TORCHRUNX = Tool("torchrunx", "torchrunx_cell", "torchrunx", "peer", is_slow=True)
TOOLS = (FLOOR, OURS, OURS_IN_A_ROW, OURS_SPAWNED, PLAIN_FORK, NOTEBOOK_LAUNCHER, MP_SPAWN, TORCHRUN, TORCHRUNX)


class Runner(Protocol):
    """Where one tool runs: it can be called repeatedly, and is closed at the end."""

    family: Family

    def time_once(self, world_size: int, timeout_seconds: float) -> Sample: ...
    def close(self) -> None: ...


class KernelWith:
    """A separate kernel for one tool, so that no tool has another one's imports."""

    def __init__(self, cell: str, has_pauses: bool) -> None:
        self.has_pauses = has_pauses
        self.kernel = Kernel()
        self.family = self.kernel.family
        try:
            self.kernel.run(peer_cell(cell), timeout_seconds=120)
        except CellFailed:
            self.close()
            raise

    def time_once(self, world_size: int, timeout_seconds: float) -> Sample:
        before = "" if self.has_pauses else f"answers({world_size})"
        return time_answers(self.kernel, world_size, timeout_seconds, before)

    def close(self) -> None:
        self.kernel.close()


class FloorProcess:
    """The process in which the floor is measured: one thread, torch imported, loopback only."""

    def __init__(self) -> None:
        self.family = Family()
        variables = {"GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.peers.floor"],
            env={**self.family.environment, **variables},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            bufsize=0,
        )
        self.family.root = self.process.pid

    def time_once(self, world_size: int, timeout_seconds: float) -> Sample:
        self.say(f"time {world_size}")
        reply = self.reply(timeout_seconds)
        if reply is None:
            return Sample(trouble=HANG)
        return Sample(reply[0], tuple(reply[1])).checked(world_size)

    def say(self, line: str) -> None:
        assert self.process.stdin
        self.process.stdin.write(line.encode() + b"\n")

    def reply(self, timeout_seconds: float) -> tuple[float, list[float]] | None:
        """Seconds and answers, or None if none came in time."""
        assert self.process.stdout
        if not select.select([self.process.stdout], [], [], timeout_seconds)[0]:
            return None
        seconds, answers = json.loads(self.process.stdout.readline())
        return seconds, answers

    def close(self) -> None:
        self.family.kill()
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe:
                pipe.close()
        self.process.wait()
