"""Follow one call on all ranks of a world: what each has reported, where it is, and how the call ends."""

from __future__ import annotations

import contextlib
import enum
import linecache
import re
import time
from collections import deque
from collections.abc import Callable, Sequence

from ddp_lessons.record.rank_record import Recorded, Told
from ddp_lessons.run.launcher.hang_watch import HangWatch
from ddp_lessons.run.launcher.patience import (
    SECONDS_FOR_OTHER_FAILURES,
    SECONDS_TO_ANSWER,
    SECONDS_TO_STAND_STILL,
    OwnTime,
    slowness,
)
from ddp_lessons.run.launcher.rank_states import Account, Died, Position
from ddp_lessons.run.wire.channel import Channel
from ddp_lessons.run.wire.messages import Answer, Ask, Buffer, Frame, Raised, Returned, ToRank

_ALL_CALLS = 1_000_000
_MOST_TOLD = 100_000  # per rank; the newest are kept
_CRASH_LINE = re.compile(r'^  File "(.*)", line (\d+) in (.*)$', re.M)


class Ending(enum.Enum):
    RETURNED = "every rank returned"
    FAILED = "a rank raised or died"
    STUCK = "no rank could make progress"
    OUT_OF_TIME = "the time limit was reached"
    INTERRUPTED = "you stopped the ranks"
    QUIT = "you quit the debugger"


class Follow:
    """Owns one call. `look` reads messages for so long, and passes each to `heard`."""

    def __init__(
        self,
        channels: dict[int, Channel],
        world_size: int,
        timeout_seconds: float | None,
        look: Callable[[float], object],
        clock: OwnTime | None = None,
        seconds_for_other_failures: float = SECONDS_FOR_OTHER_FAILURES,
    ) -> None:
        self.world_size = world_size
        self.timeout_seconds = timeout_seconds
        self.time = clock or OwnTime(world_size)  # the time that the ranks had; by default, since they began
        self.returned: set[int] = set()
        self.ended: dict[int, Raised | Died] = {}
        self.positions: dict[int, Position] = {}
        self.recorded: dict[int, Recorded] = {}
        self.told: dict[int, deque[Told]] = {}
        self.hang_watch: HangWatch | None = None
        self._channels, self._look = channels, look
        self._has_own_clock = clock is None
        self._seconds_for_other_failures = seconds_for_other_failures

    def begin(self) -> None:
        """All ranks have joined: from now on they may hang, and their time counts."""
        self.hang_watch = HangWatch(self.world_size, self.ask)
        if self._has_own_clock:
            self.time = OwnTime(self.world_size)

    def heard(self, rank: int, message: object) -> None:
        """Note a message of a rank."""
        if isinstance(message, Answer):
            if self.hang_watch is not None:
                self.hang_watch.heard(rank, message)
            if message.frames is not None and rank not in self.returned:
                self.positions[rank] = Position(message.frames)
        if isinstance(message, Answer | Returned | Raised) and message.recorded is not None:
            self.recorded[rank] = message.recorded
        if isinstance(message, Returned):
            self.returned.add(rank)
        elif isinstance(message, Raised):
            self.ended[rank] = message
        elif isinstance(message, Told):
            self.told.setdefault(rank, deque(maxlen=_MOST_TOLD)).append(message)

    def ending(self) -> Ending | None:
        """None while all may still return. Call it often: it also watches the ranks."""
        if len(self.returned) == self.world_size:
            return Ending.RETURNED
        first = min((how.moment for how in self.ended.values()), default=None)
        if first is not None and time.monotonic() > first + self._seconds_for_other_failures:
            return Ending.FAILED
        if self.hang_watch is None:
            return None
        if not self.ended and self.hang_watch.sees_a_standstill():
            return Ending.STUCK
        return Ending.OUT_OF_TIME if self.time.exceeds(self.timeout_seconds) else None

    def running(self) -> list[int]:
        """The ranks whose function has not ended."""
        return sorted(self._channels.keys() - self.returned - self.ended.keys())

    def say(self, rank: int, words: ToRank) -> None:
        """To a rank that may be gone."""
        self._send(rank, words)

    def ask(self, rank: int, question: Ask) -> None:
        """A question may be lost: while something else is being sent, the rank would not answer soon."""
        self._send(rank, question, patience_seconds=0.01)

    def _send(self, rank: int, words: ToRank, buffers: Sequence[Buffer] = (), patience_seconds: float = -1) -> None:
        if rank in self._channels:
            with contextlib.suppress(OSError):  # its channel will show that it is gone
                self._channels[rank].send(words, buffers, patience_seconds)

    def ask_for_calls(self, ranks: Sequence[int], seconds: float) -> None:
        """Their calls so far, and where they are. Of a rank that does not answer, the calls of a moment ago."""
        for rank in ranks:
            self.ask(rank, Ask(calls=_ALL_CALLS, stack=True))
        self.wait_for(lambda: all(map(self._has_told, ranks)), seconds)
        for rank, recorded in (self.hang_watch.calls if self.hang_watch is not None else {}).items():
            if not self._has_told(rank):
                self.recorded[rank] = recorded

    def _has_told(self, rank: int) -> bool:
        recorded = self.recorded.get(rank)
        return rank not in self._channels or (recorded is not None and recorded.standing is not None)

    def ask_where(self) -> None:
        """Ask running ranks for their line until none moves. Those that do not answer stay without a position."""
        end = time.monotonic() + SECONDS_TO_STAND_STILL
        while self.running():
            before, self.positions = self.positions, {}
            for rank in self.running():
                self.ask(rank, Ask(stack=True))
            self.wait_for(lambda: not self.without_position())
            if self.without_position() or before == self.positions or time.monotonic() > end:
                return
            self._look(0.03)

    def without_position(self) -> list[int]:
        return [rank for rank in self.running() if rank not in self.positions]

    def wait_for(self, claim: Callable[[], bool], seconds: float = SECONDS_TO_ANSWER) -> None:
        end = time.monotonic() + seconds * slowness(self.world_size)
        while not claim() and time.monotonic() < end:
            self._look(0.01)

    def account(self) -> Account:
        watch, ranks = self.hang_watch, range(self.world_size)
        at_line = {rank: watch.seconds_at_one_line(rank) for rank in ranks} if watch is not None else {}
        return Account(
            self.world_size,
            dict(self.ended),
            dict(self.positions),
            frozenset(self.returned),
            self.timeout_seconds,
            self.time.on_the_wall,
            at_line,
            has_begun=watch is not None,
        )


def has_aborted(file: str) -> bool:
    """Did this process abort? A process killed in another way writes nothing, or something else."""
    try:
        with open(file, "rb") as written:
            return written.read(40).startswith(b"Fatal Python error: Aborted")
    except OSError:
        return False


def frames_of_crash(file: str) -> tuple[Frame, ...]:
    """The stack that faulthandler wrote, outermost frame first."""
    try:
        with open(file, encoding="ascii", errors="backslashreplace") as written:
            text = written.read()
    except OSError:
        return ()
    headed = re.split(r"^(.*) \(most recent call first\):\n", text, flags=re.M)[1:]
    stacks = list(zip(headed[::2], headed[1::2], strict=True))
    # the thread that crashed; if it was one of gloo's, the main thread, which comes last
    stack = next(
        (stack for head, stack in stacks if head.startswith("Current thread")), stacks[-1][1] if stacks else ""
    )
    frames = [_frame(_unescaped(file), int(line), function) for file, line, function in _CRASH_LINE.findall(stack)]
    if frames and frames[-1].file == "<string>":  # the command that started this process
        frames.pop()
    return tuple(reversed(frames))


def _frame(file: str, line: int, function: str) -> Frame:
    return Frame(file, line, function, linecache.getline(file, line).strip())


def _unescaped(name: str) -> str:
    return name.encode("ascii", "backslashreplace").decode("unicode_escape") if "\\" in name else name
