"""What is known of ranks of a plain script that meet in one world: who came, what they called, how each ended."""

from __future__ import annotations

import contextlib
import time
from dataclasses import dataclass, field

from ddp_lessons.record.events import Events
from ddp_lessons.record.rank_record import Recorded, Standing
from ddp_lessons.record.results import NO_VALUE, Results
from ddp_lessons.run.diagnosis.call_fit import first_fault
from ddp_lessons.run.diagnosis.failure_messages import (
    LOST_CONNECTION,
    not_to_be_trusted,
    where_each_is,
    worker_failed,
    workers_stuck,
)
from ddp_lessons.run.launcher.hang_watch import Lookout
from ddp_lessons.run.launcher.rank_states import Account, Died
from ddp_lessons.run.wire.channel import Channel
from ddp_lessons.run.wire.messages import Leave, Look, Position, Present, Raised, Returned, Where

_SECONDS_FOR_OTHER_FAILURES = 0.3


@dataclass
class World:
    """Ranks that meet at one place. A script may start several worlds, one after the other or at once."""

    meets_at: str
    timeout_seconds: float | None
    begin: float
    world_size: int = 0
    channels: dict[int, Channel] = field(default_factory=dict)
    ranks: dict[int, Present] = field(default_factory=dict)
    returned: set[int] = field(default_factory=set)
    ended: dict[int, Raised] = field(default_factory=dict)
    gone: dict[int, Died] = field(default_factory=dict)  # processes that ended without a last word
    recorded: dict[int, Recorded] = field(default_factory=dict)
    positions: dict[int, Position] = field(default_factory=dict)
    lookout: Lookout | None = None

    def welcome(self, channel: Channel, present: Present) -> None:
        self.channels[present.rank], self.ranks[present.rank] = channel, present
        self.world_size = max(self.world_size, present.world_size)
        if len(self.channels) == self.world_size:
            self.lookout = Lookout(self.world_size, self._ask)

    def note(self, rank: int, message: object) -> None:
        if isinstance(message, Standing | Recorded) and self.lookout is not None:
            self.lookout.heard(rank, message)
        if isinstance(message, Returned | Raised | Position) and message.recorded is not None:
            self.recorded[rank] = message.recorded
        if isinstance(message, Returned):
            self.returned.add(rank)
            if self.ranks[rank].parent in (other.process for other in self.ranks.values()):
                self._ask(rank, Leave())  # a rank that started it may wait for its end
        elif isinstance(message, Raised):
            self.ended[rank] = message
        elif isinstance(message, Position) and rank not in self.returned:
            self.positions[rank] = message

    def note_end(self, rank: int) -> None:
        if rank not in self.returned and rank not in self.ended:
            self.gone[rank] = Died(None, (), (), time.monotonic(), is_seen=False)

    @property
    def is_over(self) -> bool:
        """No rank of it has anything left to do."""
        return bool(self.world_size) and len(self.returned) + len(self.gone) >= self.world_size

    @property
    def has_failed(self) -> bool:
        """A rank raised, and others had the time to say what they saw of it."""
        moments = [one.moment for one in self.ended.values()]
        return bool(moments) and time.monotonic() > min(moments) + _SECONDS_FOR_OTHER_FAILURES

    @property
    def is_stuck(self) -> bool:
        return self.lookout is not None and not self.ended and self.lookout.sees_a_standstill()

    def ask_all(self) -> list[int]:
        """Ask where each rank is, and return who can answer."""
        asked = [rank for rank in self.channels if rank not in self.ended and rank not in self.gone]
        for rank in asked:
            self.recorded.pop(rank, None)
            self._ask(rank, Where(with_calls=True))
        return asked

    def tell_failure(self) -> str:
        failed = worker_failed(self._account(), self._results())
        hint = f"traceback({failed.rank}) of this exception shows the whole way there."
        text = str(failed).replace(hint, "the whole way there is above.")
        is_shown = failed.rank in self.ended and LOST_CONNECTION not in text
        return f"{failed.traceback(failed.rank)}\n" * is_shown + f"WorkerFailed: {text}"

    def tell_where_it_is_stuck(self, is_for_ever: bool) -> str:
        stuck = str(workers_stuck(self._account(), self._results(), is_for_ever))
        return f"WorkersStuck: {stuck.replace('launch(..., timeout_seconds=...)', '--timeout SECONDS')}"

    def tell_what_did_not_fit(self) -> str:
        """ "" where the calls of all ranks fit together."""
        results = self._results()
        reason = first_fault(results.events)
        return f"WorkerFailed: {not_to_be_trusted(self._account(), results, reason)}" if reason else ""

    def tell_where_each_is(self) -> list[str]:
        return where_each_is(self._account(), self._results().events)

    def let_go(self) -> None:
        for rank in self.channels:
            self._ask(rank, Leave())

    def _account(self) -> Account:
        seconds = time.monotonic() - self.begin
        at_line = {rank: self.lookout.seconds_at_one_line(rank) for rank in self.channels} if self.lookout else {}
        first = min(self.gone, key=lambda rank: self.gone[rank].moment, default=None)
        # who starts ranks ends the others when one is gone
        ended: dict[int, Raised | Died] = {} if first is None else {first: self.gone[first]}
        ended |= self.ended
        returned = frozenset(self.returned)
        return Account(self.world_size, ended, self.positions, returned, self.timeout_seconds, seconds, at_line)

    def _results(self) -> Results[object]:
        ranks = range(self.world_size)
        events = Events([self.recorded.get(rank) for rank in ranks])
        return Results((NO_VALUE,) * len(ranks), tuple([] for _ in ranks), time.monotonic() - self.begin, events)

    def _ask(self, rank: int, question: Look | Where | Leave) -> None:
        with contextlib.suppress(OSError):
            self.channels[rank].send(question)
