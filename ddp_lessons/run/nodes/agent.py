"""On a node: fork ranks for a notebook elsewhere.

The connection is this process's stdin and stdout. Whatever started it (ssh, srun, nsenter) also secures the connection:
the agent opens no port for it, and ends, with all its ranks, as soon as stdin is closed or it hears nothing any more.
"""

from __future__ import annotations

import contextlib
import dataclasses
import glob
import io
import json
import os
import socket
import sys
import time
import zipfile
from collections.abc import Sequence, Set
from typing import cast

import psutil

from ddp_lessons.run.launcher.private_folders import session_folder
from ddp_lessons.run.nodes.hosts import SECONDS_TO_START, allow_open_files, versions
from ddp_lessons.run.nodes.pump import CHANNEL, CRASH, OUTPUT, Pump, stream_of
from ddp_lessons.run.processes.process_sources import Forks, Process, stop_each
from ddp_lessons.run.wire.channel import Channel
from ddp_lessons.run.wire.relayed import GREETING, TRAVELLED, Hello, Relayed


class Agent:
    """The public methods are what a notebook may ask for."""

    def __init__(self, forks: Forks, pump: Pump) -> None:
        self._forks, self._pump = forks, pump
        self._ranks: dict[int, Process] = {}
        self._ports: dict[int, socket.socket] = {}

    def _serve(self, control: Channel) -> None:
        """Until the notebook is gone, or no rank can be forked any more."""
        with contextlib.suppress(EOFError, OSError):
            while self._forks.is_usable():
                answer = self._answer(cast(Relayed, control.receive()[0]))
                if self._forks.is_usable():
                    control.send(answer)
            print(*self._forks.last_words() or ["the process that forks ranks has ended"], file=sys.stderr)
        stop_each(list(self._ranks.values()))

    def _answer(self, asked: Relayed) -> Relayed:
        try:
            return Relayed(asked.number, value=getattr(self, asked.method)(*asked.arguments))
        except (OSError, EOFError) as error:
            return Relayed(asked.number, refusal=f"{type(error).__name__}: {error}")

    def bear(self, numbers: tuple[int, ...]) -> None:
        for process in self._forks.bear_these(numbers):
            self._ranks[process.number] = process
            os.mkfifo(crash := _crash_file(process.number), 0o600)
            self._pump.carry(stream_of(process.number, CRASH), os.open(crash, os.O_RDONLY | os.O_NONBLOCK))
            self._pump.carry(stream_of(process.number, OUTPUT), os.dup(process.output.fileno()))
            self._pump.carry(stream_of(process.number, CHANNEL), os.dup(process.channel.fileno()))
            process.close()

    def stop(self, numbers: Sequence[int]) -> list[int | None]:
        codes = stop_each([self._ranks.pop(number) for number in numbers if number in self._ranks])
        self._pump.finish([stream_of(number, kind) for number in codes for kind in (CRASH, OUTPUT, CHANNEL)])
        for number in codes:
            os.unlink(_crash_file(number))
        return [codes.get(number) for number in numbers]

    def signal(self, number: int, signal: int) -> None:
        if number in self._ranks:
            self._forks.signal(self._ranks[number], signal)

    def import_ahead(self, modules: Set[str]) -> None:
        self._forks.import_ahead(modules)

    def take_modules(self, archive: bytes) -> None:
        """The notebook's own, which its ranks find first."""
        zipfile.ZipFile(io.BytesIO(archive)).extractall(session_folder() + TRAVELLED)

    def time(self) -> float:
        return time.monotonic()

    def reserve(self, address: str) -> int:
        """A free port for the ranks' store: bound, but not listening, as the store of the same user may share it."""
        reserved = socket.socket()
        reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        reserved.bind((address, 0))
        port: int = reserved.getsockname()[1]
        self._ports[port] = reserved
        return port

    def give_back(self, port: int) -> None:
        self._ports.pop(port).close()


def _about_this_node() -> Hello:
    address, gpus, visible = _own_address(), len(glob.glob("/dev/nvidia[0-9]*")), os.environ.get("CUDA_VISIBLE_DEVICES")
    if gpus and visible is not None:  # numbers, or names such as GPU-8932f937
        gpus = sum(any(map(str.isdigit, one)) for one in visible.split(","))
    known = psutil.net_if_addrs().items()
    return Hello(
        versions=versions(),
        cores=len(os.sched_getaffinity(0)),
        gpus=gpus,
        folder=session_folder(),
        module_path=[folder for folder in sys.path if folder],
        environment=dict(os.environ),
        address=address,
        interface=next((name for name, of_it in known if any(one.address == address for one in of_it)), ""),
    )


def _own_address() -> str:
    """What the node's name means. On many systems that is a loopback address; then, the way out of this node."""
    with contextlib.suppress(OSError):
        if not (address := socket.gethostbyname(socket.gethostname())).startswith("127."):
            return address
    with contextlib.suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as trial:
        trial.connect(("192.0.2.1", 9))  # belongs to nobody (RFC 5737), and nothing is sent
        return str(trial.getsockname()[0])
    return "127.0.0.1"


def _crash_file(number: int) -> str:
    return os.path.join(session_folder(), f"crash-{number}")


def serve() -> None:
    """Be the agent of one notebook until it is gone."""
    incoming, outgoing = os.dup(0), os.dup(1)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(2, 1)  # whatever is printed here must not get into the connection
    allow_open_files()
    forks = Forks()
    if not forks.is_ready_within(SECONDS_TO_START):
        sys.exit(" ".join(forks.last_words()) or "torch is not imported yet")
    os.write(outgoing, f"\n{GREETING}{json.dumps(dataclasses.asdict(_about_this_node()))}\n".encode())
    ours, theirs = socket.socketpair()
    Agent(forks, Pump(incoming, outgoing, theirs.detach()))._serve(Channel(ours))
