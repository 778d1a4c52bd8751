"""What is wrong with a job, as far as its dumps show."""

from __future__ import annotations

import dataclasses
import enum
from dataclasses import dataclass

from ddp_lessons.dumps.left_behind import LeftBehind
from ddp_lessons.record.event import Event
from ddp_lessons.record.events import Events
from ddp_lessons.record.rank_record import Recorded, Standing
from ddp_lessons.run.diagnosis.call_fit import first_disagreement, first_fault
from ddp_lessons.run.diagnosis.hang_reasons import RETURNED, Absence, why_nobody_moves
from ddp_lessons.run.diagnosis.wording import Reason, called, ranks_named

_ABSENT = Absence("{have} not called it", "{have} not called the")
_ENDED = Absence("ended without calling it", "ended without the")
_NO_DUMP = Absence(
    "left no dump, so it may not have called it, or its process died",
    "left no dump, so it may not have called the",
)
_NEXT_NO_DUMP = (
    "look at the log of {who} for an exception or a signal. If its process was alive, set a longer "
    "TORCH_NCCL_WAIT_TIMEOUT_DUMP_MILSEC, so that every rank can write its dump."
)
_NEXT_ENABLE = (
    "set TORCH_FR_BUFFER_SIZE=2000 when the job starts. If the ranks only send and receive "
    "with gloo, use `torchrun ... -m ddp_lessons record --to DUMPS/rank_ train.py`."
)
_NEXT_LIBRARY = (
    "look for what the calls cannot show: a GPU kernel that does not end before this call, or a network fault. "
    "NCCL_DEBUG=INFO logs what NCCL does; nvidia-smi and dmesg show GPU errors (Xid)."
)
_NEXT_ROOT = "print {what} on each rank before this call: if it differs, the ranks wait for each other."
_NEXT_MEMBERS = "look for a rank that belongs to this group and has not called it."


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
        return Finding(Verdict.UNKNOWN, events, Reason(["The dumps contain no call."], _NEXT_ENABLE))
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
            [f"The other calls match, but {_these(left)} left no dump."], _NEXT_NO_DUMP.format(who=_these(left))
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
    return Finding(Verdict.HANG, events, dataclasses.replace(reason, advice=_NEXT_NO_DUMP.format(who=_these(left))))


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
        return Reason([sentence, more], _NEXT_MEMBERS, event.rank)
    if event.operation in ("broadcast", "reduce"):
        sentence = (
            f"All ranks of the group called {called(event)}, and it did not complete. Dumps do not show its root."
        )
        return Reason(
            [sentence], _NEXT_ROOT.format(what="src" if event.operation == "broadcast" else "dst"), event.rank
        )
    sentence = f"All ranks of the group called {called(event)}, the calls match, and yet it did not complete."
    return Reason([sentence], _NEXT_LIBRARY, event.rank)
