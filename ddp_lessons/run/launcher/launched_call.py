"""One call on the ranks of a world: the function goes out, lines and values come back, until it has ended."""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ddp_lessons.record.results import NO_VALUE
from ddp_lessons.run.debugging.dialogue import Dialogue
from ddp_lessons.run.diagnosis.failure_messages import where_each_is
from ddp_lessons.run.launcher.follow import Ending, Follow, frames_of_crash, has_aborted
from ddp_lessons.run.launcher.limits import Limits
from ddp_lessons.run.launcher.patience import (
    SECONDS_FOR_LAST_WORDS,
    SECONDS_TO_ANSWER,
    SECONDS_TO_ANSWER_A_SIGNAL,
    SECONDS_TO_COME_BACK,
)
from ddp_lessons.run.launcher.rank_states import Account, Died, Position
from ddp_lessons.run.launcher.world import Rank
from ddp_lessons.run.output.screen import Live, Screen
from ddp_lessons.run.wire.channel import gathering
from ddp_lessons.run.wire.clocks import on_our_clock
from ddp_lessons.run.wire.messages import AtPrompt, Buffer, Go, Loaded, Raised, Returned, Task
from ddp_lessons.run.wire.travel import unpack_value

_FITS_INTO_SOCKET = 64_000
_TICK_SECONDS = 0.05
_SECONDS_TO_START = 120.0


@dataclass(frozen=True)
class Order:
    """What the ranks shall do."""

    task: Task
    buffers: Sequence[Buffer]
    not_asked: frozenset[int] = frozenset()  # ranks that were not selected
    timeout_seconds: float | None = None


class LaunchedCall(Follow):
    """Owns one call of `Workers`: its ranks' messages, output and values."""

    def __init__(self, ranks: Sequence[Rank], order: Order, limits: Limits) -> None:
        channels = {number: rank.process.channel for number, rank in enumerate(ranks) if rank.died is None}
        super().__init__(channels, len(ranks), order.timeout_seconds, self.look)
        self.values: dict[int, Any] = dict.fromkeys(order.not_asked, NO_VALUE)
        self.transcripts = [rank.transcript for rank in ranks]
        self._ranks, self._order, self._limits = ranks, order, limits
        self._gone: set[int] = set()  # until their end is known
        self._is_over = False
        self._selector = selectors.DefaultSelector()
        for number in channels:
            self._selector.register(ranks[number].process.channel, selectors.EVENT_READ, number)
            self._selector.register(ranks[number].process.output, selectors.EVENT_READ, number)
        self._dialogue = Dialogue(len(ranks), self.say, self._is_running, self._where_each_is, self.ended)
        self.returned.update(order.not_asked)
        if order.task.meeting is not None:
            self._loading, self._seconds_to_start = set(channels), _SECONDS_TO_START
        else:  # the ranks have joined, and only load the function
            self._loading = set(channels) - order.not_asked
            self._seconds_to_start = min(_SECONDS_TO_START, order.timeout_seconds or _SECONDS_TO_START)
        self._send_tasks()

    def until_the_end(self, screen: Screen, live: Live, is_told_to_stop: Callable[[], bool]) -> Ending:
        ending = None
        while ending is None:
            self.look(_TICK_SECONDS)
            self._note_aborts()
            self._note_deaths()
            screen.show(self.transcripts, self._doing())
            live.show(self.told)
            ending = self._ending(is_told_to_stop)
        if ending is Ending.RETURNED:
            return ending
        self._ask_all(SECONDS_TO_ANSWER if ending is Ending.FAILED else SECONDS_TO_ANSWER_A_SIGNAL)
        self._note_deaths()
        if len(self.returned) == self.world_size:
            return Ending.RETURNED  # at the last moment
        return Ending.FAILED if len(self.returned) + len(self.ended) == self.world_size else ending

    def look(self, seconds: float) -> bool:
        """Read messages and output of the ranks. False: there were none."""
        ready = self._selector.select(seconds)
        for key, _ in ready:
            rank = self._ranks[key.data]
            if key.fileobj is rank.process.output:
                self._read(rank)
            elif key.data in self._channels:
                self._hear(key.data, rank)
        return bool(ready)

    def all_are_idle(self) -> bool:
        """After a failure: is every rank back from its function, or will be in a moment?"""
        end = time.monotonic() + SECONDS_TO_COME_BACK
        while self._may_come_back() and self.running() and time.monotonic() < end:
            self.look(_TICK_SECONDS)
        return self._may_come_back() and not self.running() and not self._loading

    def _may_come_back(self) -> bool:
        """No rank is gone, and none waits in a call."""
        held = (self.recorded.get(number) for number in self.running())
        is_anyone_held = any(
            one is not None and one.standing is not None and bool(one.standing.held_in) for one in held
        )
        return len(self._channels) == self.world_size and not self._gone and not is_anyone_held

    def drain(self, seconds: float = 0.5) -> None:
        """Read what the ranks printed before they were stopped."""
        self._is_over = True
        end = time.monotonic() + seconds
        while self.look(0) and time.monotonic() < end:
            pass
        self._selector.close()

    def account(self) -> Account:
        told = super().account()
        return replace(
            told,
            patience_seconds=told.patience_seconds if told.has_begun else self._seconds_to_start,
            not_asked=self._order.not_asked,
            limits=self._limits,
            nodes=tuple(rank.process.node for rank in self._ranks),
        )

    def _send_tasks(self) -> None:
        """Ranks that were not selected only join."""
        task, buffers = self._order.task, self._order.buffers
        is_large = sum(memoryview(buffer).nbytes for buffer in buffers) > _FITS_INTO_SOCKET
        with contextlib.nullcontext() if is_large else gathering(self._channels[number] for number in self._loading):
            for number in sorted(self._loading):
                mine = buffers if number not in self._order.not_asked else ()
                if is_large:  # a rank that does not read it must not block the notebook
                    threading.Thread(target=self._send, args=(number, task, mine), daemon=True).start()
                else:
                    self._send(number, task, mine)

    def _read(self, rank: Rank) -> None:
        if data := rank.process.output.read(65536):
            rank.transcript.feed(data)
        else:
            self._selector.unregister(rank.process.output)

    def _hear(self, number: int, rank: Rank) -> None:
        try:
            whole = rank.process.channel.receive_some()
        except EOFError:
            self._selector.unregister(rank.process.channel)
            if number in self.running() and not self._is_over:
                self._gone.add(number)
            del self._channels[number]  # it is not asked any more
            return
        if whole is None:
            return
        message, buffers = whole
        if not self._is_over:  # later ones come from ranks that are being stopped
            if (clock := rank.process.nursery.clock()) is not None:
                message = on_our_clock(message, clock)
            if isinstance(message, AtPrompt):
                self._dialogue.heard(number, message)
            if isinstance(message, Loaded):
                self._note_loaded(number)
            self.heard(number, self._taken(number, message, buffers) if isinstance(message, Returned) else message)

    def _note_loaded(self, number: int) -> None:
        """Nobody begins earlier: a rank that failed at once would keep the others from joining."""
        self._loading.discard(number)
        if not self._loading and self.hang_watch is None:
            self.begin()
            for rank in self.running():
                self.say(rank, Go())

    def _taken(self, number: int, message: Returned, buffers: list[bytearray]) -> Returned | Raised:
        """Keep the value; if it cannot be loaded here, the rank has failed."""
        try:
            self.values[number] = unpack_value(buffers)
        except Exception as error:
            words = f"returned a {message.kind}, which the notebook cannot load ({type(error).__name__}: {error})"
            path = f"rank {number} {words}\n"
            return Raised("CannotTravel", words, (), path, time.monotonic(), message.recorded)
        return message

    def _ending(self, is_told_to_stop: Callable[[], bool]) -> Ending | None:
        if self._dialogue.is_open:
            quits = self._dialogue.turn()
            self.time.pause()
            return Ending.INTERRUPTED if is_told_to_stop() else quits
        ending = self.ending()
        if ending is None and is_told_to_stop():
            return Ending.INTERRUPTED
        if ending is None and self.hang_watch is None:
            return Ending.OUT_OF_TIME if self.time.exceeds(self._seconds_to_start) else None
        return ending

    def _note_aborts(self) -> None:
        """A rank that aborts stays for a moment, in which it can still report its calls."""
        for number in sorted(set(self.running()) - self._gone):
            if has_aborted(self._ranks[number].crash_file):
                self.ask_for_calls([number], SECONDS_FOR_LAST_WORDS)
                self.positions.pop(number, None)
                self._gone.add(number)

    def _note_deaths(self) -> None:
        while self._gone:
            number = min(self._gone)
            rank, moment = self._ranks[number], time.monotonic()
            nursery = rank.process.nursery
            (exit_code,) = nursery.stop([rank.process])
            while self.look(0) and time.monotonic() < moment + SECONDS_TO_ANSWER:
                pass  # its last output
            if has_aborted(rank.crash_file):
                exit_code = -signal.SIGABRT
            is_node_lost = exit_code is None and not nursery.is_usable() and bool(rank.process.node)
            said = () if is_node_lost else rank.transcript.lines()[-3:]
            rank.died = self.ended[number] = Died(
                exit_code,
                frames_of_crash(rank.crash_file),
                said or nursery.last_words(),
                moment,
                lost_node=rank.process.node if is_node_lost else "",
            )
            self._gone.remove(number)

    def _ask_all(self, seconds_to_answer_a_signal: float) -> None:
        """Where is each rank, and what has it called? A process that has not been forked yet can't say."""
        if not all(self._ranks[rank].process.nursery.is_ready_within(0) for rank in self.running()):
            self.positions = {rank: Position(()) for rank in self.running()}
            return
        self.ask_where()
        self._signal_the_silent(seconds_to_answer_a_signal)
        silent = {rank for rank, position in self.positions.items() if position.is_silent}
        self.ask_for_calls([rank for rank in sorted(self._channels) if rank not in silent | self.ended.keys()], 1.0)

    def _signal_the_silent(self, seconds: float) -> None:
        """A rank in native code that holds the GIL reacts only to a signal, and then writes where it is."""
        silent = self.without_position()
        processes = {number: self._ranks[number].process for number in silent}
        files = {number: self._ranks[number].crash_file for number in silent}
        written = {number: _size(file) for number, file in files.items()}
        for number in silent:
            with contextlib.suppress(OSError):
                processes[number].nursery.signal(processes[number], signal.SIGUSR1)
        self.wait_for(lambda: all(_size(files[number]) > written[number] for number in silent), seconds)
        for number in silent:
            is_silent = self.hang_watch is not None and _size(files[number]) <= written[number]
            self.positions.setdefault(number, Position(frames_of_crash(files[number]), is_silent))

    def _is_running(self, number: int) -> bool:
        return number in self.running()

    def _where_each_is(self) -> list[str]:
        self.ask_where()
        self._signal_the_silent(SECONDS_TO_ANSWER_A_SIGNAL)
        return where_each_is(replace(self.account(), seconds=0.0))

    def _doing(self) -> str:
        if self._dialogue.is_open:
            return ""
        if self._loading:
            imports = self._ranks[min(self._loading)].process.nursery.busy_with()
            return f"the ranks are starting: importing {imports}" if imports else "the ranks are starting"
        return f"{self.world_size - len(self.returned)} of {self.world_size} ranks are running"


def _size(file: str) -> int:
    try:
        return os.path.getsize(file)
    except OSError:
        return 0
