"""The ranks of a plain script in one world: which ones joined, what they called, how each ended."""

from __future__ import annotations

import re
import signal
import time
from collections.abc import Callable
from dataclasses import replace

from ddp_lessons.record.events import Events
from ddp_lessons.record.results import NO_VALUE, Results
from ddp_lessons.run.diagnosis import torchs_words
from ddp_lessons.run.diagnosis.call_fit import first_fault
from ddp_lessons.run.diagnosis.failure_messages import (
    LOST_CONNECTION,
    not_to_be_trusted,
    where_each_is,
    worker_failed,
    workers_stuck,
)
from ddp_lessons.run.diagnosis.failures import WorkerFailed, WorkersStuck
from ddp_lessons.run.launcher.follow import Ending, Follow, frames_of_crash, has_aborted
from ddp_lessons.run.launcher.patience import SECONDS_FOR_OTHER_FAILURES_OF_A_SCRIPT, OwnTime
from ddp_lessons.run.launcher.rank_states import Account, Died
from ddp_lessons.run.wire.channel import Channel
from ddp_lessons.run.wire.messages import Go, Present, Raised, Returned

_SECONDS_TO_ANSWER = 1.0
_INSTEAD = (
    (r"`error\.traceback\(\d+\)` shows the full stack", "the full stack is above"),
    (r"launch\(\.\.\., timeout_seconds=(.+?)\)", r"--timeout \1"),
    (
        r"let the function return instead; launch ends the rank's process",
        "find out what ended it: os._exit() or a signal",
    ),
    (r"remove init_process_group, since .* join=False\)", "call init_process_group only once"),
    (r"pass the data as an argument to launch, or use", "use"),
    (r"as an argument to launch", "as an argument to the script"),
    (r"in the function that you launch", "in the script"),
    (r"^\[Errno \d+\] ", ""),
    (r"\bthis notebook\b", "this machine"),
    (r"\b(then )?launch again\b", r"\1run it again"),
    (r"\blaunch fewer ranks\b", "start fewer ranks"),
)


class ScriptWorld(Follow):
    """Ranks that join at one address. A script may start several worlds, one after the other or at once."""

    def __init__(
        self,
        meets_at: str,
        world_size: int,
        timeout_seconds: float | None,
        look: Callable[[float], object],
        clock: OwnTime,
    ) -> None:
        self.channels: dict[int, Channel] = {}
        super().__init__(
            self.channels, world_size, timeout_seconds, look, clock, SECONDS_FOR_OTHER_FAILURES_OF_A_SCRIPT
        )
        self.meets_at = meets_at
        self.gone: dict[int, Died] = {}  # processes that exited without a last message
        self._ranks: dict[int, Present] = {}

    def welcome(self, channel: Channel, present: Present) -> None:
        self.channels[present.rank], self._ranks[present.rank] = channel, present
        self.world_size = max(self.world_size, present.world_size)
        if len(self.channels) == self.world_size:
            self.begin()

    def heard(self, rank: int, message: object) -> None:
        super().heard(rank, message)
        if isinstance(message, Returned) and self._ranks[rank].parent in (one.process for one in self._ranks.values()):
            self.say(rank, Go())  # the rank that started it may wait for its end

    def note_end(self, rank: int) -> None:
        if rank in self.running():
            self.gone[rank] = Died(None, (), (), time.monotonic(), is_seen=False)

    def note_aborts(self) -> None:
        """A rank that aborts stays for a moment, in which it can still report its calls."""
        for rank in self.running():
            if rank not in self.gone and has_aborted(self._ranks[rank].crash_file):
                self.ask_all()
                self.positions.pop(rank, None)
                frames = frames_of_crash(self._ranks[rank].crash_file)
                self.ended[rank] = Died(-signal.SIGABRT, frames, (), time.monotonic())

    @property
    def has_lost_ranks(self) -> bool:
        """A rank raised, or exited without a last message."""
        return bool(self.ended or self.gone)

    @property
    def is_over(self) -> bool:
        """All of its ranks have ended."""
        return len(self.returned) + len(self.gone) >= self.world_size

    def ask_all(self) -> None:
        """Ask each rank that can answer where it is, and for its calls."""
        asked = [rank for rank in self.channels if rank not in self.ended and rank not in self.gone]
        for rank in asked:
            self.recorded.pop(rank, None)
        self.ask_for_calls(asked, _SECONDS_TO_ANSWER)

    def tell(self, ending: Ending) -> str:
        """The message about a hang or failure."""
        if ending is Ending.FAILED:
            return self.tell_failure()
        return told(workers_stuck(self.account(), self._results(), ending is Ending.STUCK))

    def tell_failure(self) -> str:
        return told(worker_failed(self.account(), self._results()))

    def tell_what_did_not_fit(self) -> str:
        """ "" if the calls of all ranks match."""
        results = self._results()
        reason = first_fault(results.events)
        return "" if reason is None else told(not_to_be_trusted(self.account(), results, reason))

    def tell_where_each_is(self) -> list[str]:
        return where_each_is(self.account(), self._results().events)

    def let_go(self) -> None:
        for rank in self.channels:
            self.say(rank, Go())

    def account(self) -> Account:
        first = min(self.gone, key=lambda rank: self.gone[rank].moment, default=None)
        # the process that starts ranks ends the others when one is gone
        ended: dict[int, Raised | Died] = {} if first is None else {first: self.gone[first]}
        return replace(super().account(), ended=ended | self.ended, has_begun=True)

    def _results(self) -> Results[object]:
        ranks = range(self.world_size)
        events = Events([self.recorded.get(rank) for rank in ranks])
        return Results((NO_VALUE,) * len(ranks), tuple([] for _ in ranks), self.time.on_the_wall, events)


def in_a_terminal(message: str) -> str:
    message = torchs_words.under_explain(message)
    for pattern, words in _INSTEAD:
        message = re.sub(pattern, words, message)
    return message


def told(failure: WorkerFailed | WorkersStuck) -> str:
    """Also the full stack of an exception, which a script's own start would show."""
    text = in_a_terminal(str(failure))
    stack = f"{failure.traceback(failure.rank)}\n" if failure.is_exception and LOST_CONNECTION not in text else ""
    return f"{stack}{type(failure).__name__}: {text}"
