"""The processes of one world: they start with it, are replaced together, and end with it."""

from __future__ import annotations

import contextlib
import os
import selectors
import shutil
import socket
import sys
import tempfile
import time
from collections.abc import Set
from dataclasses import dataclass, field

from ddp_lessons.run.launcher.patience import SECONDS_TO_LEAVE
from ddp_lessons.run.launcher.private_folders import current_folder, module_path, session_folder
from ddp_lessons.run.launcher.rank_states import Died
from ddp_lessons.run.nodes.node_group import NodeGroup, start_there
from ddp_lessons.run.output.transcript import Transcript
from ddp_lessons.run.processes.process_pool import pool
from ddp_lessons.run.processes.process_sources import Process, stop_each
from ddp_lessons.run.wire.channel import gathering
from ddp_lessons.run.wire.messages import MARK, Meeting, Start

_LONGEST_PATIENCE_SECONDS = 600.0  # if the function has no time limit


@dataclass
class Rank:
    """A rank's process, as the notebook sees it."""

    process: Process
    crash_file: str
    transcript: Transcript = field(default_factory=Transcript)
    died: Died | None = None


class World:
    """Owns the processes of all ranks. They join a group with the first task that has a `meeting()`."""

    def __init__(
        self,
        world_size: int,
        *,
        start_method: str,
        backend: str | None,
        record: bool | str,
        timeout_seconds: float | None,
        memory_bytes: int | None,
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
        self._folder = tempfile.mkdtemp(dir=session_folder())
        self._port = _reserved_port() if nodes is None else None
        self._threads = _asked_threads() or (max(1, _cores() // world_size) if nodes is None else 0)
        self._meetings = 0
        self._meeting = self._new_meeting()
        self._next_meeting: Meeting | None = self._meeting
        self._start_processes()

    def meeting(self) -> Meeting | None:
        """Where the ranks join before their next function; None: they are in a group already."""
        meeting, self._next_meeting = self._next_meeting, None
        return meeting

    def meet_anew(self) -> None:
        """All ranks are idle after a failed call: they join a new group, so that no call of the old one is left."""
        self._give_back_port()
        with contextlib.suppress(OSError):
            os.unlink(self._meeting.file)
        self._next_meeting = self._meeting = self._new_meeting()

    def restart(self, why: str) -> None:
        """New processes for all ranks."""
        stop_each([rank.process for rank in self.ranks if rank.died is None])
        self._close_processes()
        self.why_gone = why  # unless new ones can start
        self.meet_anew()
        self._start_processes()
        self.why_gone = ""

    def close(self, import_ahead: Set[str]) -> None:
        """Let the ranks, which are idle, exit by themselves: a closed channel tells them to."""
        with selectors.DefaultSelector() as selector:
            for rank in self.ranks:
                rank.process.channel.shut()
                selector.register(rank.process.channel, selectors.EVENT_READ, rank)
            end = time.monotonic() + SECONDS_TO_LEAVE
            while selector.get_map() and time.monotonic() < end:
                for key, _ in selector.select(end - time.monotonic()):
                    with contextlib.suppress(EOFError):
                        key.data.process.channel.receive_some()
                        continue
                    selector.unregister(key.fileobj)
        self.stop("close() was called")
        self.release(import_ahead)

    def stop(self, why: str) -> None:
        """Stop all processes that still run."""
        self.why_gone = why
        stop_each([rank.process for rank in self.ranks if rank.died is None])

    def release(self, import_ahead: Set[str]) -> None:
        """Free all resources, and prepare processes for the next launch."""
        self._close_processes()
        if self._port is not None:
            self._port.close()
        shutil.rmtree(self._folder, ignore_errors=True)
        self._give_back_port()
        if self._nodes is not None:
            self._nodes.import_ahead(import_ahead)
            return
        pool.import_ahead(import_ahead, self._start_method)
        pool.prepare(self._world_size, self._start_method)

    def _start_processes(self) -> None:
        if self._nodes is None:
            processes = pool.take(self._world_size, self._start_method)
        else:
            processes = self._nodes.take(self._places)
        path = module_path()
        with gathering(process.channel for process in processes):
            self.ranks = [self._begun(number, process, path) for number, process in enumerate(processes)]

    def _close_processes(self) -> None:
        for rank in self.ranks:
            rank.process.close()
            with contextlib.suppress(OSError):
                os.unlink(rank.crash_file)

    def _new_meeting(self) -> Meeting:
        self._meetings += 1
        if self._nodes is not None:
            return Meeting(port=self._nodes.reserve_port())
        return Meeting(os.path.join(self._folder, f"meeting-{self._meetings}"))

    def _give_back_port(self) -> None:
        if self._nodes is not None:
            self._nodes.give_back(self._meeting.port)

    def _begun(self, number: int, process: Process, path: list[str]) -> Rank:
        """Tell a new process that it is this rank."""
        crash_file = os.path.join(self._folder, f"crash-{number}-{process.number}")
        own = {"RANK": str(number), "LOCAL_RANK": str(number), MARK: str(process.number)}
        start = Start(
            rank=number,
            world_size=self._world_size,
            environment={**self._environment(), **own},
            current_folder=current_folder(),
            module_path=path,
            crash_file=crash_file,
            backend=self._backend,
            threads=self._threads,
            patience_seconds=self._patience_seconds,
            record=self._record,
            memory_bytes=self._memory_bytes,
        )
        if self._nodes is not None:
            start = start_there(start, self._places[number], process, self._meeting.port)
        with contextlib.suppress(OSError):
            process.channel.send(start)
        return Rank(process, crash_file)

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


def _asked_threads() -> int:
    """What the learner set, if it is a number of threads; else 0. OpenMP, too, passes over what it cannot read."""
    first = os.environ.get("OMP_NUM_THREADS", "").partition(",")[0].strip()
    return int(first) if first.isdecimal() else 0


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
