"""The order of events without their times, and its plain-text drawing.

Steps are a logical clock: an event comes after the previous one of its rank, a recv after its send, and a collective
after the last rank has called it. The program determines the order, so the drawing is the same in every run.
"""

from __future__ import annotations

import itertools
from collections import defaultdict, deque
from collections.abc import Mapping, Sequence

from ddp_lessons.record.event import Event, Meeting
from ddp_lessons.record.events import Events
from ddp_lessons.run.diagnosis.waits import never_ending
from ddp_lessons.run.diagnosis.wording import count, ranks_named

DDP = "DistributedDataParallel"
MOST_RANKS, MOST_LINES, WIDTH = 32, 48, 110


def step_of_each(events: Events) -> dict[int, int]:
    """Return the step of each event, by the event's `id`. The first step is 1."""
    order = _Order(events)
    while (together := order.next()) is not None:
        order.place(together)
    return order.steps


class _Order:
    """Finds the events that come next, while steps are assigned."""

    def __init__(self, events: Events) -> None:
        self.steps: dict[int, int] = {}
        self._clock = [0] * events.world_size
        self._sends = {id(delivery.recv): id(delivery.send) for delivery in events.deliveries}
        self._members = {id(event): meeting.events for meeting in events.meetings for event in meeting.events}
        by_rank = (sorted(events.of(rank), key=_moment_in_program) for rank in range(events.world_size))
        self._lanes = [deque(lane) for lane in by_rank]
        self._threads: dict[tuple[int, str], deque[Event]] = defaultdict(deque)
        for event in itertools.chain.from_iterable(self._lanes):
            self._threads[event.rank, event.thread].append(event)

    def next(self) -> Sequence[Event] | None:
        """The events of the next step, or None at the end."""
        lanes = [lane for lane in map(self._unplaced, self._lanes) if lane]
        if not lanes:
            return None
        is_first = {id(lane[0]) for lane in lanes}
        for lane in lanes:
            if found := self._ready(lane[0], is_first):
                return found
        # each thread of a rank has its own order
        heads = [thread[0] for thread in map(self._unplaced, self._threads.values()) if thread]
        is_first = set(map(id, heads))
        found = next((found for head in heads if (found := self._ready(head, is_first))), None)
        return found or [lanes[0][0]]  # threads that share a group may have overtaken each other: one goes first

    def place(self, together: Sequence[Event]) -> None:
        step = max(self._clock[event.rank] for event in together)
        step = 1 + max(step, *(self.steps.get(self._sends.get(id(event), -1), 0) for event in together))
        for event in together:
            self.steps[id(event)] = self._clock[event.rank] = step

    def _unplaced(self, lane: deque[Event]) -> deque[Event]:
        while lane and id(lane[0]) in self.steps:
            lane.popleft()
        return lane

    def _ready(self, event: Event, is_first: set[int]) -> Sequence[Event] | None:
        if not event.is_collective:
            return [event] if id(event) not in self._sends or self._sends[id(event)] in self.steps else None
        # torch rejected a call that has no partner
        members = [one for one in self._members.get(id(event), [event]) if id(one) not in self.steps]
        return members if all(id(member) in is_first for member in members) else None


def draw_steps(events: Events) -> str:
    """Draw a lane for each rank, with a column for each step."""
    ranks = range(min(events.world_size, MOST_RANKS))
    steps = step_of_each(events)
    cells = _cells(events, steps)
    last = max(steps.values(), default=0)
    blocks, shown = _blocks(cells, ranks, last)
    lines = [f"{summary(events)}; columns show the order of the calls, not their times."]
    for columns in blocks:
        lines.append(f"\nsteps {min(columns)} to {max(columns)}" if len(blocks) > 1 else "")
        lines += [_lane(rank, columns, cells, len(str(ranks[-1]))) for rank in ranks]
    if shown < last:
        lines += ["", f"{count(last - shown, 'more step')} not shown."]
    if events.world_size > len(ranks):
        lines.append(f"Ranks {len(ranks)} to {events.world_size - 1} are not shown.")
    notes = _notes(events, steps)
    return "\n".join([*lines, *([""] if notes else []), *notes])


def name_call(event: Event) -> str:
    """The name of a call for learners, which marks DDP's own all-reduces."""
    if event.call == DDP:
        return f"DDP {event.operation}"
    return event.operation if event.call == "batch_isend_irecv" else event.call


def how_it_failed(event: Event) -> str:
    """ "refused" if torch raised an error before anything was sent, else "failed"."""
    return "failed" if event.took_part else "refused"


def _moment_in_program(event: Event) -> float:
    """A recv counts from its wait(), because only then is the message there."""
    if event.operation == "recv" and event.waited is not None:
        return event.waited
    return event.begin


def _cells(events: Events, steps: Mapping[int, int]) -> dict[tuple[int, int], str]:
    odd = {id(event) for meeting in events.meetings if is_odd(meeting) for event in meeting.events}
    return {(event.rank, steps[id(event)]): _cell(event, id(event) in odd) for event in events}


def _cell(event: Event, is_odd: bool) -> str:
    peer = "?" if event.peer is None else event.peer
    arrow = {"send": f"->{peer}", "recv": f"<-{peer}"}.get(event.operation, "")
    mark = f" {how_it_failed(event)}" if event.error else " ..." if event.end is None else ""
    return f"{name_call(event)}{arrow}{mark}{' !' if is_odd else ''}"


def is_odd(meeting: Meeting) -> bool:
    """Whether the collective never completed because ranks called different ones or none."""
    mixed = len({event.operation for event in meeting.events}) > 1
    return mixed or (bool(meeting.missing) and any(event.end is None or event.error for event in meeting.events))


def _blocks(cells: Mapping[tuple[int, int], str], ranks: range, last: int) -> tuple[list[dict[int, int]], int]:
    """Columns and their widths, in blocks that fit into a line, and the number of steps shown."""
    blocks: list[dict[int, int]] = [{}]
    for step in range(1, last + 1):
        width = max((len(cells.get((rank, step), "")) for rank in ranks), default=0) or 1
        if blocks[-1] and sum(blocks[-1].values()) + 3 * len(blocks[-1]) + width > WIDTH:
            if (len(blocks) + 1) * len(ranks) > MOST_LINES:
                return blocks, step - 1
            blocks.append({})
        blocks[-1][step] = width
    return blocks, last


def _lane(rank: int, columns: Mapping[int, int], cells: Mapping[tuple[int, int], str], digits: int) -> str:
    row = " | ".join(cells.get((rank, step), "").ljust(width) for step, width in columns.items())
    return f"rank {rank:<{digits}} | {row}".rstrip(" |") if row.strip(" |") else f"rank {rank:<{digits}} |"


def summary(events: Events) -> str:
    things = ((len(events.deliveries), "message"), (len(events.meetings), "collective"))
    return ", ".join([count(events.world_size, "rank"), *(count(number, thing) for number, thing in things if number)])


def _notes(events: Events, steps: Mapping[int, int]) -> list[str]:
    notes = [_about(meeting, steps[id(meeting.events[0])]) for meeting in events.meetings if is_odd(meeting)]
    if any(event.end is None and not event.error for event in events):
        never = sorted({event.rank for event in never_ending(events)})
        notes.append("... had not completed when the launch ended")
        notes[-1] += f"; {ranks_named(never)} waited forever." if never else "."
    return notes + [f"{count(n, 'older call')} of rank {rank} not shown." for rank, n in enumerate(events.dropped) if n]


def _about(meeting: Meeting, step: int) -> str:
    called = "; ".join(f"rank {event.rank} called {name_call(event)}" for event in meeting.events)
    missing = f"; {ranks_named(meeting.missing)} never called it" if meeting.missing else ""
    return f"! at step {step}: {called}{missing}."
