"""What surrounds the shapes of a timeline: lanes with the names of the ranks, the times, warnings, and the key."""

from __future__ import annotations

from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import MaxNLocator

from ddp_lessons.record.colors import rank_color
from ddp_lessons.record.event import Event, Meeting
from ddp_lessons.record.events import Events
from ddp_lessons.show.page.picture import (
    ALARM,
    BAND,
    COLLECTIVE,
    DDPS_OWN,
    FAINT,
    HATCH,
    HATCH_FOR_EVER,
    INK,
    LINE,
    PAPER,
    count,
    new_figure,
    text_size,
)
from ddp_lessons.show.timelines.lanes import Lanes
from ddp_lessons.show.timelines.text_steps import DDP, how_it_failed, is_odd, name_call

WIDTH, LEFT, RIGHT, BOTTOM = 9.6, 0.78, 0.15, 0.72  # inches
SMALL = 7.5  # points
PHASES_NEED, KEY_OF_PHASES = 1.4, 0.2  # times the height of a lane; inches below


def draw_frame(events: Events, lanes: Lanes, title: str | None, has_phases: bool = False) -> tuple[Figure, Axes]:
    """Lanes that wait for their shapes; higher ones, with a second key, where phases are drawn above the calls."""
    ranks, warnings = events.world_size, _warnings(events, lanes)
    pitch = min(0.66, max(0.37, 3.4 / ranks)) * (PHASES_NEED if has_phases else 1)
    below = BOTTOM + KEY_OF_PHASES * has_phases
    right = max((text_size(text, SMALL)[0] / 72 + 0.2 for text in warnings.values()), default=RIGHT)
    height = (0.36 if title else 0.1) + ranks * pitch + below
    wide = WIDTH - LEFT - right
    figure = new_figure(WIDTH, height)
    axes = figure.add_axes((LEFT / WIDTH, below / height, wide / WIDTH, ranks * pitch / height))
    axes.set(xlim=(lanes.start, lanes.stop), ylim=(ranks - 0.5, -0.5))
    axes.set_title(title or "", loc="left", fontsize=10, weight="bold", parse_math=False)
    _draw_lanes(axes, ranks, -7 / 72 / wide)
    _name_times(axes, lanes)
    for rank, warning in warnings.items():
        style: dict[str, Any] = {"fontsize": SMALL, "color": ALARM, "va": "center", "parse_math": False}
        axes.text(1.008, rank, warning, transform=axes.get_yaxis_transform(), gid=f"warning {rank}", **style)
    return figure, axes


def _draw_lanes(axes: Axes, ranks: int, before_axes: float) -> None:
    axes.set_yticks(range(ranks), [f"rank {rank}" for rank in range(ranks)], color=INK)
    axes.tick_params(axis="y", length=0, pad=15)
    axes.spines["left"].set_visible(False)
    for rank in range(ranks):
        axes.axhspan(rank - 0.5, rank + 0.5, color=BAND if rank % 2 == 0 else PAPER, zorder=0, lw=0)
        axes.axhline(rank, color=LINE, lw=0.8, zorder=0.5)
        style: dict[str, Any] = {"transform": axes.get_yaxis_transform(), "clip_on": False, "gid": f"color {rank}"}
        axes.plot(before_axes, rank, "s", color=rank_color(rank), ms=7, **style)


def _name_times(axes: Axes, lanes: Lanes) -> None:
    span = lanes.stop - lanes.start
    unit, size = ("seconds", 1.0) if span > 2 else ("ms", 1e-3) if span > 2e-3 else ("µs", 1e-6)
    locator = MaxNLocator(9, steps=[1, 2, 5, 10])
    ticks = [float(tick) for tick in locator.tick_values(lanes.start / size, lanes.stop / size)]
    ticks = [tick for tick in ticks if lanes.start <= tick * size <= lanes.stop]
    axes.set_xticks([tick * size for tick in ticks], [f"{tick:,.6g}" for tick in ticks])
    axes.set_xlabel(f"{unit} since the function began", loc="right", fontsize=8, labelpad=2)
    axes.tick_params(axis="x", labelsize=8, length=3)


def _warnings(events: Events, lanes: Lanes) -> dict[int, str]:
    """What to say at the end of a lane: how the first call of the rank that went wrong stood."""
    odd = {id(event): meeting for meeting in events.meetings if is_odd(meeting) for event in meeting.events}
    said = {}
    for rank in range(events.world_size):
        wrong = [event for event in events.of(rank) if event.error or event.end is None]
        if wrong:
            first = next((event for event in wrong if lanes.bars[id(event)].is_for_ever), wrong[0])
            said[rank] = _warning(first, odd.get(id(first)), lanes.bars[id(first)].is_for_ever)
            said[rank] += f" (+{len(wrong) - 1})" * (len(wrong) > 1)
    return said


def _warning(event: Event, meeting: Meeting | None, is_for_ever: bool) -> str:
    partner = "" if event.peer is None else f" {'to' if event.operation == 'send' else 'from'} {event.peer}"
    if event.error:
        return f"{name_call(event)}{partner} {how_it_failed(event)}"
    if event.waited is None:
        return f"{name_call(event)}{partner}: no wait()"
    missing = ", ".join(map(str, meeting.missing)) if meeting else ""
    return f"waits{' for ever' * is_for_ever} in {name_call(event)}{partner}" + f" for rank {missing}" * (
        0 < len(missing) < 9
    )


def draw_key(figure: Figure, events: Events, lanes: Lanes, left_out: int) -> None:
    """Explain the signs that occur, and say what there was no room for."""
    key = _signs(events, lanes)
    style: dict[str, Any] = {"frameon": False, "fontsize": 8, "handlelength": 1.8, "columnspacing": 1.4}
    place = (LEFT / WIDTH - 0.006, 0.0)
    figure.legend(key.values(), key.keys(), loc="lower left", bbox_to_anchor=place, ncols=len(key), **style)
    notes = [f"{count(left_out, 'label')} left out"] * bool(left_out)
    notes += [f"{count(sum(events.dropped), 'older call')} left out"] * any(events.dropped)
    where = 1 - RIGHT / WIDTH, 0.08 / figure.get_figheight()
    figure.text(*where, "; ".join(notes), fontsize=8, color=FAINT, ha="right", gid="notes")


def _signs(events: Events, lanes: Lanes) -> dict[str, Any]:
    bars = lanes.bars.values()
    collectives = {event.call == DDP for event in events if event.is_collective}
    occurs = {
        "moving": any(not part.is_waiting for bar in bars if not bar.event.is_collective for part in bar.segments),
        "waiting for another rank": any(part.is_waiting and not b.is_for_ever for b in bars for part in b.segments),
        "waiting for ever": any(bar.is_for_ever for bar in bars),
        "thin: the rank goes on": any(segment.is_thin for bar in bars for segment in bar.segments),
        "message": bool(events.deliveries),
        "collective": False in collectives,
        "DDP's own": True in collectives,
        "not over": any(bar.is_open and not bar.is_for_ever for bar in bars),
        "failed": any(event.error for event in events),
    }
    signs = {
        "moving": Patch(facecolor=FAINT, alpha=0.7),
        "waiting for another rank": Patch(facecolor=PAPER, edgecolor=FAINT, hatch=HATCH),
        "waiting for ever": Patch(facecolor=PAPER, edgecolor=ALARM, hatch=HATCH_FOR_EVER),
        "thin: the rank goes on": Line2D([], [], color=FAINT, lw=3),
        "message": Line2D([], [], color=FAINT, lw=1.3, marker=">", ms=4),
        "collective": Patch(facecolor=COLLECTIVE),
        "DDP's own": Patch(facecolor=DDPS_OWN),
        "not over": Line2D([], [], color=ALARM, lw=0, marker=">", ms=5),
        "failed": Line2D([], [], color=ALARM, lw=0, marker="X", ms=5),
    }
    return {name: sign for name, sign in signs.items() if occurs[name]}
