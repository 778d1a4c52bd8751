"""The ranks of a plain script in one world: which ones joined, what they called, how each ended."""

from __future__ import annotations

import contextlib
import signal
import time
from dataclasses import dataclass, field, replace

from ddp_lessons.record.events import Events
from ddp_lessons.record.results import NO_VALUE, Results
from ddp_lessons.run.diagnosis.call_fit import first_fault
from ddp_lessons.run.diagnosis.failure_messages import not_to_be_trusted, where_each_is, worker_failed, workers_stuck
from ddp_lessons.run.launcher.call_progress import CallProgress, Ending
from ddp_lessons.run.launcher.crash_reports import frames_of_crash, has_aborted
from ddp_lessons.run.launcher.patience import SECONDS_FOR_OTHER_FAILURES_OF_A_SCRIPT, OwnTime
from ddp_lessons.run.launcher.rank_states import Account, Died
from ddp_lessons.run.scripts.words_of_explain import told
from ddp_lessons.run.wire.channel import Channel
from ddp_lessons.run.wire.messages import Leave, Look, Present, Raised, Returned, Where


@dataclass
class World:
    """Ranks that join at one address. A script may start several worlds, one after the other or at once."""

    meets_at: str
    world_size: int
    timeout_seconds: float | None
    time: OwnTime
    channels: dict[int, Channel] = field(default_factory=dict)
    ranks: dict[int, Present] = field(default_factory=dict)
    gone: dict[int, Died] = field(default_factory=dict)  # processes that exited without a last message

    def __post_init__(self) -> None:
        self.progress = CallProgress(
            self.world_size, self._ask, self.timeout_seconds, self.time, SECONDS_FOR_OTHER_FAILURES_OF_A_SCRIPT
        )

    def welcome(self, channel: Channel, present: Present) -> None:
        self.channels[present.rank], self.ranks[present.rank] = channel, present
        self.world_size = self.progress.world_size = max(self.world_size, present.world_size)
        if self.is_complete:
            self.progress.begin()

    def note(self, rank: int, message: object) -> None:
        self.progress.heard(rank, message)
        if isinstance(message, Returned) and self.ranks[rank].parent in (one.process for one in self.ranks.values()):
            self._ask(rank, Leave())  # the rank that started it may wait for its end

    def note_end(self, rank: int) -> None:
        if rank not in self.progress.returned and rank not in self.progress.ended:
            self.gone[rank] = Died(None, (), (), time.monotonic(), is_seen=False)

    def aborting(self) -> list[int]:
        """Ranks whose process has written why it aborts, and stays for a moment."""
        still = [rank for rank in self.ranks if rank not in self.gone and rank not in self.progress.ended]
        return [rank for rank in still if has_aborted(self.ranks[rank].crash_file)]

    def note_abort(self, rank: int) -> None:
        frames = frames_of_crash(self.ranks[rank].crash_file)
        self.progress.positions.pop(rank, None)
        self.progress.ended[rank] = Died(-signal.SIGABRT, frames, (), time.monotonic())

    @property
    def is_complete(self) -> bool:
        """All of its ranks have joined."""
        return len(self.channels) == self.world_size

    @property
    def has_lost_ranks(self) -> bool:
        """A rank raised, or exited without a last message."""
        return bool(self.progress.ended or self.gone)

    @property
    def is_over(self) -> bool:
        """All of its ranks have ended."""
        return len(self.progress.returned) + len(self.gone) >= self.world_size

    def ask_all(self) -> list[int]:
        """Ask where each rank is, and return the ranks that can answer."""
        asked = [rank for rank in self.channels if rank not in self.progress.ended and rank not in self.gone]
        for rank in asked:
            self.progress.recorded.pop(rank, None)
            self._ask(rank, Where(with_calls=True))
        return asked

    def has_told(self, rank: int) -> bool:
        return rank in self.progress.recorded

    def tell(self, ending: Ending) -> str:
        """The message about a hang or failure."""
        if ending is Ending.FAILED:
            return self.tell_failure()
        return told(workers_stuck(self._account(), self._results(), ending is Ending.STUCK))

    def tell_failure(self) -> str:
        return told(worker_failed(self._account(), self._results()))

    def tell_what_did_not_fit(self) -> str:
        """ "" if the calls of all ranks match."""
        results = self._results()
        reason = first_fault(results.events)
        return "" if reason is None else told(not_to_be_trusted(self._account(), results, reason))

    def tell_where_each_is(self) -> list[str]:
        return where_each_is(self._account(), self._results().events)

    def let_go(self) -> None:
        for rank in self.channels:
            self._ask(rank, Leave())

    def _account(self) -> Account:
        first = min(self.gone, key=lambda rank: self.gone[rank].moment, default=None)
        # the process that starts ranks ends the others when one is gone
        ended: dict[int, Raised | Died] = {} if first is None else {first: self.gone[first]}
        return replace(self.progress.account(), ended=ended | self.progress.ended)

    def _results(self) -> Results[object]:
        ranks = range(self.world_size)
        events = Events([self.progress.recorded.get(rank) for rank in ranks])
        return Results((NO_VALUE,) * len(ranks), tuple([] for _ in ranks), self.time.on_the_wall, events)

    def _ask(self, rank: int, question: Look | Where | Leave) -> None:
        with contextlib.suppress(OSError):
            self.channels[rank].send(question)
