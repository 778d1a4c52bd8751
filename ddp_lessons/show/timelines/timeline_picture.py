"""Who called what when: a lane per rank, time to the right.

Waiting is hatched, moving is solid. A message is an arrow, a collective one shape across its ranks.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.collections import LineCollection, PolyCollection

from ddp_lessons.record.colors import rank_color
from ddp_lessons.record.event import Event, Meeting
from ddp_lessons.record.events import Events
from ddp_lessons.show.page.labels import Labels
from ddp_lessons.show.page.picture import (
    ALARM,
    COLLECTIVE,
    DDPS_OWN,
    HATCH,
    HATCH_FOR_EVER,
    PAPER,
    Picture,
    count,
    drawn_in_house_style,
    events_of,
    write_picture,
)
from ddp_lessons.show.timelines.lanes import Bar, Lanes, Point, arrow, lay_out
from ddp_lessons.show.timelines.phases import draw_key_of_phases, draw_phases, label_phases, phases_of, tell_phases
from ddp_lessons.show.timelines.text_steps import DDP, draw_steps, is_odd, summary
from ddp_lessons.show.timelines.timeline_frame import KEY_OF_PHASES, LEFT, WIDTH, draw_frame, draw_key
from ddp_lessons.show.timelines.timeline_names import label_timeline

NOTHING = "Nothing was recorded: no rank called torch.distributed, or launch was given record=False."
NO_CALLS = "No call of torch.distributed was recorded."
MOST_CALLS = 3000  # of all ranks; more would take minutes to draw, and be too thin to see
MANY = 300  # messages, from which on arrows are thin


@drawn_in_house_style
def timeline(results: Any, title: str | None = None) -> Picture:
    """Draw a lane for each rank, with its calls of torch.distributed from beginning to end.

    Give it what `launch` returned, or the exception that it raised: then the picture shows what nobody saw complete.
    What ranks told of where they were (`tell("forward")`) stands above their calls. Of very many calls it draws the
    newest.
    """
    events, phases = events_of(results).newest(MOST_CALLS), phases_of(results)
    if not len(events) and not phases:
        return write_picture(NOTHING)
    if events.world_size < len(phases.by_rank):
        events = Events([None] * len(phases.by_rank))
    lanes = lay_out(events, [*phases.moments, *[events.until] * phases.are_open])
    figure, axes = draw_frame(events, lanes, title, bool(phases))
    draw_phases(axes, phases, lanes)
    _draw_collectives(axes, events, lanes)
    _draw_bars(axes, events, lanes)
    _draw_messages(axes, events, lanes)
    _draw_ends(axes, lanes)
    labels = Labels(axes)
    label_phases(labels, phases, lanes)
    label_timeline(labels, events, lanes)
    draw_key(figure, events, lanes, labels.left_out)
    text, alt = draw_steps(events) if len(events) else NO_CALLS, _describe(events, lanes)
    if phases:
        draw_key_of_phases(figure, phases, LEFT / WIDTH - 0.006, KEY_OF_PHASES / figure.get_figheight())
        text, alt = f"{text}\n\n{tell_phases(phases)}", f"{alt} Phases above the lanes: {', '.join(phases.labels)}."
    return Picture(figure, axes, text, alt)


def _describe(events: Events, lanes: Lanes) -> str:
    pending = sum(event.end is None and not event.error for event in events)
    failed = sum(bool(event.error) for event in events)
    facts = [f"Timeline of {summary(events)}."]
    facts += [f"{count(pending, 'call')} not over at the end."] * bool(pending)
    never = sum(bar.is_for_ever for bar in lanes.bars.values())
    facts += [f"{count(never, 'wait')} that can never end."] * bool(never)
    facts += [f"{count(failed, 'call')} failed."] * bool(failed)
    facts += [f"{count(sum(events.dropped), 'older call')} left out."] * any(events.dropped)
    return " ".join(facts)


def _draw_collectives(axes: Axes, events: Events, lanes: Lanes) -> None:
    """Each as one shape from every rank's begin to its end; darker, from where the last rank had come."""
    fair = [meeting for meeting in events.meetings if not is_odd(meeting)]
    odd = [_outline(meeting, lanes) for meeting in events.meetings if is_odd(meeting)]
    whole = [_shape(meeting, lanes, is_moving=False) for meeting in fair]
    moving = [_shape(meeting, lanes, is_moving=True) for meeting in fair]
    colors = [_collective_color(meeting.events[0]) for meeting in fair]
    edge: dict[str, Any] = {"edgecolors": colors, "lw": 0.5}
    _add_polygons(axes, whole, "collectives", facecolors=colors, alpha=0.13, lw=0, zorder=1)
    _add_polygons(axes, moving, "collectives moving", facecolors=colors, alpha=0.45, zorder=1.1, **edge)
    dashed: dict[str, Any] = {"facecolors": "none", "edgecolors": ALARM, "linestyles": "--", "lw": 1.1, "zorder": 5}
    _add_polygons(axes, odd, "collectives that did not meet", **dashed)


def _collective_color(event: Event) -> str:
    return DDPS_OWN if event.call == DDP else COLLECTIVE


def _outline(meeting: Meeting, lanes: Lanes) -> list[Point]:
    """Round all its bars."""
    bars = _bars_of(meeting, lanes)
    down = [(bar.event.begin, bar.middle + side * bar.half) for bar in bars for side in (-1, 1)]
    return down + [(bar.end, bar.middle + side * bar.half) for bar in reversed(bars) for side in (1, -1)]


def _shape(meeting: Meeting, lanes: Lanes, is_moving: bool) -> list[Point]:
    """Down along the beginnings, up along the ends. It lies behind the bars."""
    bars = _bars_of(meeting, lanes)
    down = [(bar.moves_from if is_moving else bar.event.begin, bar.middle) for bar in bars]
    return down + [(bar.end, bar.middle) for bar in reversed(bars)]


def _bars_of(meeting: Meeting, lanes: Lanes) -> list[Bar]:
    return sorted((lanes.bars[id(event)] for event in meeting.events), key=lambda bar: bar.event.rank)


def _draw_bars(axes: Axes, events: Events, lanes: Lanes) -> None:
    for rank in range(events.world_size):
        own = rank_color(rank)
        parts = [(bar, part) for bar in (lanes.bars[id(event)] for event in events.of(rank)) for part in bar.segments]
        waiting = [_box(bar, p.begin, p.end, p.is_thin) for bar, p in parts if p.is_waiting and not bar.is_for_ever]
        for_ever = [_box(bar, p.begin, p.end, p.is_thin) for bar, p in parts if p.is_waiting and bar.is_for_ever]
        moving = [_box(bar, part.begin, part.end, part.is_thin) for bar, part in parts if not part.is_waiting]
        events_moving = [bar.event for bar, part in parts if not part.is_waiting]
        colors = [_collective_color(event) if event.is_collective else own for event in events_moving]
        hatched: dict[str, Any] = {"facecolors": PAPER, "edgecolors": own, "hatch": HATCH}
        _add_polygons(axes, waiting, f"waiting {rank}", lw=0.7, zorder=2, **hatched)
        never: dict[str, Any] = {"facecolors": PAPER, "edgecolors": ALARM, "hatch": HATCH_FOR_EVER}
        _add_polygons(axes, for_ever, f"for ever {rank}", lw=0.9, zorder=2, **never)
        _add_polygons(axes, moving, f"moving {rank}", lw=0.7, zorder=3, facecolors=colors, edgecolors=colors)


def _box(bar: Bar, begin: float, end: float, is_thin: bool) -> list[Point]:
    half = bar.half * (0.4 if is_thin else 1.0)
    top, bottom = bar.middle - half, bar.middle + half
    return [(begin, top), (end, top), (end, bottom), (begin, bottom)]


def _draw_messages(axes: Axes, events: Events, lanes: Lanes) -> None:
    """An arrow each, in the sender's color, from where the message set off to where it had come."""
    arrived = [delivery for delivery in events.deliveries if delivery.arrived is not None]
    lines = [arrow(delivery, lanes) for delivery in arrived]
    colors = [rank_color(delivery.send.rank) for delivery in arrived]
    width, size = (1.3, 3.4) if len(lines) < MANY else (0.6, 2.0)
    axes.add_collection(LineCollection(lines, colors=PAPER, linewidths=width + 1.4, zorder=1.5))
    shafts = LineCollection(lines, colors=colors, linewidths=width, zorder=1.6)
    shafts.set_gid("messages")
    axes.add_collection(shafts)
    heads = [_head(axes, line, size) for line in lines]
    _add_polygons(axes, heads, "message heads", facecolors=colors, edgecolors=PAPER, lw=0.5, zorder=1.7)


def _head(axes: Axes, line: tuple[Point, Point], size: float) -> list[Point]:
    """A triangle with its tip at the line's end, of the same size and form wherever the line comes from."""
    inches: Any = axes.figure.dpi_scale_trans
    to_inches = axes.transData + inches.inverted()
    (x0, y0), (x1, y1) = to_inches.transform(line)
    length = ((x1 - x0) ** 2 + (y1 - y0) ** 2) ** 0.5 or 1
    along, across = (x1 - x0) / length * size / 72, (y1 - y0) / length * size / 72
    back = x1 - 2 * along, y1 - 2 * across
    corners = [(x1, y1), (back[0] - across, back[1] + along), (back[0] + across, back[1] - along)]
    return [(float(x), float(y)) for x, y in to_inches.inverted().transform(corners)]


def _draw_ends(axes: Axes, lanes: Lanes) -> None:
    """A sign where a call was not over, and another where it failed."""
    bars = lanes.bars.values()
    for gid, marker, ended in (
        ("not over", ">", [bar for bar in bars if bar.is_open]),
        ("failed", "X", [bar for bar in bars if bar.event.error]),
    ):
        if ended:
            style: dict[str, Any] = {"ms": 6.5, "mfc": ALARM, "mec": PAPER, "mew": 0.6, "zorder": 8, "clip_on": False}
            axes.plot([bar.end for bar in ended], [bar.middle for bar in ended], marker, gid=gid, **style)


def _add_polygons(axes: Axes, shapes: Sequence[Iterable[Point]], gid: str, **style: Any) -> None:
    collection = PolyCollection([list(shape) for shape in shapes], **style)
    collection.set_gid(gid)
    axes.add_collection(collection)
