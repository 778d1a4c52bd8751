"""What a timeline draws: calls with their parts, times and steps, messages, collectives, and phases.

A rank waits in a collective until the last rank calls it, in a send until the other rank calls recv, and in a recv
until the other rank calls send. After that, data moves until the message has arrived. Times are milliseconds since the
start of the timeline: the first call or phase, but not before the function has started on every rank.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass, replace
from typing import NamedTuple

from ddp_lessons.record.event import Event, Meeting
from ddp_lessons.record.events import Events
from ddp_lessons.record.rank_record import Gap
from ddp_lessons.run.diagnosis.waits import never_ending
from ddp_lessons.run.diagnosis.wording import joined, ranks_named
from ddp_lessons.show.figures.formats import show_bytes, show_seconds, show_values
from ddp_lessons.show.timelines.text_steps import DDP, how_it_failed, is_odd, name_call, step_of_each
from ddp_lessons.show.timelines.told_phases import Phase, Phases

MOST_ROWS = 3  # below a lane: the number of rows for calls in the background
SHORTEST_SECONDS = 0.0002  # a call is in the background if the rank does something else for longer than this
SHORT_RUN_MS = 50.0  # shorter runs are shown by steps


class Part(NamedTuple):
    """A part of a call: "wait", "move" or "never"; in the background, "open" or "travel"; or "call"."""

    begin: float
    end: float
    look: str
    row: int = 0  # 0 is the lane itself


@dataclass(frozen=True)
class Call:
    number: int
    rank: int
    name: str
    kind: str  # "message", "collective", "ddp"
    step: int
    begin: float
    end: float
    parts: Sequence[Part]
    state: str  # "waits forever", "failed", ...
    is_send: bool
    is_in_background: bool
    load: str
    place: str

    @property
    def row(self) -> int:
        return max(part.row for part in self.parts)

    def spent(self, *looks: str) -> float:
        return sum(part.end - part.begin for part in self.parts if part.look in looks)


@dataclass(frozen=True)
class Message:
    send: Call
    recv: Call
    begin: float
    end: float


@dataclass(frozen=True)
class Collective:
    calls: Sequence[Call]  # by rank
    missing: Sequence[int]  # ranks that did not call it, though the others wait for them
    is_odd: bool


@dataclass(frozen=True)
class Timeline:
    """All that is drawn. `computing` has intervals between calls: the rank, begin, end, and the fraction of a CPU."""

    ranks: int
    span: float
    calls: Sequence[Call]
    messages: Sequence[Message]
    collectives: Sequence[Collective]
    phases: Sequence[Phase]
    computing: Sequence[tuple[int, float, float, float]]
    warnings: Sequence[str]
    notes: Sequence[str]

    @property
    def is_short(self) -> bool:
        return not self.phases and self.span < SHORT_RUN_MS

    def members(self, call: Call) -> list[Call]:
        """The calls that belong to the same message or collective."""
        return [other for other in self._members.get(call.number, ()) if other is not call]

    @functools.cached_property
    def _members(self) -> dict[int, Sequence[Call]]:
        together = [one.calls for one in self.collectives] + [(one.send, one.recv) for one in self.messages]
        return {call.number: calls for calls in together for call in calls}

    def tell(self, call: Call) -> str:
        """The tooltip."""
        others = [other.rank for other in self.members(call)]
        facts = [f"rank {call.rank}: {call.name}", *[call.state] * bool(call.state)]
        if call.is_in_background:
            inside = _duration(call.spent("wait", "never", "move"))
            facts.append(f"in the background for {_duration(call.end - call.begin)}, in wait() for {inside}")
        else:
            waited, moved = _duration(call.spent("wait", "never")), _duration(call.spent("move"))
            facts.append(f"waited {waited}, moved data for {moved}")
        facts += [call.load] * bool(call.load)
        if call.kind != "message" and others:
            facts.append(f"with {ranks_named(others)}")
        return " · ".join([*facts, call.place])


def _duration(milliseconds: float) -> str:
    return show_seconds(milliseconds / 1e3)


def timeline_of(events: Events, phases: Phases) -> Timeline:
    """Prepare a timeline of events and phases, of which there must be at least one."""
    lanes = _Lanes(events, phases)
    steps = step_of_each(events)
    calls = {id(event): lanes.describe(event, number, steps[id(event)]) for number, event in enumerate(events)}
    return Timeline(
        ranks=events.world_size,
        span=lanes.milliseconds(lanes.stop),
        calls=[*calls.values()],
        messages=[
            Message(
                calls[id(delivery.send)],
                calls[id(delivery.recv)],
                lanes.milliseconds(max(delivery.send.begin, delivery.recv.begin)),
                lanes.milliseconds(delivery.arrived),
            )
            for delivery in events.deliveries
            if delivery.arrived is not None
        ],
        collectives=[
            Collective(
                [calls[id(event)] for event in sorted(meeting.events, key=lambda one: one.rank)],
                [*meeting.missing] if is_odd(meeting) else [],
                is_odd(meeting),
            )
            for meeting in events.meetings
        ],
        phases=[
            replace(phase, begin=lanes.milliseconds(phase.begin), end=lanes.milliseconds(min(phase.end, lanes.stop)))
            for mine in phases.by_rank
            for phase in mine
        ],
        computing=[gap for rank in range(events.world_size) for gap in lanes.computing(rank, events.gaps(rank))],
        warnings=_warnings(events, lanes.never),
        notes=_about_clocks(events),
    )


def _about_clocks(events: Events) -> list[str]:
    """A note if the ranks ran on several nodes."""
    nodes, errors = list(events.clock_errors), sorted(events.clock_errors.values())
    if len(nodes) < 2:
        return []
    where = joined(nodes) if len(nodes) <= 3 else f"the {len(nodes)} nodes"
    return [f"Between {where}, times may be off by up to {_rounded_up(1e3 * sum(errors[-2:]))} ms."]


def _rounded_up(value: float) -> str:
    """Round up to one digit: 0.4 for 0.32."""
    unit = 10.0 ** math.floor(math.log10(value))
    return f"{math.ceil(value / unit) * unit:g}"


def load_of(event: Event) -> str:
    """The values of a message if they are known and short, otherwise its size."""
    return (event.values and show_values(event.values)) or show_bytes(event.bytes)


class _Lanes:
    """When each call began and ended, and in which parts it waited and moved data."""

    def __init__(self, events: Events, phases: Phases) -> None:
        self.never = {id(event) for event in never_ending(events)}
        self.start = max(min([*phases.moments, *(event.begin for event in events)]), events.common_begin)
        self.stop = self._stop(events, [*phases.moments, *[events.until] * phases.are_open])
        self._moves_from = _beginnings_of_moving(events)
        self._arrived = {id(one.send): one.arrived for one in events.deliveries if one.arrived is not None}
        self._rows: dict[int, int] = {}
        for rank in range(events.world_size):
            self._rows |= self._rows_of(events.of(rank))

    def milliseconds(self, moment: float) -> float:
        return max(round(1e3 * (moment - self.start), 4), 0.0)

    def computing(self, rank: int, gaps: Sequence[Gap]) -> Iterator[tuple[int, float, float, float]]:
        """Intervals between calls: the rank, begin, end, and for which fraction of the time it was on a CPU."""
        for begin, end, on_cpu in gaps:
            share = round(min(on_cpu / (end - begin), 1.0), 2) if end > begin else 0.0
            if share > 0 and end > self.start and begin < self.stop:
                yield rank, self.milliseconds(begin), self.milliseconds(min(end, self.stop)), share

    def describe(self, event: Event, number: int, step: int) -> Call:
        arrow = {"send": " →", "recv": " ←"}.get(event.operation, "")
        peer = ("any" if event.peer is None else str(event.peer)) if arrow else ""
        return Call(
            number=number,
            rank=event.rank,
            name=f"{name_call(event)}{arrow}{' ' * bool(peer)}{peer}",
            kind="message" if arrow else "ddp" if event.call == DDP else "collective",
            step=step,
            begin=self.milliseconds(event.begin),
            end=self.milliseconds(self._end(event)),
            parts=self._parts(event),
            state=self._state(event),
            is_send=event.operation == "send",
            is_in_background=self._is_in_background(event),
            load=load_of(event),
            place=event.place,
        )

    def _parts(self, event: Event) -> list[Part]:
        """The parts that end after the start of the timeline."""
        parts = [
            Part(self.milliseconds(one.begin), self.milliseconds(one.end), one.look, one.row)
            for one in self._stretches(event)
        ]
        return [part for part in parts if part.end > 0] or parts[-1:]

    def _state(self, event: Event) -> str:
        if event.error:
            return how_it_failed(event)
        if id(event) in self.never:
            return "waits forever"
        return "not completed" if event.end is None else ""

    def _stop(self, events: Events, moments: Sequence[float]) -> float:
        """The end: when the function had returned on all ranks. Calls that wait forever go on a little after the hang,
        and other pending calls until the rank was asked."""
        last = max([self.start, *moments, *(_last_known(event) for event in events)])
        returned = [end for rank in range(events.world_size) for _, end, _ in events.gaps(rank)[-1:]]
        pending = [event for event in events if event.end is None and not event.error]
        if pending and all(id(event) in self.never or event.waited is None for event in pending):
            return last + 0.35 * (last - self.start) if last > self.start else events.until
        return max(last, events.until) if pending else max([last, *returned])

    def _end(self, event: Event) -> float:
        if event.end is not None:  # the call may return long after the message has arrived
            return max(min(event.end, self._arrived.get(id(event), event.end)), event.begin)
        return _last_known(event) if event.error else self.stop

    def _is_in_background(self, event: Event) -> bool:
        if event.is_blocking:
            return False
        end = self._end(event)
        return min(end, end if event.waited is None else event.waited) - event.issued >= SHORTEST_SECONDS

    def _stretches(self, event: Event) -> list[Part]:
        end, row = self._end(event), self._rows[id(event)]
        moves = min(max(self._moves_from.get(id(event), event.begin), event.begin), end)
        waiting = "never" if id(event) in self.never else "wait"
        if not self._is_in_background(event):
            both = [Part(event.begin, moves, waiting, row), Part(moves, end, "move", row)]
            return [one for one in both if one.end > one.begin] or both[1:]
        stretches = [Part(event.begin, moves, "open", row), Part(moves, end, "travel", row)]
        if event.waited is not None:
            since = min(event.waited, end)
            stretches.append(Part(since, max(moves, since), waiting))
            stretches.append(Part(max(moves, since), end, "move"))
        kept = [one for one in stretches if one.end > one.begin]
        return [Part(event.begin, max(min(event.issued, end), event.begin), "call"), *kept]

    def _rows_of(self, events: Sequence[Event]) -> dict[int, int]:
        """Row 0 is the lane itself. A call in the background or in another thread gets the first free row."""
        free = [-math.inf] * (MOST_ROWS + 1)
        rows = {}
        for event in events:
            first = 1 if self._is_in_background(event) else 0
            row = next((row for row in range(first, MOST_ROWS + 1) if free[row] <= event.begin), MOST_ROWS)
            free[row] = max(free[row], self._end(event))
            rows[id(event)] = row
        return rows


def _last_known(event: Event) -> float:
    return max(moment for moment in (event.begin, event.issued, event.waited, event.end) if moment is not None)


def _beginnings_of_moving(events: Events) -> dict[int, float]:
    moments: dict[int, float] = {}
    for delivery in events.deliveries:
        both = max(delivery.send.begin, delivery.recv.begin)
        moments |= {id(delivery.send): both, id(delivery.recv): both}
    for meeting in events.meetings:
        moments |= {id(event): _last_came(meeting) for event in meeting.events}
    for event in events:
        if (event.end is None or event.error) and id(event) not in moments:
            moments[id(event)] = math.inf  # no other rank made the matching call
    return moments


def _last_came(meeting: Meeting) -> float:
    is_over = all(event.end is not None for event in meeting.events)
    return max(event.begin for event in meeting.events) if meeting.is_agreed or is_over else math.inf


def _warnings(events: Events, never: Set[int]) -> list[str]:
    """A warning for each lane with a problem: its first call that failed or did not complete."""
    mixed = [meeting for meeting in events.meetings if is_odd(meeting)]
    odd = {id(event): meeting for meeting in mixed for event in meeting.events}
    said = []
    for rank in range(events.world_size):
        wrong = [event for event in events.of(rank) if event.error or event.end is None]
        if wrong:
            first = next((event for event in wrong if id(event) in never), wrong[0])
            more = f" (+{len(wrong) - 1})" * (len(wrong) > 1)
            said.append(f"rank {rank} {_warning(first, odd.get(id(first)), id(first) in never)}{more}")
    return said


def _warning(event: Event, meeting: Meeting | None, is_forever: bool) -> str:
    partner = "" if event.peer is None else f" {'to' if event.operation == 'send' else 'from'} rank {event.peer}"
    if event.error:
        return f"{name_call(event)}{partner} {how_it_failed(event)}"
    if event.waited is None:
        return f"{name_call(event)}{partner}: no wait()"
    waits = f"waits{' forever' * is_forever} in {name_call(event)}{partner}"
    return f"{waits} for {ranks_named(meeting.missing)}" if meeting and meeting.missing else waits
