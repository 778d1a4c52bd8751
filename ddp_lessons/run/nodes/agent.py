"""On a node: fork ranks for a notebook elsewhere, and relay between them and it.

The connection is this process's stdin and stdout. Whatever started it (ssh, nsenter) also secures the connection:
the agent opens no port, and it ends, with all its ranks, as soon as its stdin is closed or it hears nothing any more.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import queue
import selectors
import socket
import threading
import time
from collections.abc import Sequence, Set
from dataclasses import dataclass, field
from typing import Any, cast

from ddp_lessons.run.launcher.patience import SECONDS_TO_REACH_A_NODE
from ddp_lessons.run.launcher.private_folders import FILES_OF_A_RANK, allow_open_files, session_folder
from ddp_lessons.run.nodes.about_node import about_this_node
from ddp_lessons.run.processes.process_sources import Forks, Process, stop_each
from ddp_lessons.run.wire.channel import Channel
from ddp_lessons.run.wire.relayed import (
    GREETING,
    SECONDS_OF_SILENCE,
    Answer,
    Ask,
    Crashing,
    Gone,
    HasTorch,
    OfRank,
    Ping,
    Pong,
    Printed,
    Relayed,
)

_TICK_SECONDS = 0.02
_MOST_AT_ONCE = 1 << 20
_SECONDS_TO_GATHER = 0.001


@dataclass
class _Rank:
    process: Process
    to_rank: queue.SimpleQueue[bytes | None] = field(default_factory=queue.SimpleQueue)
    crash_bytes: int = 0  # how much of its crash file was relayed
    is_silent: bool = False  # its output is closed
    is_gone: bool = False  # its channel is closed

    def feed(self) -> None:
        """In a thread of its own, because a rank that does not read must not keep the others waiting."""
        with contextlib.suppress(OSError):
            while (data := self.to_rank.get()) is not None:
                self.process.channel.socket.sendall(data)


class Agent:
    """The public methods are what a notebook may ask for."""

    def __init__(self, connection: Channel) -> None:
        self._connection = connection
        self._forks = Forks()
        self._folder = session_folder()
        self._ranks: dict[int, _Rank] = {}
        self._ports: dict[int, socket.socket] = {}
        self._heard = time.monotonic()
        self._has_told_of_torch = False
        self._selector = selectors.DefaultSelector()
        self._selector.register(connection, selectors.EVENT_READ, self._hear)

    def relay(self) -> None:
        """Until the notebook is gone."""
        try:
            with contextlib.suppress(EOFError, OSError):
                while time.monotonic() < self._heard + SECONDS_OF_SILENCE:
                    self._relay_what_is_ready()
                    for number in self._ranks:
                        self._relay_crash(number)
                    self._tell_of_torch()
        finally:
            stop_each([rank.process for rank in self._ranks.values()])

    def bear(self, numbers: tuple[int, ...]) -> None:
        allow_open_files(FILES_OF_A_RANK * len(numbers))
        if not self._forks.is_usable():  # its template was killed
            self._forks, self._has_told_of_torch = Forks(), False
        for process in self._forks.bear_these(numbers):
            rank = self._ranks[process.number] = _Rank(process)
            threading.Thread(target=rank.feed, daemon=True).start()
            self._selector.register(process.channel, selectors.EVENT_READ, lambda rank=rank: self._from_rank(rank))
            os.set_blocking(process.output.fileno(), False)
            self._selector.register(process.output, selectors.EVENT_READ, lambda rank=rank: self._relay_output(rank))

    def stop(self, numbers: Sequence[int]) -> list[int | None]:
        ranks = [self._ranks[number] for number in numbers if number in self._ranks]
        codes = stop_each([rank.process for rank in ranks])
        for rank in ranks:
            self._let_go(rank)
        return [codes.get(number) for number in numbers]

    def signal(self, number: int, signal: int) -> None:
        if (rank := self._ranks.get(number)) is not None:
            rank.process.nursery.signal(rank.process, signal)

    def last_words(self) -> list[str]:
        """Why the process that forked ranks has ended by itself; empty if it has not."""
        return list(self._forks.last_words())

    def import_ahead(self, modules: Set[str]) -> None:
        self._forks.import_ahead(modules)

    def listen(self) -> int:
        """A port on every interface, by which other nodes find out which address of this one they reach."""
        listener = socket.create_server(("", 0))
        port: int = listener.getsockname()[1]
        self._ports[port] = listener
        return port

    def reach(
        self, addresses: Sequence[str], port: int, seconds: float = SECONDS_TO_REACH_A_NODE
    ) -> list[tuple[str, str]]:
        """Which of these addresses this node reaches, each with the own address from which it does."""
        reached = []
        for address in addresses:
            with contextlib.suppress(OSError), socket.create_connection((address, port), seconds) as line:
                reached.append((address, line.getsockname()[0]))
        return reached

    def reserve(self, address: str) -> int:
        """A free port for the ranks' store: bound, but not listening, as the store of the same user may share it."""
        reserved = socket.socket()
        reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        reserved.bind((address, 0))
        port: int = reserved.getsockname()[1]
        self._ports[port] = reserved
        return port

    def give_back(self, port: int) -> None:
        if (reserved := self._ports.pop(port, None)) is not None:
            reserved.close()

    def _relay_what_is_ready(self) -> None:
        """Ranks often speak at the same time, and one piece arrives sooner than several."""
        ready = self._selector.select(_TICK_SECONDS)
        end = time.monotonic() + _SECONDS_TO_GATHER
        with self._connection.gathering():
            while ready:
                for key, _ in ready:
                    key.data()
                if all(key.fileobj is self._connection for key, _ in ready):
                    return
                ready = self._selector.select(max(0, end - time.monotonic())) if time.monotonic() < end else []

    def _hear(self) -> None:
        whole = self._connection.receive_some()
        if whole is None:
            return
        self._heard = time.monotonic()
        message, buffers = cast(Relayed, whole[0]), whole[1]
        if isinstance(message, OfRank) and message.number in self._ranks:
            self._ranks[message.number].to_rank.put(bytes(buffers[0]))
        elif isinstance(message, Ping):
            self._say(Pong(message.sent, time.monotonic()))
        elif isinstance(message, Ask):
            self._say(self._answer(message))

    def _answer(self, ask: Ask) -> Answer:
        try:
            return Answer(getattr(self, ask.what)(*ask.arguments))
        except (OSError, EOFError) as error:
            return Answer(None, f"{type(error).__name__}: {error}")

    def _from_rank(self, rank: _Rank) -> None:
        self._relay_output(rank)  # first what it printed before this message
        try:
            data = rank.process.channel.socket.recv(_MOST_AT_ONCE)
        except OSError:
            data = b""
        number = rank.process.number
        if data:
            self._say(OfRank(number), data)
            return
        self._selector.unregister(rank.process.channel)
        rank.is_gone = True
        self._relay_crash(number)
        self._say(Gone(number))

    def _relay_output(self, rank: _Rank) -> None:
        """All that it has printed so far."""
        if rank.is_silent:
            return
        while (data := rank.process.output.read(_MOST_AT_ONCE)) is not None:
            self._say(Printed(rank.process.number), data)
            if not data:
                self._selector.unregister(rank.process.output)
                rank.is_silent = True
                return

    def _relay_crash(self, number: int) -> None:
        rank, file = self._ranks[number], os.path.join(self._folder, f"crash-{number}")
        with contextlib.suppress(OSError):
            if os.path.getsize(file) > rank.crash_bytes:
                with open(file, "rb") as crash:
                    crash.seek(rank.crash_bytes)
                    news = crash.read()
                rank.crash_bytes += len(news)
                self._say(Crashing(number), news)

    def _let_go(self, rank: _Rank) -> None:
        """After its end: relay what is left of it, and close all that belongs to it."""
        number = rank.process.number
        self._relay_crash(number)
        self._relay_output(rank)
        if not rank.is_silent:  # a process that it started still has its output open
            self._selector.unregister(rank.process.output)
            self._say(Printed(number), b"")
        if not rank.is_gone:
            self._selector.unregister(rank.process.channel)
        rank.to_rank.put(None)
        rank.process.close()
        del self._ranks[number]
        with contextlib.suppress(OSError):
            os.unlink(os.path.join(self._folder, f"crash-{number}"))

    def _tell_of_torch(self) -> None:
        if not self._has_told_of_torch and self._forks.is_ready_within(0):
            self._has_told_of_torch = True
            self._say(HasTorch())

    def _say(self, message: Relayed, *buffers: bytes) -> None:
        self._connection.send(message, buffers)


class _Streams:
    """Stdin and stdout, with what a channel needs of a socket."""

    def __init__(self, incoming: int, outgoing: int) -> None:
        self._incoming, self._outgoing = incoming, outgoing

    def fileno(self) -> int:
        return self._incoming

    def settimeout(self, seconds: float | None) -> None:
        os.set_blocking(self._incoming, seconds is None)

    def recv_into(self, memory: memoryview) -> int:
        return os.readv(self._incoming, [memory])

    def sendall(self, data: bytes | bytearray | memoryview) -> None:
        left = memoryview(data).cast("B")
        while left:
            left = left[os.write(self._outgoing, left) :]

    def close(self) -> None:
        os.close(self._incoming)
        os.close(self._outgoing)


def serve() -> int:
    """Be the agent of one notebook until it is gone."""
    streams = _Streams(os.dup(0), os.dup(1))
    with open(os.devnull, "rb") as nothing:
        os.dup2(nothing.fileno(), 0)
    os.dup2(2, 1)  # whatever is printed here must not get into the connection
    streams.sendall(f"\n{GREETING}{json.dumps(dataclasses.asdict(about_this_node()))}\n".encode())
    Agent(Channel(cast(Any, streams))).relay()
    return 0
