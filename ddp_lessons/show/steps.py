"""The order of events without times, and the plain-text drawing that is made of it.

A step is a logical clock: an event comes after the one before it on its rank, a recv after its send, a collective when
the last of its ranks has come. The order is the program's own, so the drawing is the same in every run.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence

from ddp_lessons.run.events import Event, Events, Meeting
from ddp_lessons.run.wording import ranks_named
from ddp_lessons.show.picture import count

DDP = "DistributedDataParallel"
MOST_RANKS, MOST_LINES, WIDTH = 32, 48, 110


def step_of_each(events: Events) -> dict[int, int]:
    """The step of every event, by the event's `id`. The first is 1."""
    lanes = [deque(sorted(events.of(rank), key=_moment_in_program)) for rank in range(events.world_size)]
    sends = {id(delivery.recv): id(delivery.send) for delivery in events.deliveries}
    meetings = {id(event): meeting for meeting in events.meetings for event in meeting.events}
    steps: dict[int, int] = {}
    clock = [0] * events.world_size

    def place(rank: int, ready: Iterable[Event]) -> None:
        together = list(ready)
        step = 1 + max(clock[event.rank] for event in together)
        for event in together:
            step = max(step, 1 + steps.get(sends.get(id(event), -1), 0))
        for event in together:
            steps[id(event)] = clock[event.rank] = step
            lanes[event.rank].remove(event)

    def ready(event: Event) -> Sequence[Event] | None:
        if not event.is_collective:
            return [event] if id(event) not in sends or sends[id(event)] in steps else None
        members = meetings[id(event)].events
        return members if all(lanes[member.rank][0] is member for member in members) else None

    while any(lanes):
        heads = [lane[0] for lane in lanes if lane]
        fitting = next((found for head in heads if (found := ready(head))), None)
        # threads of one rank may have overtaken each other: then somebody must go first
        place(heads[0].rank, fitting or [heads[0]])
    return steps


def draw_steps(events: Events) -> str:
    """Lanes per rank, a column per step."""
    ranks = range(min(events.world_size, MOST_RANKS))
    steps = step_of_each(events)
    cells = _cells(events, steps)
    last = max(steps.values(), default=0)
    blocks, shown = _blocks(cells, ranks, last)
    lines = [_headline(events)]
    for columns in blocks:
        lines.append(f"\nsteps {min(columns)} to {max(columns)}" if len(blocks) > 1 else "")
        lines += [_lane(rank, columns, cells, len(str(ranks[-1]))) for rank in ranks]
    if shown < last:
        lines += ["", f"{count(last - shown, 'further step')} left out."]
    if events.world_size > len(ranks):
        lines.append(f"Ranks {len(ranks)} to {events.world_size - 1} left out.")
    notes = _notes(events, steps)
    return "\n".join([*lines, *([""] if notes else []), *notes])


def name_call(event: Event) -> str:
    """What a learner calls it: of DDP's own all-reduces, that they are DDP's."""
    if event.call == DDP:
        return f"DDP {event.operation}"
    return event.operation if event.call == "batch_isend_irecv" else event.call


def _moment_in_program(event: Event) -> float:
    """A rank has a message when it has waited for it, not when it asked for it."""
    if event.operation == "recv" and event.waited is not None:
        return event.waited
    return event.begin


def _cells(events: Events, steps: Mapping[int, int]) -> dict[tuple[int, int], str]:
    odd = {id(event) for meeting in events.meetings if is_odd(meeting) for event in meeting.events}
    return {(event.rank, steps[id(event)]): _cell(event, id(event) in odd) for event in events}


def _cell(event: Event, is_odd: bool) -> str:
    peer = "?" if event.peer is None else event.peer
    arrow = {"send": f"->{peer}", "recv": f"<-{peer}"}.get(event.operation, "")
    mark = " failed" if event.error else " ..." if event.end is None else ""
    return f"{name_call(event)}{arrow}{mark}{' !' if is_odd else ''}"


def is_odd(meeting: Meeting) -> bool:
    """Not everyone came to the same collective, and so it never ended."""
    mixed = len({event.operation for event in meeting.events}) > 1
    return mixed or (bool(meeting.missing) and any(event.end is None or event.error for event in meeting.events))


def _blocks(cells: Mapping[tuple[int, int], str], ranks: range, last: int) -> tuple[list[dict[int, int]], int]:
    """Columns and their widths, in blocks that fit side by side, and how many steps that shows."""
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


def _headline(events: Events) -> str:
    return f"{summary(events)}; a column is a step in their order, not a time."


def summary(events: Events) -> str:
    things = ((len(events.deliveries), "message"), (len(events.meetings), "collective"))
    return ", ".join([count(events.world_size, "rank"), *(count(number, thing) for number, thing in things if number)])


def _notes(events: Events, steps: Mapping[int, int]) -> list[str]:
    notes = [_about(meeting, steps[id(meeting.events[0])]) for meeting in events.meetings if is_odd(meeting)]
    if any(event.end is None and not event.error for event in events):
        never = sorted({event.rank for event in events.never_ending})
        notes.append("... was not over when the launch ended")
        notes[-1] += f"; {ranks_named(never)} waited for ever." if never else "."
    return notes + [f"Rank {rank} dropped {count(n, 'older call')}." for rank, n in enumerate(events.dropped) if n]


def _about(meeting: Meeting, step: int) -> str:
    came = "; ".join(f"rank {event.rank} came to {name_call(event)}" for event in meeting.events)
    missing = f"; {ranks_named(meeting.missing)} never came" if meeting.missing else ""
    return f"! at step {step}: {came}{missing}."
