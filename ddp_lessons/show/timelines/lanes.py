"""Where each call lies in a timeline: its lane and row, and which part of it was waiting and which was moving.

A rank waits in a collective until the last rank has come to it, in a send until the other calls recv, in a recv until
the other calls send. From then on data moves.
"""

from __future__ import annotations

import bisect
import itertools
import math
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from functools import cached_property

from ddp_lessons.record.event import Delivery, Event, Meeting
from ddp_lessons.record.events import Events
from ddp_lessons.run.diagnosis.waits import never_ending

Point = tuple[float, float]
MOST_ROWS = 4  # so many calls of one rank that go on at once are drawn below each other
BAR = 0.46  # the part of a lane's height that its bars take
SHORTEST_SECONDS = 0.0002  # a rank that goes on with something else is away for longer than this
_BLOCKING = ("send", "recv")


@dataclass(frozen=True)
class Segment:
    """A stretch of a bar. It is thin where the rank went on with other work meanwhile."""

    begin: float
    end: float
    is_waiting: bool
    is_thin: bool


@dataclass(frozen=True)
class Bar:
    """One call in its rank's lane."""

    event: Event
    end: float  # the right edge of the picture, if nobody saw the call complete
    moves_from: float
    row: int
    rows: int
    away: tuple[tuple[float, float], ...] = ()  # when the rank went on with other work
    is_for_ever: bool = False

    @property
    def is_open(self) -> bool:
        return self.event.end is None and not self.event.error

    @property
    def middle(self) -> float:
        """Its height in the picture: lane 0 is at 0, lane 1 at 1."""
        return self.event.rank + (self.row - (self.rows - 1) / 2) * BAR / self.rows

    @property
    def half(self) -> float:
        return 0.5 * BAR / self.rows * (0.9 if self.rows > 1 else 1)

    @cached_property
    def segments(self) -> tuple[Segment, ...]:
        inside = (self.moves_from, *(moment for stretch in self.away for moment in stretch))
        cuts = sorted({self.event.begin, self.end, *(min(max(cut, self.event.begin), self.end) for cut in inside)})
        return tuple(
            Segment(a, b, b <= self.moves_from, any(begin <= a and b <= end for begin, end in self.away))
            for a, b in itertools.pairwise(cuts)
        )


@dataclass(frozen=True)
class Lanes:
    """All bars by the `id` of their event, and the times that the picture spans."""

    bars: Mapping[int, Bar]
    start: float
    stop: float


def arrow(delivery: Delivery, lanes: Lanes) -> tuple[Point, Point]:
    """From the edge of the sender's lane to the edge of the receiver's; it passes behind the bars of others."""
    sender, receiver = lanes.bars[id(delivery.send)], lanes.bars[id(delivery.recv)]
    down = 1 if receiver.event.rank > sender.event.rank else -1
    begin = sender.moves_from, sender.event.rank + down * BAR / 2
    return begin, (receiver.end, receiver.event.rank - down * BAR / 2)


def lay_out(events: Events, moments: Sequence[float] = ()) -> Lanes:
    """Give every call its place, in a time that spans these moments too. There must be a call or a moment."""
    first = min([*moments, *(event.begin for event in events)])
    last = max([*moments, *(_last_known(event) for event in events)])
    never = {id(event) for event in never_ending(events)}
    last = max(last, _end_of_waits(events, never, first, last))
    lead = 0.0 if first < 0.4 * last else first  # a long time before the first call would squeeze all others
    edge = (last - lead) * 0.04 or 1e-6
    start, stop = lead - (edge / 2 if lead else 0.0), last + edge
    moves_from = _beginnings_of_moving(events)
    bars: dict[int, Bar] = {}
    for rank in range(events.world_size):
        ends = {id(e): _end(e, stop) for e in events.of(rank)}
        rows = _rows(events, rank, ends)
        waits = _waits(events, rank, ends)
        for e in events.of(rank):
            starts_moving = min(max(moves_from.get(id(e), e.begin), e.begin), ends[id(e)])
            away = _away(e, ends[id(e)], waits, max((stop - start) / 100, SHORTEST_SECONDS))
            bars[id(e)] = Bar(e, ends[id(e)], starts_moving, rows[id(e)], max(rows.values()) + 1, away, id(e) in never)
    return Lanes(bars, start, stop)


def _end_of_waits(events: Events, never: Set[int], first: float, last: float) -> float:
    """What waits for ever goes on a little after the standstill; all else that was not over, until it was asked."""
    waited_for = [event for event in events if event.end is None and not event.error]
    if waited_for and all(id(event) in never or event.waited is None for event in waited_for):
        return last + 0.35 * (last - first) if last > first else events.until
    return events.until if waited_for else last


def _last_known(event: Event) -> float:
    return max(moment for moment in (event.begin, event.issued, event.waited, event.end) if moment is not None)


def _end(event: Event, stop: float) -> float:
    if event.end is not None:
        return event.end
    return _last_known(event) if event.error else stop


def _waits(events: Events, rank: int, ends: Mapping[int, float]) -> list[tuple[float, float]]:
    """When a rank did nothing but wait for some call of its own; those that overlap are one."""
    joined: list[tuple[float, float]] = []
    for begin, end in sorted((e.waited, ends[id(e)]) for e in events.of(rank) if e.waited is not None):
        if joined and begin <= joined[-1][1]:
            joined[-1] = joined[-1][0], max(end, joined[-1][1])
        else:
            joined.append((begin, end))
    return joined


def _away(
    event: Event, end: float, waits: list[tuple[float, float]], shortest: float
) -> tuple[tuple[float, float], ...]:
    """What lies between a call and its wait, but for other waits. Too short a time is not worth a different look."""
    if event.call in _BLOCKING:
        return ()
    stop = min(end, end if event.waited is None else event.waited)
    gaps, begin = [], event.issued
    first = max(bisect.bisect(waits, (begin, math.inf)) - 1, 0)
    for wait in itertools.takewhile(lambda wait: wait[0] < stop, itertools.islice(waits, first, None)):
        gaps.append((begin, wait[0]))
        begin = max(begin, wait[1])
    gaps.append((begin, stop))
    return tuple((a, b) for a, b in gaps if b - a >= shortest)


def _rows(events: Events, rank: int, ends: Mapping[int, float]) -> dict[int, int]:
    """The first row that is free again, for each call of a rank."""
    free = [-math.inf] * MOST_ROWS
    rows = {}
    for event in events.of(rank):
        row = next((row for row in range(MOST_ROWS) if free[row] <= event.begin), MOST_ROWS - 1)
        free[row] = max(free[row], ends[id(event)])
        rows[id(event)] = row
    return rows


def _beginnings_of_moving(events: Events) -> dict[int, float]:
    moments: dict[int, float] = {}
    for delivery in events.deliveries:
        both = max(delivery.send.begin, delivery.recv.begin)
        moments |= {id(delivery.send): both, id(delivery.recv): both}
    for meeting in events.meetings:
        moments |= {id(event): _last_came(meeting) for event in meeting.events}
    for event in events:
        if (event.end is None or event.error) and id(event) not in moments:
            moments[id(event)] = math.inf  # nobody came to meet it
    return moments


def _last_came(meeting: Meeting) -> float:
    is_over = all(event.end is not None for event in meeting.events)
    return max(event.begin for event in meeting.events) if meeting.is_agreed or is_over else math.inf
