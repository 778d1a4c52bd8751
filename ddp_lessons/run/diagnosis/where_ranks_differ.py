"""The first collective that the ranks called on different lines: one skipped a call, or made an extra one."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from ddp_lessons.record.event import Event, Meeting
from ddp_lessons.record.events import Events
from ddp_lessons.run.diagnosis.wording import told_by_rank


@dataclass(frozen=True)
class Difference:
    calls: Sequence[Event]
    number: int  # of the collective, counted from 1
    is_repeated: bool  # a rank had made the call of another one before

    @property
    def sentence(self) -> str:
        told = told_by_rank({event.rank: f"at {event.place}" for event in self.calls})
        return f"In collective call {self.number}, the ranks are on different lines: {told}."


def first_difference(events: Events, group: str, until: Meeting | None = None) -> Difference | None:
    """The first in the calls of this group. If no other rank ever calls a rank's line, the code has a branch there, and
    its calls are meant to meet."""
    if any(events.dropped):
        return None
    meetings = [meeting for meeting in events.meetings if meeting.events[0].group == group]
    callers, before = _callers(meetings), _callers([])
    for number, meeting in enumerate(meetings, start=1):
        lines = {event.rank: (event.file, event.line) for event in meeting.events}
        strangers = [(line, rank) for line in {*lines.values()} for rank in lines if lines[rank] != line]
        if any(rank in callers[line] for line, rank in strangers):
            is_repeated = any(rank in before[line] for line, rank in strangers)
            return Difference(meeting.events, number, is_repeated)
        if meeting is until:
            return None
        for rank, line in lines.items():
            before[line].add(rank)
    return None


def _callers(meetings: Sequence[Meeting]) -> defaultdict[tuple[str, int], set[int]]:
    """The ranks that called each line."""
    callers: defaultdict[tuple[str, int], set[int]] = defaultdict(set)
    for meeting in meetings:
        for event in meeting.events:
            callers[event.file, event.line].add(event.rank)
    return callers
