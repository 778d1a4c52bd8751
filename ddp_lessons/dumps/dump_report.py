"""A finding in words, as `launch` words it, and as JSON."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ddp_lessons.dumps.aligned_calls import QUIET_SECONDS
from ddp_lessons.dumps.dump_findings import Finding, Verdict
from ddp_lessons.dumps.left_behind import LeftBehind
from ddp_lessons.record.event import Event
from ddp_lessons.record.line_names import name_place
from ddp_lessons.run.diagnosis.advice import kind_of_hang
from ddp_lessons.run.diagnosis.wording import called, lines_of, name_line, name_of, number_of_ranks, ranks_named
from ddp_lessons.run.output.transcript import without_middle
from ddp_lessons.run.wire.messages import Frame

STATUS = {Verdict.NOTHING: 0, Verdict.HANG: 1, Verdict.MISMATCH: 1, Verdict.UNKNOWN: 2}
_OF_GLOO = "gloo records no send or recv: a rank that waits in one looks as if it made no call."


def in_words(finding: Finding, left: LeftBehind) -> str:
    """The whole message."""
    lines = [_headline(finding, left), *_where_each_is(finding, left)]
    lines += finding.reason.lines if finding.reason else []
    lines += [f"  {remark}" for remark in _remarks(finding, left)]
    return "\n".join(lines)


def as_json(finding: Finding, left: LeftBehind) -> dict[str, Any]:
    ranks = range(finding.events.world_size)
    return {
        "verdict": finding.verdict.value,
        "status": STATUS[finding.verdict],
        "reason": list(finding.reason.sentences) if finding.reason else [],
        "next": finding.reason.advice if finding.reason else "",
        "name": finding.reason.name if finding.reason else "",
        "ranks": [_rank_as_json(rank, finding, left) for rank in ranks],
        "without_dump": left.missing,
        "files_left_out": left.left_out,
        "remarks": list(_remarks(finding, left)),
    }


def _headline(finding: Finding, left: LeftBehind) -> str:
    name = finding.reason.name if finding.reason else ""
    if finding.verdict is Verdict.HANG:
        return f"WorkersStuck: {kind_of_hang(finding.reason)}, {_of_how_many(left)} made no progress"
    if finding.verdict is Verdict.MISMATCH:
        return f"WorkerFailed: {name}, the results cannot be trusted"
    if finding.verdict is Verdict.UNKNOWN:
        return "Cannot tell whether the job hangs."
    if left.is_own and len(left.endings) + len(left.missing) < len(left.recorded):
        return f"No hang is certain: as far as the calls of {_of_how_many(left)} show, each wait can still end."
    return f"Nothing hangs: the calls of {_of_how_many(left)} match, and no rank waits in vain."


def _of_how_many(left: LeftBehind) -> str:
    return number_of_ranks(len(left.recorded) - len(left.missing))


def _where_each_is(finding: Finding, left: LeftBehind) -> Iterator[str]:
    """A line for each rank; one for all that are in the same place."""
    if finding.verdict is Verdict.NOTHING and not left.is_own:
        return
    doing: dict[str, list[int]] = {}
    for rank in range(finding.events.world_size):
        doing.setdefault(_doing(rank, finding, left), []).append(rank)
    for what, ranks in doing.items():
        yield f"    {ranks_named(ranks)}   {what if len(ranks) == 1 else _of_several(what)}"


def _of_several(what: str) -> str:
    verb, _, rest = what.partition(" ")
    plural = {"waits": "wait", "has": "have", "was": "were"}
    return f"{plural.get(verb, verb)} {rest}"


def _doing(rank: int, finding: Finding, left: LeftBehind) -> str:
    if rank in left.missing:
        return "left no dump"
    if rank in left.endings:
        return f"has {without_middle(left.endings[rank], 200)}"
    event, events = finding.waits_in(rank), finding.events
    if event is not None:
        return f"waits in {called(event)}{_group(event, left)} ({_line(event)}){_how_long(rank, left)}"
    if not events.standing(rank).is_free:
        last = next((one for one in reversed(events.of(rank))), None)
        if last is None:
            return "has called nothing"
        return f"has called nothing since {name_of(last)}{_group(last, left)} ({_line(last)}){_how_long(rank, left)}"
    file, line = events.standing(rank).at
    return f"was at {name_place(file, line)}" if file else "made progress until its dump was written"


def _line(event: Event) -> str:
    text = "".join(lines_of(event.file)[event.line - 1 : event.line])
    return name_line(Frame(event.file, event.line, event.function, text)) if event.file else event.place


def _group(event: Event, left: LeftBehind) -> str:
    """The name that the program gave to the group."""
    said = left.descriptions.get(event.group, "")
    return f' "{said}"' if said not in ("", "undefined", "default_pg") and event.is_collective else ""


def _how_long(rank: int, left: LeftBehind) -> str:
    if rank in left.timed_out:
        return "   (until its timeout)"
    seconds = left.waits.get(rank, 0.0)
    return f"   (for {seconds:,.0f} seconds)" if QUIET_SECONDS <= seconds < float("inf") else ""


def _remarks(finding: Finding, left: LeftBehind) -> Iterator[str]:
    lost = sum(finding.events.dropped)
    if finding.verdict is Verdict.HANG and finding.reason is not None and not finding.reason.name:
        meetings = (meeting for meeting in finding.events.meetings if not meeting.missing)
        matched = sum(all(event.end is not None for event in meeting.events) for meeting in meetings)
        if matched:
            calls = "collective matches" if matched == 1 else "collectives match"
            yield f"Not the cause: {matched:,} earlier {calls} in order, shape and dtype on all ranks."
    if finding.verdict is Verdict.NOTHING and not left.is_own:
        ranks = [rank for rank in range(finding.events.world_size) if _is_in_a_call(rank, finding)]
        if ranks:
            wait = "waits" if len(ranks) == 1 else "wait"
            yield f"{ranks_named(ranks).capitalize()} {wait} in a call since a moment. If the job is stuck, dump again."
    if lost and not left.is_own:
        yield f"{lost:,} older calls are not in the dumps. TORCH_FR_BUFFER_SIZE sets how many torch keeps."
    if "gloo" in left.libraries:
        yield _OF_GLOO
    if left.left_out:
        shown = left.left_out[:5]
        more = f" and {len(left.left_out) - 5} more files" if len(left.left_out) > 5 else ""
        yield f"Left out: {' '.join(shown)}{more}"


def _is_in_a_call(rank: int, finding: Finding) -> bool:
    return any(event.end is None for event in finding.events.of(rank))


def _rank_as_json(rank: int, finding: Finding, left: LeftBehind) -> dict[str, Any]:
    event = finding.waits_in(rank)
    about: dict[str, Any] = {"rank": rank, "state": _doing(rank, finding, left).partition("   (")[0]}
    if event is not None:
        numbers = {id(one): number for one, number in finding.events.numbered(rank)}
        about["waits_in"] = {
            "call": name_of(event),
            "operation": event.operation,
            "number": numbers.get(id(event), 0) + 1,
            "group": event.group,
            "group_ranks": list(event.group_ranks),
            "peer": event.peer,
            "shape": list(event.shape),
            "dtype": event.dtype,
            "file": event.file,
            "line": event.line,
        }
        about["seconds"] = round(left.waits.get(rank, 0.0), 1)
    return about
