"""What is wrong with a job, as far as its dumps show: in words, as `launch` says it, and as JSON."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from ddp_lessons.dumps.aligned_calls import QUIET_SECONDS
from ddp_lessons.dumps.left_behind import LeftBehind
from ddp_lessons.record.event import Event
from ddp_lessons.record.events import Events
from ddp_lessons.record.line_names import name_place
from ddp_lessons.record.rank_record import Recorded, Standing
from ddp_lessons.run.diagnosis.advice import Reason, kind_of_hang
from ddp_lessons.run.diagnosis.call_fit import first_disagreement, first_fault
from ddp_lessons.run.diagnosis.hang_reasons import RETURNED, Absence, why_nobody_moves
from ddp_lessons.run.diagnosis.wording import called, count, lines_of, name_line, name_of, ranks_named
from ddp_lessons.run.output.transcript import without_middle
from ddp_lessons.run.wire.messages import Frame

_ABSENT = Absence("{have} not called it", "{have} not called the")
_ENDED = Absence("ended without calling it", "ended without the")
_NO_DUMP = Absence(
    "left no dump: {they} may have died or never called it", "left no dump and may never have called the"
)
_ROOTS = {"broadcast": "src", "scatter": "src", "reduce": "dst", "gather": "dst"}
_OF_GLOO = "gloo's dumps do not contain send and recv, so a rank that waits in one seems to have made no call."
_MOST_FILES_NAMED = 5
_IN_JSON = ("group", "group_ranks", "peer", "shape", "dtype", "file", "line")
_PLURALS = {"waits": "wait", "has": "have", "was": "were"}


class Verdict(enum.Enum):
    HANG = "hang"
    MISMATCH = "mismatch"
    NOTHING = "nothing hangs"
    UNKNOWN = "cannot tell"

    @property
    def status(self) -> int:
        """The command's exit status."""
        return {Verdict.NOTHING: 0, Verdict.UNKNOWN: 2}.get(self, 1)


@dataclass(frozen=True)
class Finding:
    """The verdict, its reason, and the calls that the ranks wait in."""

    verdict: Verdict
    left: LeftBehind
    events: Events
    reason: Reason | None = None

    def in_words(self) -> str:
        """The whole message."""
        lines = [_headline(self), *_where_each_is(self)]
        lines += self.reason.lines if self.reason else []
        lines += [f"  {remark}" for remark in _remarks(self)]
        return "\n".join(lines)

    def as_json(self) -> dict[str, Any]:
        return {
            "verdict": self.verdict.value,
            "status": self.verdict.status,
            "reason": list(self.reason.sentences) if self.reason else [],
            "next": self.reason.advice if self.reason else "",
            "name": self.reason.name if self.reason else "",
            "ranks": [_rank_as_json(rank, self) for rank in range(self.events.world_size)],
            "without_dump": self.left.missing,
            "files_left_out": self.left.left_out,
            "remarks": list(_remarks(self)),
        }

    def waits_in(self, rank: int) -> Event | None:
        return next(iter(self.events.held(rank)), None)


# --- what is wrong ----------------------------------------------------------------------------------------------------


def find_fault(left: LeftBehind) -> Finding:
    events = Events(left.recorded)
    if not left.number_of_calls:
        nothing = Reason("dumps-without-calls", ["The dumps contain no calls."])
        return Finding(Verdict.UNKNOWN, left, events, nothing)
    if reason := why_nobody_moves(events, _absence(left)):
        return Finding(Verdict.HANG, left, events, reason)
    if left.missing and (found := _with_missing_ranks(left)):
        return found
    has_ended = left.endings.keys() >= set(range(events.world_size))  # a rank that still runs may call wait() later
    if reason := first_fault(events) if has_ended else first_disagreement(events):
        is_stuck = any(events.held(rank) for rank in range(events.world_size))
        return Finding(Verdict.HANG if is_stuck else Verdict.MISMATCH, left, events, reason)
    if stuck := _matching_but_stuck(events, left):
        return Finding(Verdict.HANG, left, events, stuck)
    if left.missing:
        who = ranks_named(left.missing)
        unknown = Reason("no-dump", [f"The other calls match, but {who} left no dump."], blanks={"who": who})
        return Finding(Verdict.UNKNOWN, left, events, unknown)
    return Finding(Verdict.NOTHING, left, events)


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
    if not reason.name:  # a reason with a name, such as a mismatch, is one of the other ranks
        reason = dataclasses.replace(reason, key="no-dump", blanks={"who": ranks_named(left.missing)})
    return Finding(Verdict.HANG, left, events, reason)


def _matching_but_stuck(events: Events, left: LeftBehind) -> Reason | None:
    """All members wait in the same call, or all that are known."""
    held = {id(event) for rank in range(events.world_size) for event in events.held(rank)}
    complete = (meeting.events for meeting in events.meetings if not meeting.missing)
    event = next((calls[0] for calls in complete if all(id(event) in held for event in calls)), None)
    if event is None:
        return None
    if event.group in left.uncertain_groups:
        sentence = f"All ranks that are known to use this group called {called(event)}, but the call did not complete."
        more = "gloo's dumps do not list the members of a group, so another member may be missing."
        return Reason("unknown-members", [sentence, more], event.rank)
    what = f"All ranks of the group called {called(event)}"
    if name := _ROOTS.get(event.operation):
        sentence = f"{what}, but the call did not complete. Dumps do not record its root."
        return Reason("unknown-root", [sentence], event.rank, {"name": name})
    return Reason("matching-calls", [f"{what}, and the calls match, but they did not complete."], event.rank)


# --- in words ---------------------------------------------------------------------------------------------------------


def _headline(finding: Finding) -> str:
    left, reason = finding.left, finding.reason
    who = count(len(left.recorded) - len(left.missing), "rank")
    if finding.verdict is Verdict.HANG:
        return f"WorkersStuck: {kind_of_hang(reason)}, {who} made no progress"
    if finding.verdict is Verdict.MISMATCH:
        return f"WorkerFailed: {reason.name if reason else ''}, the results cannot be trusted"
    if finding.verdict is Verdict.UNKNOWN:
        return "Cannot tell whether the job hangs."
    if left.is_own and len(left.endings) + len(left.missing) < len(left.recorded):
        return f"No hang found: judging by the calls of {who}, every wait can still complete."
    return f"No hang: the calls of {who} match, and no rank waits for a missing call."


def _where_each_is(finding: Finding) -> Iterator[str]:
    """A line for each rank; one for all that are in the same place."""
    if finding.verdict is Verdict.NOTHING and not finding.left.is_own:
        return
    doing: dict[str, list[int]] = {}
    for rank in range(finding.events.world_size):
        doing.setdefault(_doing(rank, finding) + _how_long(rank, finding), []).append(rank)
    for what, ranks in doing.items():
        verb, _, rest = what.partition(" ")
        yield f"    {ranks_named(ranks)}   {verb if len(ranks) == 1 else _PLURALS.get(verb, verb)} {rest}"


def _doing(rank: int, finding: Finding) -> str:
    left, events = finding.left, finding.events
    if rank in left.missing:
        return "left no dump"
    if rank in left.endings:
        return f"has {without_middle(left.endings[rank], 200)}"
    if (event := finding.waits_in(rank)) is not None:
        return f"waits in {called(event)}{_group(event, left)} ({_line(event)})"
    if not events.standing(rank).is_free:
        last = next(reversed(events.of(rank)), None)
        since = "" if last is None else f" since {name_of(last)}{_group(last, left)} ({_line(last)})"
        return f"has called nothing{since}"
    file, line = events.standing(rank).at
    return f"was at {name_place(file, line)}" if file else "made progress until its dump was written"


def _line(event: Event) -> str:
    text = "".join(lines_of(event.file)[event.line - 1 : event.line])
    return name_line(Frame(event.file, event.line, event.function, text)) if event.file else event.place


def _group(event: Event, left: LeftBehind) -> str:
    """The name that the program gave to the group."""
    said = left.descriptions.get(event.group, "")
    return f' "{said}"' if said not in ("", "undefined", "default_pg") and event.is_collective else ""


def _how_long(rank: int, finding: Finding) -> str:
    if rank in finding.left.endings or finding.events.standing(rank).is_free or not finding.events.of(rank):
        return ""
    if rank in finding.left.timed_out:
        return "   (until its timeout)"
    seconds = finding.left.waits.get(rank, 0.0)
    return f"   (for {seconds:,.0f} seconds)" if QUIET_SECONDS <= seconds < float("inf") else ""


def _remarks(finding: Finding) -> Iterator[str]:
    left, events = finding.left, finding.events
    if finding.verdict is Verdict.HANG and finding.reason is not None and not finding.reason.name:
        whole = [meeting.events for meeting in events.meetings if not meeting.missing]
        matched = sum(all(event.end is not None for event in calls) for calls in whole)
        if matched:
            calls = "collective matches" if matched == 1 else "collectives match"
            yield f"Not the cause: {matched:,} earlier {calls} in order, shape and dtype on all ranks."
    if finding.verdict is Verdict.NOTHING and not left.is_own:
        ranks = sorted({event.rank for event in events if event.end is None})
        if ranks:
            have = "has" if len(ranks) == 1 else "have"
            yield f"{ranks_named(ranks).capitalize()} {have} just started to wait. If the job is stuck, take new dumps."
    if left.lost:
        yield f"{left.lost:,} older calls are not in the dumps: TORCH_FR_BUFFER_SIZE sets how many calls torch keeps."
    if left.is_of_gloo:
        yield _OF_GLOO
    if left.left_out:
        more = len(left.left_out) - _MOST_FILES_NAMED
        shown = " ".join(left.left_out[:_MOST_FILES_NAMED])
        yield f"Left out: {shown}{f' and {more} more files' if more > 0 else ''}"


def _rank_as_json(rank: int, finding: Finding) -> dict[str, Any]:
    event = finding.waits_in(rank)
    about: dict[str, Any] = {"rank": rank, "state": _doing(rank, finding)}
    if event is not None:
        numbers = {id(one): number for one, number in finding.events.numbered(rank)}
        about["waits_in"] = {
            "call": name_of(event),
            "operation": event.operation,
            "number": numbers.get(id(event), 0) + 1,
            **{name: getattr(event, name) for name in _IN_JSON},
        }
        about["seconds"] = round(finding.left.waits.get(rank, 0.0), 1)
    return about
