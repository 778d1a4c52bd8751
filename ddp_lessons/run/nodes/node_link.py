"""In the notebook: the connection to the agent on one node, and the processes of that node."""

from __future__ import annotations

import contextlib
import io
import itertools
import json
import math
import os
import shlex
import socket
import subprocess
import tempfile
import threading
import time
import weakref
from collections.abc import Sequence, Set
from typing import IO, Any, cast

from ddp_lessons.own_files import IMPORTED_FROM
from ddp_lessons.run.launcher.private_folders import open_standard_descriptors, session_folder
from ddp_lessons.run.nodes.hosts import SECONDS_TO_START, NodeCommand, NodeLost, versions
from ddp_lessons.run.nodes.pump import CHANNEL, CRASH, OUTPUT, SECONDS_OF_SILENCE, Pump, stream_of
from ddp_lessons.run.processes.process_sources import Process, end_within, opened
from ddp_lessons.run.wire.channel import Channel
from ddp_lessons.run.wire.clocks import Clock
from ddp_lessons.run.wire.relayed import GREETING, Hello, Relayed

# the package is installed there, or in the same place as here
_AGENT = f"import sys; sys.path.append({IMPORTED_FROM!a}); from ddp_lessons.run.nodes import agent; agent.serve()"
_SECONDS_TO_END = 3.0
_SECONDS_OF_A_GOOD_CLOCK = 10.0  # in which two machines' clocks drift apart by less than a millisecond


class NodeLink:
    """One node. It is a nursery: its processes are forked by the agent there."""

    hello: Hello
    _pump: Pump
    _control: Channel
    _clock: Clock

    def __init__(self, way: NodeCommand) -> None:
        open_standard_descriptors()
        self.name, self._python = way.node, f"{way.shown} {way.python}".strip()
        self._measured = -math.inf  # when the clock was
        self.imported: Set[str] = frozenset()  # asked for, in addition to torch
        self.modules_sent: frozenset[tuple[str, int]] = frozenset()  # as they were then
        self._numbers, self._one_request = itertools.count(), threading.Lock()
        ours, theirs = socket.socketpair()
        self._connection = opened(ours)
        self._complaints = tempfile.TemporaryFile(dir=session_folder())  # noqa: SIM115
        with theirs:
            try:
                self._process = subprocess.Popen(
                    way.command,
                    stdin=theirs.fileno(),
                    stdout=theirs.fileno(),
                    stderr=self._complaints,
                    start_new_session=True,
                )
            except OSError as error:
                raise NodeLost(f"{self.name} can't start ranks: {error}. Next: install {way.command[0]}.") from None
        with contextlib.suppress(OSError):  # it has ended already; `greet` says why
            ours.sendall(f"exec {shlex.join([way.python, '-u', '-c', _AGENT])}\n".encode())
        self.close = weakref.finalize(self, _end, ours, self._process, self._complaints)

    def greet(self) -> None:
        """Wait until the agent has started, and imported torch.

        Raises:
            NodeLost: it can't, or the node has another Python, torch or package.
        """
        stream = self._connection.socket
        try:
            self.hello = _greeting_on(stream)
        except (OSError, EOFError):
            raise NodeLost(
                f"{self.name} can't start ranks: {self._last_words()}\n"
                f"  Next: run `{self._python} -m ddp_lessons --help` on that machine, and read its error message."
            ) from None
        for name, here in versions().items():
            if (there := self.hello.versions[name]).split(".")[:2] != here.split(".")[:2]:
                raise NodeLost(
                    f"{self.name} has {name} {there}, but this notebook has {here}, so they can't exchange "
                    f"functions or tensors.\n"
                    f"  Next: install {name} {here} there, or pass python=... with the path of a Python that has it."
                )
        ours, theirs = socket.socketpair()
        self._pump = Pump(os.dup(stream.fileno()), os.dup(stream.fileno()), theirs.detach())
        self._control = Channel(ours)

    def ask(self, method: str, *arguments: object) -> Any:
        with self._one_request:
            asked = Relayed(next(self._numbers), method, arguments)
            try:
                self._control.send(asked)
                while (answer := cast(Relayed, self._control.receive()[0])).number != asked.number:
                    pass  # the answer to a request that was interrupted
            except (OSError, EOFError):
                next_step = f"check whether {self.name} is up and reachable, then launch again."
                raise NodeLost(f"{self.last_words()[0]}.\n  Next: {next_step}") from None
        if answer.refusal:
            raise OSError(f"{self.name}: {answer.refusal}")
        return answer.value

    def crash_file_of(self, process: Process, here: str) -> str:
        """Where this rank's crash file is on the node; what is written there arrives in the file `here`."""
        file = os.open(here, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        self._pump.carry(stream_of(process.number, CRASH), file, is_read=False)
        return os.path.join(self.hello.folder, f"crash-{process.number}")

    def set_clock(self) -> None:
        """Measure it again, unless that was a moment ago."""
        if time.monotonic() > self._measured + _SECONDS_OF_A_GOOD_CLOCK:
            self._clock = min((self._measured_clock() for _ in range(4)), key=lambda clock: clock.error)
            self._measured = time.monotonic()

    def bear(self, count: int) -> list[Process]:
        born = [self._process_here(number) for number in itertools.islice(self._numbers, count)]
        self.ask("bear", tuple(process.number for process in born))
        return born

    def stop(self, processes: Sequence[Process]) -> list[int | None]:
        try:
            codes: list[int | None] = self.ask("stop", [process.number for process in processes])
            return codes
        except (OSError, NodeLost):
            return [None for _ in processes]

    def signal(self, process: Process, number: int) -> None:
        with contextlib.suppress(NodeLost):
            self.ask("signal", process.number, number)

    def is_ready_within(self, seconds: float) -> bool:
        return True

    def busy_with(self) -> str:
        return ""

    def import_ahead(self, modules: Set[str]) -> None:
        if not self.hello.gpus and not modules <= self.imported:  # a process that touched a GPU must not be forked
            self.imported |= modules
            self.ask("import_ahead", self.imported)

    def is_usable(self) -> bool:
        return not self._pump.is_over.is_set()

    def last_words(self) -> tuple[str, ...]:
        return () if self.is_usable() else (f"lost the connection to {self.name}: {self._last_words()}",)

    def clock(self) -> Clock:
        return self._clock

    def _measured_clock(self) -> Clock:
        """The answer was sent at about half of the round trip."""
        sent, there, now = time.monotonic(), self.ask("time"), time.monotonic()
        return Clock(self.name, there - (sent + now) / 2, (now - sent) / 2)

    def _process_here(self, number: int) -> Process:
        channel = opened(self._carried(stream_of(number, CHANNEL)))
        output = io.FileIO(self._carried(stream_of(number, OUTPUT)).detach(), "r")
        return Process(number, channel, output, self, node=self.name)

    def _carried(self, stream: int) -> socket.socket:
        """One end of a new socket pair, whose other end the pump has."""
        ours, theirs = socket.socketpair()
        self._pump.carry(stream, theirs.detach())
        return ours

    def _last_words(self) -> str:
        """Of the command that reached the node, or of the agent there."""
        with contextlib.suppress(subprocess.TimeoutExpired, ValueError):  # the file is closed
            self._process.wait(_SECONDS_TO_END)
            size = os.fstat(self._complaints.fileno()).st_size
            said = os.pread(self._complaints.fileno(), size, 0).decode(errors="replace").strip().splitlines()
            return said[-1] if said else f"its command exited with status {self._process.returncode}"
        return f"it has not responded for {SECONDS_OF_SILENCE:.0f} seconds"


def _greeting_on(stream: socket.socket) -> Hello:
    """The agent's first line. It may follow whatever the login shell prints."""
    stream.settimeout(SECONDS_TO_START)
    line = b""
    while not (line.endswith(b"\n") and GREETING.encode() in line):
        if not (letter := stream.recv(1)):
            raise EOFError
        line = letter if line.endswith(b"\n") else line + letter
    stream.settimeout(None)
    return Hello(**json.loads(line.partition(GREETING.encode())[2]))


def _end(stream: socket.socket, process: subprocess.Popen[bytes], complaints: IO[bytes]) -> None:
    """The agent ends with all its ranks when it hears that."""
    with contextlib.suppress(OSError):
        stream.shutdown(socket.SHUT_RDWR)
    stream.close()
    complaints.close()
    end_within(_SECONDS_TO_END, process)
