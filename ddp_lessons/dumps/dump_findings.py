"""What is wrong with a job, as far as its dumps show."""

from __future__ import annotations

import dataclasses
import enum
from dataclasses import dataclass

from ddp_lessons.dumps.left_behind import LeftBehind
from ddp_lessons.record.event import Event
from ddp_lessons.record.events import Events
from ddp_lessons.record.rank_record import Recorded, Standing
from ddp_lessons.run.diagnosis.advice import Reason
from ddp_lessons.run.diagnosis.call_fit import first_disagreement, first_fault
from ddp_lessons.run.diagnosis.hang_reasons import RETURNED, Absence, why_nobody_moves
from ddp_lessons.run.diagnosis.wording import called, ranks_named

_ABSENT = Absence("{have} not called it", "{have} not called the")
_ENDED = Absence("ended without calling it", "ended without the")
_NO_DUMP = Absence(
    "left no dump, so it may not have called it, or its process died",
    "left no dump, so it may not have called the",
)


class Verdict(enum.Enum):
    HANG = "hang"
    MISMATCH = "mismatch"
    NOTHING = "nothing hangs"
    UNKNOWN = "cannot tell"


@dataclass(frozen=True)
class Finding:
    """The verdict, its reason, and the calls that the ranks wait in."""

    verdict: Verdict
    events: Events
    reason: Reason | None = None

    def waits_in(self, rank: int) -> Event | None:
        return next(iter(self.events.held(rank)), None)


def find_fault(left: LeftBehind) -> Finding:
    events = Events(left.recorded)
    if not left.number_of_calls:
        return Finding(Verdict.UNKNOWN, events, Reason("dumps-without-calls", ["The dumps contain no call."]))
    if reason := why_nobody_moves(events, _absence(left)):
        return Finding(Verdict.HANG, events, reason)
    if left.missing and (found := _with_missing_ranks(left)):
        return found
    has_ended = left.endings.keys() >= set(range(events.world_size))  # a rank that still runs may call wait() later
    if reason := first_fault(events) if has_ended else first_disagreement(events):
        is_stuck = any(events.held(rank) for rank in range(events.world_size))
        return Finding(Verdict.HANG if is_stuck else Verdict.MISMATCH, events, reason)
    if stuck := _matching_but_stuck(events, left):
        return Finding(Verdict.HANG, events, stuck)
    if left.missing:
        reason = Reason(
            "no-dump", [f"The other calls match, but {_these(left)} left no dump."], blanks={"who": _these(left)}
        )
        return Finding(Verdict.UNKNOWN, events, reason)
    return Finding(Verdict.NOTHING, events)


def _absence(left: LeftBehind) -> Absence:
    if not left.is_own:
        return _ABSENT
    return RETURNED if set(left.endings.values()) <= {"returned"} else _ENDED


def _with_missing_ranks(left: LeftBehind) -> Finding | None:
    """Assume that the ranks without a dump make no more calls."""
    gone = Recorded(0.0, standing=Standing(is_free=False))
    events = Events([one or gone for one in left.recorded])
    reason = why_nobody_moves(events, _NO_DUMP)
    if reason is None:
        return None
    return Finding(Verdict.HANG, events, dataclasses.replace(reason, key="no-dump", blanks={"who": _these(left)}))


def _these(left: LeftBehind) -> str:
    return ranks_named(left.missing)


def _matching_but_stuck(events: Events, left: LeftBehind) -> Reason | None:
    """All members wait in the same call, or all that are known."""
    held = {id(event) for rank in range(events.world_size) for event in events.held(rank)}
    complete = (meeting.events for meeting in events.meetings if not meeting.missing)
    found = next((calls for calls in complete if all(id(event) in held for event in calls)), None)
    return _of_a_match(found[0], left) if found is not None else None


def _of_a_match(event: Event, left: LeftBehind) -> Reason:
    if event.group in left.uncertain_groups:
        sentence = f"All ranks that are known to use this group called {called(event)}, and it did not complete."
        more = "gloo's dumps do not list the members of a group, so another member may be missing."
        return Reason("unknown-members", [sentence, more], event.rank)
    if event.operation in ("broadcast", "reduce"):
        sentence = (
            f"All ranks of the group called {called(event)}, and it did not complete. Dumps do not show its root."
        )
        name = "src" if event.operation == "broadcast" else "dst"
        return Reason("unknown-root", [sentence], event.rank, {"name": name})
    sentence = f"All ranks of the group called {called(event)}, the calls match, and yet it did not complete."
    return Reason("matching-calls", [sentence], event.rank)
