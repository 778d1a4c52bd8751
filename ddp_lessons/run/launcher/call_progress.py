"""The progress of one call on all ranks, and how it ends: for `launch` and for `explain` alike."""

from __future__ import annotations

import enum
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from ddp_lessons.record.rank_record import Recorded, Standing
from ddp_lessons.run.launcher.hang_watch import Lookout
from ddp_lessons.run.launcher.patience import SECONDS_FOR_OTHER_FAILURES, OwnTime
from ddp_lessons.run.launcher.rank_states import Account, Died
from ddp_lessons.run.wire.messages import Loaded, Look, Position, Raised, Returned


class Ending(enum.Enum):
    RETURNED = "every rank returned"
    FAILED = "a rank raised or died"
    STUCK = "no rank could make progress"
    OUT_OF_TIME = "the time limit was reached"
    INTERRUPTED = "you stopped the ranks"
    QUIT = "you quit the debugger"


@dataclass
class CallProgress:
    """What the ranks reported about one call. The watch for hangs starts when all of them have joined: `begin()`."""

    world_size: int
    ask: Callable[[int, Look], None]
    timeout_seconds: float | None
    time: OwnTime  # measures the time that the ranks had
    seconds_for_other_failures: float = SECONDS_FOR_OTHER_FAILURES
    returned: set[int] = field(default_factory=set)
    ended: dict[int, Raised | Died] = field(default_factory=dict)
    positions: dict[int, Position] = field(default_factory=dict)
    recorded: dict[int, Recorded] = field(default_factory=dict)
    lookout: Lookout | None = None

    def begin(self) -> None:
        self.lookout = Lookout(self.world_size, self.ask)

    def heard(self, rank: int, message: object) -> None:
        """Process a message of a rank."""
        if isinstance(message, Standing | Recorded) and self.lookout is not None:
            self.lookout.heard(rank, message)
        if isinstance(message, Loaded) and self.lookout is not None:
            self.lookout.has_loaded(rank)
        if isinstance(message, Returned | Raised | Position) and message.recorded is not None:
            self.recorded[rank] = message.recorded
        if isinstance(message, Returned):
            self.returned.add(rank)
        elif isinstance(message, Raised):
            self.ended[rank] = message
        elif isinstance(message, Position) and rank not in self.returned:
            self.positions[rank] = message

    def ending(self) -> Ending | None:
        """None while all may still return. Call it often: it also watches the ranks."""
        if len(self.returned) == self.world_size:
            return Ending.RETURNED
        if self._has_failed:
            return Ending.FAILED
        if self.lookout is None:
            return None
        if not self.ended and self.lookout.sees_a_standstill():
            return Ending.STUCK
        if self.lookout.is_still_loading():
            self.time.pause()
            return None
        return Ending.OUT_OF_TIME if self.time.exceeds(self.timeout_seconds) else None

    def newest_calls(self) -> dict[int, Recorded]:
        """The calls of each rank from a moment ago, if they seemed to hang."""
        return self.lookout.calls if self.lookout is not None else {}

    def account(self) -> Account:
        at_line = {}
        if self.lookout is not None:
            at_line = {rank: self.lookout.seconds_at_one_line(rank) for rank in range(self.world_size)}
        returned, patience = frozenset(self.returned), self.timeout_seconds
        return Account(self.world_size, self.ended, self.positions, returned, patience, self.time.on_the_wall, at_line)

    @property
    def _has_failed(self) -> bool:
        """A rank raised or died, and the others had time to report their failures."""
        first = min((how.moment for how in self.ended.values()), default=None)
        return first is not None and time.monotonic() > first + self.seconds_for_other_failures
