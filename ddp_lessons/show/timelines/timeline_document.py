"""A timeline as data: each call with its parts, times and step; messages, collectives, phases.

A rank waits in a collective until the last rank has come to it, in a send until the other calls recv, in a recv until
the other calls send. From then on data moves, until the message has arrived. Times are milliseconds since the first
moment that is shown: the first call or phase, but not before the function has begun on every rank.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass
from typing import Any

from ddp_lessons.record.event import Event, Meeting
from ddp_lessons.record.events import Events
from ddp_lessons.record.rank_record import Gap
from ddp_lessons.run.diagnosis.waits import never_ending
from ddp_lessons.run.diagnosis.wording import joined
from ddp_lessons.show.page.picture import count, show_bytes, show_values
from ddp_lessons.show.timelines.text_steps import DDP, how_it_failed, is_odd, name_call, step_of_each
from ddp_lessons.show.timelines.told_phases import Phases

MOST_ROWS = 3  # below a lane: so many calls that go on in the background are drawn below each other
SHORTEST_SECONDS = 0.0002  # a rank that goes on with something else is away for longer than this
SHORT_RUN_MS = 50.0  # a run that is over sooner is shown by its steps


def describe_timeline(events: Events, phases: Phases, title: str, alt: str, axis: str | None = None) -> dict[str, Any]:
    """What is drawn, in the browser and as a still. There must be a call or a phase."""
    lanes = _Lanes(events, phases)
    steps = step_of_each(events)
    numbers = {id(event): number for number, event in enumerate(events)}
    span = lanes.milliseconds(lanes.stop)
    return {
        "kind": "timeline",
        "title": title,
        "alt": alt,
        "ranks": events.world_size,
        "axis": axis or ("time" if phases or span >= SHORT_RUN_MS else "steps"),
        "span": span,
        "calls": [lanes.describe(event, steps[id(event)]) for event in events],
        "messages": [
            {
                "send": numbers[id(delivery.send)],
                "recv": numbers[id(delivery.recv)],
                "begin": lanes.milliseconds(max(delivery.send.begin, delivery.recv.begin)),
                "end": lanes.milliseconds(delivery.arrived),
                "load": load_of(delivery.send),
            }
            for delivery in events.deliveries
            if delivery.arrived is not None
        ],
        "collectives": [
            {
                "calls": [numbers[id(event)] for event in sorted(meeting.events, key=lambda one: one.rank)],
                "name": _name(meeting),
                "missing": list(meeting.missing) if is_odd(meeting) else [],
                "is_odd": is_odd(meeting),
                "is_ddps": meeting.events[0].call == DDP,
            }
            for meeting in events.meetings
        ],
        "phases": [
            {
                "rank": phase.rank,
                "label": phase.label,
                "begin": lanes.milliseconds(phase.begin),
                "end": lanes.milliseconds(lanes.stop if phase.end is None else phase.end),
            }
            for mine in phases.by_rank
            for phase in mine
        ],
        "computing": [gap for rank in range(events.world_size) for gap in lanes.computing(rank, events.gaps(rank))],
        "warnings": _warnings(events, lanes.never),
        "notes": [f"{count(sum(events.dropped), 'older call')} left out."] * any(events.dropped),
        **_about_clocks(events),
    }


def _about_clocks(events: Events) -> dict[str, str]:
    """A caption, if the ranks ran on several machines."""
    nodes, errors = list(events.clock_errors), sorted(events.clock_errors.values())
    if len(nodes) < 2:
        return {}
    where = joined(nodes) if len(nodes) <= 3 else f"the {len(nodes)} nodes"
    return {"caption": f"Between {where}, times may be off by up to {_rounded_up(1e3 * sum(errors[-2:]))} ms."}


def _rounded_up(value: float) -> str:
    """To one digit: 0.4 for 0.32."""
    unit = 10.0 ** math.floor(math.log10(value))
    return f"{math.ceil(value / unit) * unit:g}"


def load_of(event: Event) -> str:
    """What a message holds, if it is known and short, else how much that is."""
    return (event.values and show_values(event.values)) or show_bytes(event.bytes)


@dataclass(frozen=True)
class _Stretch:
    begin: float
    end: float
    look: str  # "wait", "move", "never"; of what goes on in the background "open", "travel"; "call"
    row: int = 0


class _Lanes:
    """When each call began and ended, which part of it was waiting, and in which part data moved."""

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

    def computing(self, rank: int, gaps: Sequence[Gap]) -> Iterator[list[float]]:
        """Stretches between calls: the rank, from when, until when, and in which part of that time it was on a CPU."""
        for begin, end, on_cpu in gaps:
            share = round(min(on_cpu / (end - begin), 1.0), 2) if end > begin else 0.0
            if share > 0 and end > self.start and begin < self.stop:
                yield [rank, self.milliseconds(begin), self.milliseconds(min(end, self.stop)), share]

    def describe(self, event: Event, step: int) -> dict[str, Any]:
        arrow = {"send": " →", "recv": " ←"}.get(event.operation, "")
        peer = ("any" if event.peer is None else str(event.peer)) if arrow else ""
        end = self._end(event)
        parts = self._parts(event)
        about = {
            "rank": event.rank,
            "name": f"{name_call(event)}{arrow}{' ' * bool(peer)}{peer}",
            "kind": "message" if arrow else "ddp" if event.call == DDP else "collective",
            "step": step,
            "begin": self.milliseconds(event.begin),
            "end": self.milliseconds(end),
            "parts": parts,
            "load": load_of(event),
            "place": event.place,
            "waited": _sum_of(parts, "wait", "never", *["move"] * self._is_in_background(event)),
            "moved": _sum_of(parts, "travel" if self._is_in_background(event) else "move"),
        }
        return about | ({"state": state} if (state := self._state(event)) else {})

    def _parts(self, event: Event) -> list[list[Any]]:
        """Those that go on after the first moment that is shown."""
        parts: list[list[Any]] = [
            [self.milliseconds(one.begin), self.milliseconds(one.end), one.look, one.row]
            for one in self._stretches(event)
        ]
        return [part for part in parts if part[1] > 0] or parts[-1:]

    def _state(self, event: Event) -> str:
        if event.error:
            return how_it_failed(event)
        if id(event) in self.never:
            return "waits forever"
        return "not over" if event.end is None else ""

    def _stop(self, events: Events, moments: Sequence[float]) -> float:
        """When the function had returned on all ranks. What waits forever goes on a little after the hang; all else
        that was not over, until the rank was asked."""
        last = max([self.start, *moments, *(_last_known(event) for event in events)])
        returned = [end for rank in range(events.world_size) for _, end, _ in events.gaps(rank)[-1:]]
        pending = [event for event in events if event.end is None and not event.error]
        if pending and all(id(event) in self.never or event.waited is None for event in pending):
            return last + 0.35 * (last - self.start) if last > self.start else events.until
        return max(last, events.until) if pending else max([last, *returned])

    def _end(self, event: Event) -> float:
        if event.end is not None:  # the call may be back long after the message has arrived
            return max(min(event.end, self._arrived.get(id(event), event.end)), event.begin)
        return _last_known(event) if event.error else self.stop

    def _is_in_background(self, event: Event) -> bool:
        if event.is_blocking:
            return False
        end = self._end(event)
        return min(end, end if event.waited is None else event.waited) - event.issued >= SHORTEST_SECONDS

    def _stretches(self, event: Event) -> list[_Stretch]:
        end, row = self._end(event), self._rows[id(event)]
        moves = min(max(self._moves_from.get(id(event), event.begin), event.begin), end)
        waiting = "never" if id(event) in self.never else "wait"
        if not self._is_in_background(event):
            both = [_Stretch(event.begin, moves, waiting, row), _Stretch(moves, end, "move", row)]
            return [one for one in both if one.end > one.begin] or both[1:]
        stretches = [_Stretch(event.begin, moves, "open", row), _Stretch(moves, end, "travel", row)]
        if event.waited is not None:
            since = min(event.waited, end)
            stretches.append(_Stretch(since, max(moves, since), waiting))
            stretches.append(_Stretch(max(moves, since), end, "move"))
        kept = [one for one in stretches if one.end > one.begin]
        return [_Stretch(event.begin, max(min(event.issued, end), event.begin), "call"), *kept]

    def _rows_of(self, events: Sequence[Event]) -> dict[int, int]:
        """Row 0 is the lane itself. What goes on in the background, or in another thread, has the first free row."""
        free = [-math.inf] * (MOST_ROWS + 1)
        rows = {}
        for event in events:
            first = 1 if self._is_in_background(event) else 0
            row = next((row for row in range(first, MOST_ROWS + 1) if free[row] <= event.begin), MOST_ROWS)
            free[row] = max(free[row], self._end(event))
            rows[id(event)] = row
        return rows


def _sum_of(parts: Sequence[list[Any]], *looks: str) -> float:
    return float(round(sum(end - begin for begin, end, look, _ in parts if look in looks), 3))


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


def _name(meeting: Meeting) -> str:
    names = list(dict.fromkeys(name_call(event) for event in meeting.events))
    return " / ".join(names[:2]) + (" !" if is_odd(meeting) else "")


def _warnings(events: Events, never: Set[int]) -> list[dict[str, Any]]:
    """What to say of a lane: how the first call of the rank that went wrong stood."""
    mixed = [meeting for meeting in events.meetings if is_odd(meeting)]
    odd = {id(event): meeting for meeting in mixed for event in meeting.events}
    said = []
    for rank in range(events.world_size):
        wrong = [event for event in events.of(rank) if event.error or event.end is None]
        if wrong:
            first = next((event for event in wrong if id(event) in never), wrong[0])
            more = f" (+{len(wrong) - 1})" * (len(wrong) > 1)
            said.append({"rank": rank, "text": _warning(first, odd.get(id(first)), id(first) in never) + more})
    return said


def _warning(event: Event, meeting: Meeting | None, is_forever: bool) -> str:
    partner = "" if event.peer is None else f" {'to' if event.operation == 'send' else 'from'} {event.peer}"
    if event.error:
        return f"{name_call(event)}{partner} {how_it_failed(event)}"
    if event.waited is None:
        return f"{name_call(event)}{partner}: no wait()"
    missing = ", ".join(map(str, meeting.missing)) if meeting else ""
    waits = f"waits{' forever' * is_forever} in {name_call(event)}{partner}"
    return waits + f" for rank {missing}" * (0 < len(missing) < 9)
