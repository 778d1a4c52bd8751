"""Run a plain script and explain how its ranks stood, as `launch` does it for a cell: `python -m ddp_lessons explain`.

The script runs under torchrun (or alone, where it starts its ranks by itself). Each rank reports over a socket in a
private folder; what it prints goes where it always went.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

import psutil

from ddp_lessons.run.account import Account
from ddp_lessons.run.agreement import first_disagreement, first_misuse
from ddp_lessons.run.channel import Channel
from ddp_lessons.run.events import Events
from ddp_lessons.run.failures import LOST_CONNECTION, not_to_be_trusted, where_each_is, worker_failed, workers_stuck
from ddp_lessons.run.lookout import Lookout
from ddp_lessons.run.messages import (
    WITNESSED,
    Leave,
    Look,
    Position,
    Present,
    Raised,
    Recorded,
    Returned,
    Standing,
    Where,
)
from ddp_lessons.run.results import NO_VALUE, Results

_INTERRUPTED = 130  # the exit status by which shells know it
_TICK_SECONDS = 0.05
_SECONDS_TO_ANSWER = 1.0
_SECONDS_FOR_OTHER_FAILURES = 0.3


def explain(script: Sequence[str], ranks: int | None, timeout_seconds: float | None) -> int:
    """Run `script` (its path and arguments) and return its exit status; 1 if its ranks could not go on."""
    if not os.path.isfile(script[0]):
        print(f"there is no script {script[0]}", file=sys.stderr)
        return 2
    if not hasattr(socket, "AF_UNIX"):
        print("explain needs Unix sockets, which this system has not; use launch() instead", file=sys.stderr)
        return 2
    witness = ["-m", "ddp_lessons.run.witness", *script]
    torchrun = ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={ranks}"]
    with tempfile.TemporaryDirectory(prefix="ddp-lessons-") as folder, socket.socket(socket.AF_UNIX) as door:
        address = os.path.join(folder, "ranks")
        door.bind(address)
        door.listen(64)
        command = [sys.executable, *(torchrun if ranks else []), *witness]
        # torchrun would choose one thread, too, and say so at length
        environment = {"OMP_NUM_THREADS": "1", **os.environ} if ranks else dict(os.environ)
        process = subprocess.Popen(command, env={**environment, WITNESSED: address})
        vigil = _Vigil(door, process, timeout_seconds)
        try:
            return vigil.keep()
        except KeyboardInterrupt:
            return vigil.give_up()


@dataclass
class _Vigil:
    """What is known of one run of a script."""

    door: socket.socket
    process: subprocess.Popen[bytes]
    timeout_seconds: float | None
    channels: dict[int, Channel] = field(default_factory=dict)
    returned: set[int] = field(default_factory=set)
    ended: dict[int, Raised] = field(default_factory=dict)
    recorded: dict[int, Recorded] = field(default_factory=dict)
    positions: dict[int, Position] = field(default_factory=dict)
    world_size: int = 0
    lookout: Lookout | None = None

    def keep(self) -> int:
        self.begin = time.monotonic()
        self._selector = selectors.DefaultSelector()
        self._selector.register(self.door, selectors.EVENT_READ)
        told = ""
        while not told and self.process.poll() is None and not self._is_over():
            self._look()
            told = self._what_went_wrong()
        told = told or self._what_did_not_fit()
        if not told:
            status = self._let_end()
            if status and not self.channels:
                print(
                    "\nno rank was seen; if torchrun is to start them: --nproc-per-node N", file=sys.stderr, flush=True
                )
            return status
        print(f"\n{told}\n", file=sys.stderr, flush=True)
        return self._let_end() or 1 if self._is_over() else self._end()

    def give_up(self) -> int:
        """The person at the keyboard wants it to end."""
        self._ask_all()
        told = where_each_is(self._account(), self._results().events)
        print("\n".join(["\nthe ranks were stopped by you", *told]), file=sys.stderr, flush=True)
        self._end()
        return _INTERRUPTED

    def _is_over(self) -> bool:
        return bool(self.world_size) and len(self.returned) == self.world_size

    def _what_went_wrong(self) -> str:
        if self.ended and time.monotonic() > min(e.moment for e in self.ended.values()) + _SECONDS_FOR_OTHER_FAILURES:
            self._ask_all()
            failed = worker_failed(self._account(), self._results())
            hint = f"traceback({failed.rank}) of this exception shows the whole way there."
            text = str(failed).replace(hint, "the whole way there is above.")
            way = "" if LOST_CONNECTION in text else f"{failed.traceback(failed.rank)}\n"
            return f"{way}WorkerFailed: {text}"
        is_late = self.timeout_seconds is not None and time.monotonic() > self.begin + self.timeout_seconds
        is_stuck = self.lookout is not None and not self.ended and self.lookout.sees_a_standstill()
        if not (is_stuck or is_late):
            return ""
        if self.lookout is None:
            joined = f"{len(self.channels)} of {self.world_size or 'all'} ranks joined a group"
            return (
                f"WorkersStuck: {joined} within {self.timeout_seconds:g} seconds; importing torch takes some of these"
            )
        self._ask_all()
        stuck = str(workers_stuck(self._account(), self._results(), is_for_ever=is_stuck))
        return f"WorkersStuck: {stuck.replace('launch(..., timeout_seconds=...)', '--timeout SECONDS')}"

    def _what_did_not_fit(self) -> str:
        if not self._is_over():
            return ""
        results = self._results()
        reason = first_disagreement(results.events) or first_misuse(results.events)
        return f"WorkerFailed: {not_to_be_trusted(self._account(), results, reason)}" if reason else ""

    def _account(self) -> Account:
        seconds = time.monotonic() - self.begin
        at_line = {rank: self.lookout.seconds_at_one_line(rank) for rank in self.channels} if self.lookout else {}
        returned = frozenset(self.returned)
        return Account(self.world_size, self.ended, self.positions, returned, self.timeout_seconds, seconds, at_line)

    def _results(self) -> Results[object]:
        ranks = range(self.world_size)
        events = Events([self.recorded.get(rank) for rank in ranks])
        return Results((NO_VALUE,) * len(ranks), tuple([] for _ in ranks), time.monotonic() - self.begin, events)

    def _look(self) -> None:
        for key, _ in self._selector.select(_TICK_SECONDS):
            if key.fileobj is self.door:
                channel = Channel(self.door.accept()[0])
                self._selector.register(channel, selectors.EVENT_READ, None)
            else:
                self._hear(key.fileobj, key.data)  # type: ignore[arg-type]

    def _hear(self, channel: Channel, rank: int | None) -> None:
        try:
            whole = channel.receive_some()
        except EOFError:
            self._selector.unregister(channel)
            return
        if whole is None:
            return
        message = whole[0]
        if isinstance(message, Present):
            self._welcome(channel, message)
        elif rank is not None:
            self._note(rank, message)

    def _welcome(self, channel: Channel, present: Present) -> None:
        self.channels[present.rank] = channel
        self._selector.modify(channel, selectors.EVENT_READ, present.rank)
        self.world_size = max(self.world_size, present.world_size)
        if len(self.channels) == self.world_size:
            self.lookout = Lookout(self.world_size, self._ask)

    def _note(self, rank: int, message: object) -> None:
        if isinstance(message, Standing | Recorded) and self.lookout is not None:
            self.lookout.heard(rank, message)
        if isinstance(message, Returned | Raised | Position) and message.recorded is not None:
            self.recorded[rank] = message.recorded
        if isinstance(message, Returned):
            self.returned.add(rank)
        elif isinstance(message, Raised):
            self.ended[rank] = message
        elif isinstance(message, Position) and rank not in self.returned:
            self.positions[rank] = message

    def _ask(self, rank: int, question: Look | Where | Leave) -> None:
        with contextlib.suppress(OSError):
            self.channels[rank].send(question)

    def _ask_all(self) -> None:
        asked = [rank for rank in self.channels if rank not in self.ended]
        for rank in asked:
            self.recorded.pop(rank, None)
            self._ask(rank, Where(with_calls=True))
        end = time.monotonic() + _SECONDS_TO_ANSWER
        while any(rank not in self.recorded for rank in asked) and time.monotonic() < end:
            self._look()

    def _let_end(self) -> int:
        for rank in self.channels:
            self._ask(rank, Leave())
        return self.process.wait()

    def _end(self) -> int:
        """First who starts ranks, and would say at length that they are gone; then all others, known or not."""
        with contextlib.suppress(psutil.NoSuchProcess):
            begun = psutil.Process(self.process.pid).children(recursive=True)
            self.process.kill()
            for process in begun:
                with contextlib.suppress(psutil.NoSuchProcess):
                    process.kill()
        self.process.wait()
        return 1
