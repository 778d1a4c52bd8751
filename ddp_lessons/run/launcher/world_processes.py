"""The processes of one world: how they start, which are replaced after a failure, and how they end."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import sys
import tempfile
from collections.abc import Sequence, Set
from typing import BinaryIO

from ddp_lessons.run.launcher.follow import Rank, Watch
from ddp_lessons.run.launcher.patience import SECONDS_TO_COME_BACK, SECONDS_TO_LEAVE
from ddp_lessons.run.launcher.private_folders import current_folder, module_path, session_folder
from ddp_lessons.run.nodes.node_group import NodeGroup, start_there
from ddp_lessons.run.output.transcript import Transcript
from ddp_lessons.run.processes.process_pool import pool
from ddp_lessons.run.processes.process_sources import Process, stop_each
from ddp_lessons.run.wire.channel import gathering
from ddp_lessons.run.wire.messages import MARK, Leave, Rejoin, Start, size_of_guard

_LONGEST_PATIENCE_SECONDS = 600.0  # if the function has no time limit


class Crew:
    """All ranks of one world. If they outlive failures, they compare their calls before they make them."""

    def __init__(
        self,
        world_size: int,
        *,
        start_method: str,
        backend: str | None,
        record: bool | str,
        timeout_seconds: float | None,
        memory_bytes: int | None,
        outlives_failures: bool,
        nodes: NodeGroup | None = None,
    ) -> None:
        self.ranks: list[Rank] = []
        self.why_gone = ""
        self._world_size = world_size
        self._nodes = nodes  # None: all ranks run on this machine
        self._places = nodes.places(world_size) if nodes is not None else []
        self._start_method = start_method
        self._backend = backend
        self._record = record
        self._patience_seconds = min(timeout_seconds or _LONGEST_PATIENCE_SECONDS, _LONGEST_PATIENCE_SECONDS)
        self._memory_bytes = memory_bytes
        self._outlives_failures = outlives_failures
        self._folder = tempfile.mkdtemp(dir=session_folder())
        self._port = _reserved_port() if nodes is None else None
        self._threads = _asked_threads() or (max(1, _cores() // world_size) if nodes is None else 0)
        self._meeting = self._new_meeting()
        self._called_off = ""
        processes = self._new_processes(range(world_size))
        with gathering(process.channel for process in processes):
            self.ranks += [self._begun(number, process) for number, process in enumerate(processes)]

    def begin_anew(self, watch: Watch) -> list[int]:
        """After a failure: a new group for all ranks that can be interrupted. Returns those that were replaced.

        Raises:
            NodeLost: a node is gone, so that no group of this size is possible.
        """
        self._call_off_meeting()
        self._meeting = self._new_meeting()
        came = watch.free(self._meeting, SECONDS_TO_COME_BACK)
        if self._called_off:
            shutil.rmtree(f"{self._called_off}-called-off", ignore_errors=True)
        lost = [number for number in range(self._world_size) if number not in came]
        if lost:
            stop_each([self.ranks[number].process for number in lost])
            for number, process in zip(lost, self._new_processes(lost), strict=True):
                self.ranks[number].process.close()
                with contextlib.suppress(OSError):
                    os.unlink(self.ranks[number].crash_file)
                self.ranks[number] = self._begun(number, process)
        return lost

    def _new_processes(self, ranks: Sequence[int]) -> list[Process]:
        if self._nodes is None:
            return pool.take(len(ranks), self._start_method)
        return self._nodes.take([self._places[rank] for rank in ranks])

    def let_go(self, import_ahead: Set[str]) -> None:
        """Let the ranks exit normally."""
        for rank in self.ranks:
            with contextlib.suppress(OSError):
                rank.process.channel.send(Leave())
        watch = Watch(self.ranks, None)
        watch.until_all_left(SECONDS_TO_LEAVE)
        watch.close()
        self.stop("close() was called")
        self.release(import_ahead)

    def stop(self, why: str) -> None:
        """Stop all processes that still run."""
        self.why_gone = why
        stop_each([rank.process for rank in self.ranks if rank.died is None])

    def release(self, import_ahead: Set[str]) -> None:
        """Free all resources, and prepare processes for the next launch."""
        for rank in self.ranks:
            rank.process.close()
        if self._port is not None:
            self._port.close()
        shutil.rmtree(self._folder, ignore_errors=True)
        if self._nodes is not None:
            self._nodes.give_back(self._meeting.port)
            self._nodes.import_ahead(import_ahead)
            return
        pool.import_ahead(import_ahead, self._start_method)
        pool.prepare(self._world_size, self._start_method)

    def _call_off_meeting(self) -> None:
        """A rank that waits there, in new_group, gets an error: torch fails on a path that leads through a file.

        If they meet at a port, they lose their connections to it when they are interrupted.
        """
        if self._nodes is not None:
            self._nodes.give_back(self._meeting.port)
            return
        with contextlib.suppress(OSError):  # no rank waits at the rendezvous before that one
            os.unlink(self._called_off)
        folder = self._called_off = os.path.dirname(self._meeting.meeting_file)
        with contextlib.suppress(OSError):  # if it cannot be renamed while it is open, such a rank is replaced
            os.rename(folder, folder + "-called-off")
            open(folder, "wb").close()

    def _new_meeting(self) -> Rejoin:
        if self._nodes is not None:
            return Rejoin("", "", self._nodes.reserve_port())
        folder = tempfile.mkdtemp(dir=self._folder)
        guard_file = os.path.join(folder, "guard") if self._outlives_failures else ""
        if guard_file:
            with open(guard_file, "wb") as file:
                _fill(file, size_of_guard(self._world_size))
        return Rejoin(os.path.join(folder, "meeting"), guard_file)

    def _begun(self, number: int, process: Process) -> Rank:
        """Tell a new process that it is this rank."""
        crash_file = os.path.join(self._folder, f"crash-{number}-{process.number}")
        own = {"RANK": str(number), "LOCAL_RANK": str(number), MARK: str(process.number)}
        start = Start(
            rank=number,
            world_size=self._world_size,
            environment={**self._environment(), **own},
            current_folder=current_folder(),
            module_path=module_path(),
            meeting_file=self._meeting.meeting_file,
            guard_file=self._meeting.guard_file,
            crash_file=crash_file,
            backend=self._backend,
            threads=self._threads,
            patience_seconds=self._patience_seconds,
            record=self._record,
            memory_bytes=self._memory_bytes,
            outlives_failures=self._outlives_failures,
        )
        if self._nodes is not None:
            start = start_there(start, self._places[number], process, self._meeting.port)
        with contextlib.suppress(OSError):
            process.channel.send(start)
        return Rank(process, crash_file, Transcript(""))

    def _environment(self) -> dict[str, str]:
        """The variables that torchrun would set, and those that keep gloo and RPC on this machine."""
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("TORCHELASTIC_")}
        if self._port is None:  # start_there() sets those of the node
            return inherited
        loopback = {"linux": "lo", "darwin": "lo0"}.get(sys.platform)
        address, port = self._port.getsockname()[:2]
        return {
            "OMP_NUM_THREADS": str(self._threads),
            **inherited,
            **(dict.fromkeys(("GLOO_SOCKET_IFNAME", "TP_SOCKET_IFNAME"), loopback) if loopback else {}),
            "WORLD_SIZE": str(self._world_size),
            "LOCAL_WORLD_SIZE": str(self._world_size),
            "MASTER_ADDR": address,
            "MASTER_PORT": str(port),
        }


def _reserved_port() -> socket.socket:
    """A free loopback port for a function that joins by itself: bound, but not listening.

    Sockets of the same user may share it (SO_REUSEPORT), as a rank's store does; those of other users may not.
    """
    for family, address in ((socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")):
        with contextlib.suppress(OSError), contextlib.ExitStack() as closing:
            port = closing.enter_context(socket.socket(family))
            port.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
            port.bind((address, 0))
            closing.pop_all()
            return port
    raise RuntimeError(
        "the loopback interface, which connects the ranks, has no address on this machine, neither 127.0.0.1 nor ::1. "
        "Next: ask the administrator of this machine or container to bring it up (ip link set lo up)"
    )


def _fill(file: BinaryIO, size: int) -> None:
    """Allocate the file on disk now: a rank that maps it is killed if the disk is full later."""
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(file.fileno(), 0, size)
    else:
        file.write(bytes(size))


def _asked_threads() -> int:
    """What the learner set, if it is a number of threads; else 0. OpenMP, too, passes over what it cannot read."""
    first = os.environ.get("OMP_NUM_THREADS", "").partition(",")[0].strip()
    return int(first) if first.isdecimal() else 0


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
