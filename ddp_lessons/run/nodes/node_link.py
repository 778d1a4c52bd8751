"""In the notebook: the connection to the agent on one node, and the processes of that node."""

from __future__ import annotations

import contextlib
import io
import itertools
import json
import os
import pickle
import queue
import socket
import subprocess
import tempfile
import threading
import time
import weakref
from collections.abc import Sequence, Set
from typing import IO, Any, cast

from ddp_lessons.run.launcher.patience import SECONDS_FOR_A_NODE_TO_ANSWER
from ddp_lessons.run.launcher.private_folders import open_standard_descriptors, session_folder
from ddp_lessons.run.nodes.node_clock import NodeClock
from ddp_lessons.run.nodes.node_commands import NodeCommand, NodeLost, check_same
from ddp_lessons.run.nodes.relayed_ranks import PIECE, ChannelOfNode, RelayedRank
from ddp_lessons.run.nodes.slurm_troubles import next_after_loss
from ddp_lessons.run.nodes.start_troubles import why_no_agent
from ddp_lessons.run.processes.process_sources import Process, end_within, opened
from ddp_lessons.run.wire.channel import Channel
from ddp_lessons.run.wire.clocks import Clock
from ddp_lessons.run.wire.messages import Buffer
from ddp_lessons.run.wire.relayed import (
    GREETING,
    SECONDS_OF_SILENCE,
    Answer,
    Ask,
    Crashing,
    Gone,
    HasTorch,
    Hello,
    OfRank,
    Ping,
    Pong,
    Printed,
)

_SECONDS_TO_START = 60.0
_SECONDS_BETWEEN_PINGS = 1.0
_SECONDS_TO_END = 3.0
_LONGEST_GREETING = 1 << 22


class NodeLink:
    """One node. It is a nursery: its processes are forked by the agent there."""

    hello: Hello

    def __init__(self, way: NodeCommand) -> None:
        open_standard_descriptors()
        self.name, self.python, self._why_ended = way.node, way.python, way.why_ended
        self.why_lost = ""
        self.imported: Set[str] = frozenset()  # asked for, in addition to torch
        self._words: tuple[str, ...] = ()  # of what forked ranks there, if it has ended by itself
        self._clock = NodeClock(way.node)
        self._heard = time.monotonic()
        self._has_torch = threading.Event()
        self._answers: queue.SimpleQueue[Answer] = queue.SimpleQueue()
        self._one_request = threading.Lock()
        self._relayed: dict[int, RelayedRank] = {}
        self._numbers = itertools.count()
        ours, theirs = socket.socketpair()
        self._channel = opened(ours)
        self._complaints = tempfile.TemporaryFile(dir=session_folder())  # noqa: SIM115
        with theirs:
            self._process = subprocess.Popen(
                way.command,
                stdin=theirs.fileno(),
                stdout=theirs.fileno(),
                stderr=self._complaints,
                start_new_session=True,
            )
        self._end = weakref.finalize(self, _end, ours, self._process, self._complaints)

    def greet(self) -> None:
        """Wait until the agent has started.

        Raises:
            NodeLost: it can't, or the node has another Python, torch or package.
        """
        self.hello = self._greeted(self._channel.socket)
        check_same(self.name, self.python, self.hello)
        self._channel.socket.settimeout(None)
        self._heard = time.monotonic()
        me = weakref.ref(self)
        threading.Thread(target=_listen, args=(me, self._channel), daemon=True).start()
        threading.Thread(target=_ping, args=(me,), daemon=True).start()
        if not self._clock.is_known_within(SECONDS_FOR_A_NODE_TO_ANSWER):
            self._lose("it does not answer")
            self._check_not_lost()

    def close(self) -> None:
        """End the agent with all its ranks."""
        self._lose("it was closed")
        self._end()

    def give_up(self) -> None:
        """The same for an agent that has not started yet: do not wait until it notices."""
        self._process.terminate()
        self.close()

    def clock(self) -> Clock:
        return self._clock.now()

    def ask(self, what: str, *arguments: object) -> Any:
        with self._one_request:
            self._check_not_lost()
            self.say(Ask(what, arguments))
            try:
                answer = self._answers.get(timeout=SECONDS_OF_SILENCE + SECONDS_FOR_A_NODE_TO_ANSWER)
            except queue.Empty:
                self._lose("it does not answer")
                answer = self._answers.get()
        self._check_not_lost()
        if answer.refusal:
            raise OSError(f"{self.name}: {answer.refusal}")
        return answer.value

    def say(self, message: OfRank | Ask | Ping, *buffers: Buffer, patience_seconds: float = -1) -> None:
        if self.why_lost:
            raise BrokenPipeError(self.why_lost)
        if isinstance(message, OfRank) and self._is_stopped(message.number):
            raise BrokenPipeError(f"this rank on {self.name} was stopped")
        self._channel.send(message, buffers, patience_seconds)
        if any(len(buffer) >= PIECE for buffer in buffers):
            self._heard = time.monotonic()  # it moves; an answer may have to wait until all of it is sent

    def bear(self, count: int) -> list[Process]:
        numbers = tuple(itertools.islice(self._numbers, count))
        born = [self._relayed_process(number) for number in numbers]  # the first may end before all are there
        try:
            self.ask("bear", numbers)
        except (OSError, NodeLost):
            for number, process in zip(numbers, born, strict=True):
                self._relayed.pop(number).end()
                process.close()
            raise
        return born

    def crash_file_of(self, process: Process, here: str) -> str:
        """Where this rank's crash file is on the node; what is written there arrives in the file `here`."""
        with contextlib.suppress(KeyError):
            self._relayed[process.number].crash_file = here
        return os.path.join(self.hello.folder, f"crash-{process.number}")

    def stop(self, processes: Sequence[Process]) -> list[int | None]:
        numbers = [process.number for process in processes]
        for number in numbers:
            if number in self._relayed:
                self._relayed[number].is_stopped = True
        try:
            codes: list[int | None] = self.ask("stop", numbers)
            self._words = tuple(self.ask("last_words")) if None in codes else ()
            return codes
        except (OSError, NodeLost):
            return [None for _ in processes]
        finally:
            for number in numbers:
                if (relayed := self._relayed.pop(number, None)) is not None:
                    relayed.end()

    def signal(self, process: Process, number: int) -> None:
        self.ask("signal", process.number, number)

    def is_ready_within(self, seconds: float) -> bool:
        return self._has_torch.wait(seconds)

    def import_ahead(self, modules: Set[str]) -> None:
        if not self.hello.gpus and not modules <= self.imported:  # a process that touched a GPU must not be forked
            self.imported |= modules
            self.ask("import_ahead", self.imported)

    def busy_with(self) -> str:
        return "" if self._has_torch.is_set() else f"torch on {self.name}"

    def is_usable(self) -> bool:
        return not self.why_lost

    def last_words(self) -> tuple[str, ...]:
        return (self.why_lost,) if self.why_lost else self._words

    def _check_not_lost(self) -> None:
        if self.why_lost:
            raise NodeLost(f"{self.why_lost}.\n  Next: {next_after_loss(self.name, self.why_lost)}")

    def _is_stopped(self, number: int) -> bool:
        relayed = self._relayed.get(number)
        return relayed is None or relayed.is_stopped

    def _relayed_process(self, number: int) -> Process:
        ours, theirs = socket.socketpair()
        output, their_output = os.pipe()
        self._relayed[number] = RelayedRank(theirs, io.FileIO(their_output, "w"))

        def say(data: bytes, patience_seconds: float) -> None:
            self.say(OfRank(number), data, patience_seconds=patience_seconds)

        channel = ChannelOfNode(ours, say, self._channel)
        return Process(number, channel, io.FileIO(output, "r"), self, node=self.name, python=self.python)

    def _greeted(self, stream: socket.socket) -> Hello:
        """The agent's first line. It may follow whatever the login shell prints."""
        end, line = time.monotonic() + _SECONDS_TO_START, b""
        while GREETING.encode() not in line:
            line = b""
            while not line.endswith(b"\n"):
                stream.settimeout(max(0.01, end - time.monotonic()))
                try:
                    letter = stream.recv(1)
                except TimeoutError:
                    waited = f"no answer within {_SECONDS_TO_START:.0f} seconds"
                    raise NodeLost(why_no_agent(self.name, self.python, waited, self._said())) from None
                except ConnectionError:
                    letter = b""
                if not letter or len(line) > _LONGEST_GREETING:
                    end_within(_SECONDS_TO_END, self._process)
                    ended = f"the command ended with status {self._process.returncode} and said nothing"
                    raise NodeLost(why_no_agent(self.name, self.python, ended, self._said()))
                line += letter
        return Hello(**json.loads(line[line.index(GREETING.encode()) + len(GREETING) :]))

    def _said(self) -> list[str]:
        self._complaints.seek(0)
        return self._complaints.read().decode(errors="replace").strip().splitlines()

    def _arrived(self, message: object, buffers: Sequence[bytearray]) -> None:
        self._heard = time.monotonic()
        if isinstance(message, OfRank | Printed | Gone | Crashing):
            if (relayed := self._relayed.get(message.number)) is None:
                return
            if isinstance(message, Crashing):
                relayed.crashing(buffers[0])
            else:
                take = relayed.printed if isinstance(message, Printed) else relayed.message
                take(bytes(buffers[0]) if buffers else b"")
        elif isinstance(message, Pong):
            self._clock.heard(message)
        elif isinstance(message, HasTorch):
            self._has_torch.set()
        elif isinstance(message, Answer):
            self._answers.put(message)

    def _pinged(self) -> None:
        if time.monotonic() > self._heard + SECONDS_OF_SILENCE / 2:
            self._lose(f"it has not answered for {SECONDS_OF_SILENCE / 2:.0f} seconds")
        else:
            with contextlib.suppress(OSError):
                self._channel.send(Ping(time.monotonic()), patience_seconds=_SECONDS_BETWEEN_PINGS)

    def _lose(self, why: str) -> None:
        if not self.why_lost:
            self.why_lost = f"lost the connection to {self.name}: {why}"
            with contextlib.suppress(OSError):
                self._channel.socket.shutdown(socket.SHUT_RDWR)
        self._answers.put(Answer(None, self.why_lost))  # to whoever waits for one
        for relayed in list(self._relayed.values()):
            relayed.message(b"")
            relayed.printed(b"")

    def _ended(self) -> None:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout=_SECONDS_TO_END)
        with contextlib.suppress(ValueError):  # the file with what it said is closed: nobody needs this link any more
            if not self.why_lost:
                last = self._said()[-1:] or ["its agent has ended"]
                self._lose(self._why_ended() or last[0])


def _listen(link: weakref.ref[NodeLink], channel: Channel) -> None:
    with contextlib.suppress(EOFError, OSError, pickle.UnpicklingError):
        while True:
            message, buffers = channel.receive()
            if (here := link()) is None:
                return
            here._arrived(cast(object, message), buffers)
            del here
    if (here := link()) is not None:
        here._ended()


def _ping(link: weakref.ref[NodeLink]) -> None:
    quickly = [0.05] * 10  # at first, for a good clock
    while (here := link()) is not None and not here.why_lost:
        here._pinged()
        del here
        time.sleep(quickly.pop() if quickly else _SECONDS_BETWEEN_PINGS)


def _end(stream: socket.socket, process: subprocess.Popen[bytes], complaints: IO[bytes]) -> None:
    with contextlib.suppress(OSError):
        stream.shutdown(socket.SHUT_RDWR)
    stream.close()
    complaints.close()
    end_within(_SECONDS_TO_END, process)
