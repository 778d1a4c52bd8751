"""Follow one call on all ranks until all have returned, one fails, the time is up, or the learner stops it."""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ddp_lessons.record.rank_record import Told
from ddp_lessons.record.results import NO_VALUE
from ddp_lessons.run.debugging.dialogue import Dialogue
from ddp_lessons.run.diagnosis.failure_messages import where_each_is
from ddp_lessons.run.launcher.call_progress import CallProgress, Ending
from ddp_lessons.run.launcher.crash_reports import frames_of_crash, has_aborted
from ddp_lessons.run.launcher.limits import Limits
from ddp_lessons.run.launcher.patience import (
    SECONDS_FOR_LAST_WORDS,
    SECONDS_TO_ANSWER,
    SECONDS_TO_ANSWER_A_SIGNAL,
    SECONDS_TO_STAND_STILL,
    OwnTime,
    slowness,
)
from ddp_lessons.run.launcher.rank_states import Account, Died
from ddp_lessons.run.output.screen import Live, Screen
from ddp_lessons.run.output.transcript import Transcript
from ddp_lessons.run.processes.process_sources import Process
from ddp_lessons.run.wire.channel import gathering
from ddp_lessons.run.wire.clocks import on_our_clock
from ddp_lessons.run.wire.messages import (
    Buffer,
    Free,
    Freed,
    FromDebugger,
    Joined,
    Look,
    Position,
    Raised,
    Rejoin,
    Returned,
    Task,
    ToDebugger,
    Where,
)
from ddp_lessons.run.wire.travel import unpack_value

_FITS_INTO_SOCKET = 64_000
_TICK_SECONDS = 0.05
_SECONDS_TO_START = 120.0
_SECONDS_BETWEEN_CALLS = 0.2  # to a rank that does not come
_MOST_TOLD = 100_000  # per rank; the newest are kept


@dataclass
class Rank:
    """A rank's process, as seen by the launcher."""

    process: Process
    crash_file: str
    transcript: Transcript
    has_joined: bool = False
    died: Died | None = None


@dataclass
class Watch:
    """The processes of one call, their messages, and their results."""

    ranks: Sequence[Rank]
    timeout_seconds: float | None
    task: tuple[Task, Sequence[Buffer]] | None = None
    not_asked: frozenset[int] = frozenset()  # ranks that were not selected
    limits: Limits = field(default_factory=Limits)
    values: dict[int, Any] = field(default_factory=dict)  # values of the ranks that returned
    told: dict[int, deque[Told]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.transcripts = [rank.transcript for rank in self.ranks]
        size = len(self.ranks)
        self.progress = CallProgress(size, self._ask, self.timeout_seconds, OwnTime(size))
        self._selector = selectors.DefaultSelector()
        self._open: set[int] = set()
        self._gone: list[int] = []
        self._mute: set[int] = set()  # they hold the GIL, or are stopped
        self._leaving = False
        self._freed: set[int] = set()
        self.dialogue = Dialogue(
            size, self._say_to, self._attend, self._is_running, self._is_held, self._where_each_is, self.progress.ended
        )
        self.progress.returned.update(self.not_asked)
        self.values.update(dict.fromkeys(self.not_asked, NO_VALUE))
        for number, rank in enumerate(self.ranks):
            if rank.died:
                self.progress.ended[number] = rank.died
                continue
            self._open.add(number)
            self._selector.register(rank.process.channel, selectors.EVENT_READ, number)
            self._selector.register(rank.process.output, selectors.EVENT_READ, number)

    def until_the_end(self, screen: Screen, live: Live, is_told_to_stop: Callable[[], bool]) -> Ending:
        ending = None
        while ending is None:
            self._begin_when_all_have_joined()
            self._look(_TICK_SECONDS)
            self._note_aborts()
            self._note_deaths()
            screen.show(self.transcripts, self._doing())
            live.show(self.told)
            ending = self._ending(is_told_to_stop) or self.dialogue.turn()
        if ending is Ending.RETURNED:
            return ending
        self._ask_where(SECONDS_TO_ANSWER if ending is Ending.FAILED else SECONDS_TO_ANSWER_A_SIGNAL)
        self._ask_what_they_called(SECONDS_FOR_LAST_WORDS if ending is Ending.OUT_OF_TIME else 0.0)
        self._note_deaths()
        returned, ended = self.progress.returned, self.progress.ended
        if len(returned) == len(self.ranks):
            return Ending.RETURNED  # at the last moment
        return Ending.FAILED if len(returned) + len(ended) == len(self.ranks) else ending

    def free(self, rejoin: Rejoin, patience_seconds: float) -> list[int]:
        """After a failure: interrupt all ranks and let them join a new group. Returns those that did."""
        self._leaving = True  # ignore further messages about that call
        for rank in self.ranks:
            rank.has_joined = False
        self._say(sorted(self._open), rejoin)
        end = time.monotonic() + patience_seconds * slowness(len(self.ranks))
        while self._open - self._freed and time.monotonic() < end:
            self._say(sorted(self._open - self._freed), Free())
            self._wait_for(lambda: self._open <= self._freed, _SECONDS_BETWEEN_CALLS)
        return sorted(self._open & self._freed)

    def until_all_left(self, patience_seconds: float) -> None:
        """Between calls: wait until each process has closed its channel."""
        self._leaving = True
        end = time.monotonic() + patience_seconds
        while self._open and time.monotonic() < end:
            self._look(_TICK_SECONDS)

    def drain(self, patience_seconds: float = 0.5) -> None:
        """Read what the ranks printed before they were stopped."""
        self._leaving = True
        end = time.monotonic() + patience_seconds
        while self._look(0) and time.monotonic() < end:
            pass

    def account(self) -> Account:
        processes = [rank.process for rank in self.ranks]
        told = self.progress.account()
        if self.task is not None:
            told = replace(told, patience_seconds=_SECONDS_TO_START, has_begun=False)
        return replace(
            told,
            not_asked=self.not_asked,
            limits=self.limits,
            nodes=tuple(process.node for process in processes),
            python_on={process.node: process.python for process in processes},
        )

    def close(self) -> None:
        self._selector.close()

    def _begin_when_all_have_joined(self) -> None:
        """Not earlier: a rank that fails at once would keep the others from joining, and they would report that."""
        if self.task is not None and all(rank.has_joined for rank in self.ranks):
            task, buffers = self.task
            is_large = sum(memoryview(buffer).nbytes for buffer in buffers) > _FITS_INTO_SOCKET
            asked = [rank for number, rank in enumerate(self.ranks) if number not in self.not_asked]
            if is_large:  # a rank that does not read it must not block the notebook
                for rank in asked:
                    threading.Thread(target=_send, args=(rank, task, buffers), daemon=True).start()
            else:
                with gathering(rank.process.channel for rank in asked):
                    for rank in asked:
                        _send(rank, task, buffers)
            self.task = None
            self.progress.time = OwnTime(len(self.ranks))
            self.progress.begin()

    def _ending(self, is_told_to_stop: Callable[[], bool]) -> Ending | None:
        if self.dialogue.is_open:
            self.progress.time.pause()
            self._attend(0)
            return Ending.INTERRUPTED if is_told_to_stop() else None
        ending = self.progress.ending()
        if ending is None and is_told_to_stop():
            return Ending.INTERRUPTED
        if self.task is not None and ending is None:
            return Ending.OUT_OF_TIME if self.progress.time.exceeds(_SECONDS_TO_START) else None
        return ending

    def _look(self, seconds: float) -> bool:
        """Read messages of the ranks. False: there were none."""
        ready = self._selector.select(seconds)
        for key, _ in ready:
            rank = self.ranks[key.data]
            if key.fileobj is rank.process.output:
                self._read(rank)
            elif key.data in self._open:
                self._hear(key.data, rank)
        return bool(ready)

    def _read(self, rank: Rank) -> None:
        if data := rank.process.output.read(65536):
            rank.transcript.feed(data)
        else:
            self._selector.unregister(rank.process.output)

    def _hear(self, number: int, rank: Rank) -> None:
        try:
            whole = rank.process.channel.receive_some()
        except EOFError:
            self._open.discard(number)
            self._selector.unregister(rank.process.channel)
            if not self._leaving and number not in self._done():
                self._gone.append(number)
            return
        if whole is not None and isinstance(whole[0], Freed):
            self._freed.add(number)
        if whole is not None and isinstance(whole[0], Joined):  # even while another rank is still interrupted
            rank.has_joined = True
        if whole is None or self._leaving:  # later messages come from ranks that are being stopped
            return
        message, buffers = whole
        if (clock := rank.process.nursery.clock()) is not None:
            message = on_our_clock(message, clock)
        if isinstance(message, FromDebugger):
            self.dialogue.heard(number, message)
            if self.progress.lookout is not None:
                self.progress.lookout.moved(number)
        if isinstance(message, Told):
            self.told.setdefault(number, deque(maxlen=_MOST_TOLD)).append(message)
        self.progress.heard(number, self._taken(number, message, buffers) if isinstance(message, Returned) else message)

    def _taken(self, number: int, message: Returned, buffers: list[bytearray]) -> Returned | Raised:
        """Keep the value; if it cannot be loaded here, the rank has failed."""
        try:
            self.values[number] = unpack_value(buffers)
        except Exception as error:
            words = f"returned a {message.kind}, which the notebook cannot load ({type(error).__name__}: {error})"
            path = f"rank {number} {words}\n"
            return Raised("CannotTravel", words, (), path, time.monotonic(), message.recorded)
        return message

    def _note_aborts(self) -> None:
        """A rank that aborts stays for a moment, in which it can still report its calls."""
        for number in self._still_at_it():
            if number not in self._gone and has_aborted(self.ranks[number].crash_file):
                self._ask(number, Where(with_calls=True))
                self._wait_until_told([number], SECONDS_FOR_LAST_WORDS)
                self.progress.positions.pop(number, None)
                if number not in self._gone:
                    self._gone.append(number)

    def _note_deaths(self) -> None:
        while self._gone:
            self._note_death(self._gone.pop())

    def _note_death(self, number: int) -> None:
        rank, moment = self.ranks[number], time.monotonic()
        (exit_code,) = rank.process.nursery.stop([rank.process])
        while self._look(0) and time.monotonic() < moment + SECONDS_TO_ANSWER:
            pass  # its last output
        if has_aborted(rank.crash_file):
            exit_code = -signal.SIGABRT
        frames = frames_of_crash(rank.crash_file)
        last_words = rank.transcript.lines()[-3:] or rank.process.nursery.last_words()
        lost = rank.process.node if exit_code is None and not rank.process.nursery.is_usable() else ""
        last_words = rank.process.nursery.last_words() if lost else last_words
        rank.died = self.progress.ended[number] = Died(exit_code, frames, last_words, moment, lost_node=lost)

    def _ask_where(self, seconds_to_answer_a_signal: float = SECONDS_TO_ANSWER_A_SIGNAL) -> None:
        """Ask running ranks for their line until none moves; send a signal to those that do not answer."""
        end = time.monotonic() + SECONDS_TO_STAND_STILL
        unborn = [n for n in self._still_at_it() if not self.ranks[n].process.nursery.has_begun_them()]
        self._mute.update(unborn)
        while self._still_at_it():
            before, self.progress.positions = self.progress.positions, {number: Position(()) for number in unborn}
            for number in self._not_known():
                self._ask(number, Where())
            self._wait_for(lambda: not self._not_known())
            silent = self._not_known()
            if silent:
                self._shake(silent, seconds_to_answer_a_signal)
            if silent or before == self.progress.positions or time.monotonic() > end:
                return
            self._look(0.03)

    def _not_known(self) -> list[int]:
        return [number for number in self._still_at_it() if number not in self.progress.positions]

    def _ask_what_they_called(self, seconds_for_the_mute: float) -> None:
        """A rank without an answer may only be slow on a busy machine, and there is time now."""
        asked = [number for number in sorted(self._open) if number not in self.progress.ended]
        for number in asked:
            self._ask(number, Where(with_calls=True))
        self._wait_until_told([number for number in asked if number not in self._mute], 1.0)
        self._wait_until_told(asked, seconds_for_the_mute)
        for number, recorded in self.progress.newest_calls().items():
            if not self._has_told(number):
                self.progress.recorded[number] = recorded

    def _wait_until_told(self, asked: Sequence[int], patience_seconds: float) -> None:
        self._wait_for(lambda: all(self._has_told(n) or n not in self._open for n in asked), patience_seconds)

    def _has_told(self, number: int) -> bool:
        recorded = self.progress.recorded.get(number)
        return recorded is not None and recorded.standing is not None

    def _ask(self, number: int, question: Look | Where) -> None:
        self._say([number], question)

    def _say(self, numbers: Sequence[int], words: Look | Where | Free | Rejoin) -> None:
        for number in numbers:
            with contextlib.suppress(OSError):
                self.ranks[number].process.channel.send(words, patience_seconds=0.01)

    def _say_to(self, number: int, words: ToDebugger) -> None:
        with contextlib.suppress(OSError):
            self.ranks[number].process.channel.send(words)

    def _attend(self, seconds: float) -> None:
        """Read messages, and keep checking whether ranks wait for each other."""
        self._look(seconds)
        if self.progress.lookout is not None:
            self.progress.lookout.sees_a_standstill()

    def _is_running(self, number: int) -> bool:
        return number in self._open and number not in self._done()

    def _is_held(self, number: int) -> bool:
        return self.progress.lookout is not None and self.progress.lookout.is_held(number)

    def _where_each_is(self) -> list[str]:
        self._ask_where()
        return where_each_is(replace(self.account(), seconds=0.0))

    def _wait_for(self, claim: Callable[[], bool], patience_seconds: float = SECONDS_TO_ANSWER) -> None:
        end = time.monotonic() + patience_seconds * slowness(len(self.ranks))
        while not claim() and time.monotonic() < end:
            self._look(0.01)

    def _still_at_it(self) -> list[int]:
        return sorted(self._open - self._done())

    def _done(self) -> set[int]:
        return self.progress.returned | self.progress.ended.keys()

    def _shake(self, silent: Sequence[int], patience_seconds: float) -> None:
        """A rank in native code that holds the GIL reacts only to a signal, and then writes where it is."""
        if not silent:
            return
        self._mute.update(silent)
        written = {number: _size(self.ranks[number].crash_file) for number in silent}
        for number in silent:
            with contextlib.suppress(OSError):
                self.ranks[number].process.nursery.signal(self.ranks[number].process, signal.SIGUSR1)
        self._wait_for(
            lambda: all(_size(self.ranks[number].crash_file) > size for number, size in written.items()),
            patience_seconds,
        )
        for number in silent:
            file = self.ranks[number].crash_file
            still_silent = self.ranks[number].has_joined and _size(file) <= written[number]
            self.progress.positions.setdefault(number, Position(frames_of_crash(file), is_silent=still_silent))

    def _doing(self) -> str:
        if self.dialogue.is_open:
            return ""
        if self.task is not None:
            awaited = next((rank for rank in self.ranks if not rank.has_joined), None)
            imports = awaited.process.nursery.busy_with() if awaited is not None else ""
            return f"the ranks are starting: importing {imports}" if imports else "the ranks are starting"
        return f"{len(self.ranks) - len(self.progress.returned)} of {len(self.ranks)} ranks are running"


def _size(file: str) -> int:
    try:
        return os.path.getsize(file)
    except OSError:
        return 0


def _send(rank: Rank, task: Task, buffers: Sequence[Buffer]) -> None:
    with contextlib.suppress(OSError):  # it died; its channel will show that
        rank.process.channel.send(task, buffers)
