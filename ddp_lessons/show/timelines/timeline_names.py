"""What the shapes of a timeline are called, and where their labels may stand."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping

import numpy as np
import numpy.typing as npt

from ddp_lessons.record.colors import rank_color
from ddp_lessons.record.event import Delivery, Event, Meeting
from ddp_lessons.record.events import Events
from ddp_lessons.show.page.labels import Labels, Place
from ddp_lessons.show.page.picture import ALARM, FAINT, INK, ink_on, show_bytes, show_values
from ddp_lessons.show.timelines.lanes import Bar, Lanes, arrow
from ddp_lessons.show.timelines.text_steps import is_odd, name_call
from ddp_lessons.show.timelines.timeline_frame import SMALL as SIZE

NOBODY, SEVERAL = -1, -2
Columns = npt.NDArray[np.int_]  # [rank, point of the page]: the number of a name, or one of these two
MOST_CALLS = 10  # of each rank; when there are more, labels stand only where they cover nothing


def label_timeline(labels: Labels, events: Events, lanes: Lanes) -> None:
    """Collectives first, for they are the largest; then calls, then what the messages held."""
    calls = [lanes.bars[id(event)] for event in events if not event.is_collective or not event.took_part]
    is_crowded = len(calls) > MOST_CALLS * events.world_size
    arrived = [delivery for delivery in events.deliveries if delivery.arrived is not None]
    for delivery in arrived if not is_crowded else []:
        x, y = arrow(delivery, lanes)[1]
        labels.keep_free(x, y, SIZE / 2)
    for rank in range(events.world_size):
        if not events.of(rank):
            labels.put(["no calls recorded"], [Place(lanes.start, rank, (4, 0), "left", color=FAINT)], SIZE, "empty")
    numbers = {name: number for number, name in enumerate(dict.fromkeys(map(_name, events.meetings)))}
    columns = _columns(labels, events, lanes, numbers)
    for meeting in events.meetings:
        _label_collective(labels, meeting, lanes, columns, numbers[_name(meeting)])
    for bar in calls:
        _label_call(labels, bar, is_crowded)
    for delivery in arrived:
        _label_message(labels, delivery, lanes, is_crowded)


def _label_collective(labels: Labels, meeting: Meeting, lanes: Lanes, columns: Columns, number: int) -> None:
    """Inside, or beside where it reaches over no collective of another name: it would be taken for that one's."""
    text, bars = _name(meeting), _bars_of(meeting, lanes)
    rows = columns[[bar.event.rank for bar in bars]]

    def is_true(place: Place) -> bool:
        if place.shift == (0, 0) or is_odd(meeting):
            return True
        left, right = (max(int(end), 0) for end in labels.reach(text, place, SIZE))
        return bool(np.isin(rows[:, left : right + 1], [NOBODY, number]).all())

    labels.put([text], filter(is_true, _places_of_collective(labels, bars, is_odd(meeting))), SIZE, "collective")


def _name(meeting: Meeting) -> str:
    names = list(dict.fromkeys(name_call(event) for event in meeting.events))
    return " / ".join(names[:2]) + (" !" if is_odd(meeting) else "")


def _bars_of(meeting: Meeting, lanes: Lanes) -> list[Bar]:
    return sorted((lanes.bars[id(event)] for event in meeting.events), key=lambda bar: bar.event.rank)


def _columns(labels: Labels, events: Events, lanes: Lanes, numbers: Mapping[str, int]) -> Columns:
    """Each collective as the number of its name, in the columns of its bars."""
    right = int(labels.points(lanes.stop, 0)[0]) + 2
    columns = np.full((events.world_size, right), NOBODY)
    for meeting in events.meetings:
        number = numbers[_name(meeting)]
        for bar in _bars_of(meeting, lanes):
            begin, end = (int(labels.points(moment, 0)[0]) for moment in (bar.event.begin, bar.end))
            part = columns[bar.event.rank, max(begin, 0) : end + 1]
            part[:] = np.where((part == NOBODY) | (part == number), number, SEVERAL)
    return columns


def _places_of_collective(labels: Labels, bars: list[Bar], is_alarming: bool) -> Iterator[Place]:
    color = ALARM if is_alarming else INK
    top, bottom = bars[0], bars[-1]
    begin, end = max(bar.event.begin for bar in bars), min(bar.end for bar in bars)
    width, pitch = (
        labels.points(end, 0)[0] - labels.points(begin, 0)[0],
        abs(labels.points(0, 1)[1] - labels.points(0, 0)[1]),
    )
    gaps = [(a.middle + a.half, b.middle - b.half) for a, b in itertools.pairwise(bars) if _are_neighbors(a, b)]
    for part in (0.5, 0.27):  # in the middle, or above the phases of the lower rank
        for upper, lower in gaps:
            height = upper + part * (lower - upper)
            yield Place((begin + end) / 2, height, color=color, room=max(width - 3, 0))
    height = (bottom.middle - top.middle) * pitch
    middle = (top.middle + bottom.middle) / 2
    if width > SIZE + 4:
        yield Place((begin + end) / 2, middle, is_upright=True, color=color, room=height)
    end = max(bar.end for bar in bars)
    yield Place(end, middle, (6, 0), is_upright=True, color=color, room=height)
    yield Place(min(bar.event.begin for bar in bars), middle, (-6, 0), is_upright=True, color=color, room=height)
    yield Place((begin + end) / 2, top.middle - top.half, (0, 5), color=color)
    yield Place(begin, top.middle - top.half, (0, 5), "left", color=color)
    below = bottom.middle + bottom.half
    yield Place((begin + end) / 2, below, (0, -5.5), color=color)
    yield Place(bottom.end, below, (2, -5.5), "right", color=color)
    yield Place(bottom.event.begin, below, (-2, -5.5), "left", color=color)


def _are_neighbors(above: Bar, below: Bar) -> bool:
    return below.event.rank - above.event.rank == 1


def _label_call(labels: Labels, bar: Bar, is_crowded: bool) -> None:
    event = bar.event
    peer = "any" if event.peer is None else event.peer
    partner = f" {'→' if event.operation == 'send' else '←'} {peer}" * (not event.is_collective)
    texts = [f"{name_call(event)}{partner}", partner.strip()]
    if not event.took_part:
        texts = [f"{texts[0]} refused"]
    labels.put(texts, _places_of_call(labels, bar, is_crowded), SIZE, "call")


def _places_of_call(labels: Labels, bar: Bar, is_crowded: bool) -> Iterator[Place]:
    for segment in sorted(bar.segments, key=lambda segment: segment.begin - segment.end):
        height = abs(labels.points(0, bar.half * 2)[1] - labels.points(0, 0)[1])
        room = labels.points(segment.end, 0)[0] - labels.points(segment.begin, 0)[0] - 3
        if height >= SIZE + 1 and not segment.is_thin:
            color = INK if segment.is_waiting else ink_on(rank_color(bar.event.rank))
            yield Place(
                (segment.begin + segment.end) / 2, bar.middle, room=room, color=color, has_halo=segment.is_waiting
            )
    if is_crowded:
        return
    above = Place(bar.event.begin, bar.middle - bar.half, (0, 5), "left")
    below = Place(bar.event.begin, bar.middle + bar.half, (0, -5.5), "left")
    is_arrow_below = bar.event.peer is None or bar.event.peer > bar.event.rank
    yield from (above, below) if is_arrow_below else (below, above)
    yield Place((bar.event.begin + bar.end) / 2, bar.middle - bar.half, (0, 5))


def _label_message(labels: Labels, delivery: Delivery, lanes: Lanes, is_crowded: bool) -> None:
    sender, receiver = lanes.bars[id(delivery.send)], lanes.bars[id(delivery.recv)]
    text = load_of(delivery.send)
    places = [
        Place(
            sender.moves_from + part * (receiver.end - sender.moves_from),
            sender.middle + part * (receiver.middle - sender.middle),
            shift,
            "left",
        )
        for part in (0.5, 0.35, 0.65)
        for shift in ((4, 0), (-4 - 7 * len(text) / 2, 0))
    ]
    labels.put([text], [] if is_crowded else places, SIZE, "message")


def load_of(event: Event) -> str:
    """What a message holds, if it is known and short, else how much that is."""
    return (event.values and show_values(event.values)) or show_bytes(event.bytes)
