"""The timeline of a launch: a lane for each rank, by steps or by time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from ddp_lessons.record.events import Events
from ddp_lessons.run.diagnosis.waits import never_ending
from ddp_lessons.run.diagnosis.wording import count
from ddp_lessons.show.figures.drawing import Drawing
from ddp_lessons.show.figures.figure import Figure
from ddp_lessons.show.figures.formats import events_of, name_recording
from ddp_lessons.show.figures.layouts import WIDTHS, layouts_of, write_figure
from ddp_lessons.show.timelines.text_steps import draw_steps, summary
from ddp_lessons.show.timelines.timeline_calls import Timeline, timeline_of
from ddp_lessons.show.timelines.timeline_drawing import draw_by_steps, draw_by_time
from ddp_lessons.show.timelines.told_phases import phases_of, tell_phases

NOTHING = "Nothing was recorded: no rank called torch.distributed, or launch was given record=False."
NO_CALLS = "No torch.distributed calls were recorded."
MOST_CALLS = 500  # of all ranks
MOST_FOR_ALL_WIDTHS, WIDEST = 120, 1060.0
SHOWN = {"steps": "Steps", "time": "Time"}
HINT = "Hover over a call or tap it for details. After Tab, the arrow keys move from call to call."
BETWEEN_CALLS = "In the time view, a gray bar means that a rank is computing, and a thin line that it isn't."


def timeline(results: Any, title: str | None = None, axis: str | None = None) -> Figure:
    """Draw a lane for each rank, with its torch.distributed calls from start to end.

    Pass what `launch` returned, or the exception that it raised: then the figure shows the calls that never completed.
    The phases that ranks logged (`tell("forward")`) are drawn above their calls. If there are very many calls, only the
    newest are drawn.

    Args:
        results: what `launch` returned or, to see the calls that never completed, the exception that it raised.
        title: a line above the figure.
        axis: "steps" gives each call a column, in the program's order; "time" shows how long it took. The figure has a
            switch for both. By default, a run under 50 ms is shown by steps.

    Raises:
        ValueError: `axis` is neither "steps" nor "time".
    """
    if axis not in (None, *SHOWN):
        raise ValueError(f'axis must be "steps" or "time", not {axis!r}')
    events, phases = events_of(results).newest(MOST_CALLS), phases_of(results)
    if not len(events) and not phases:
        return write_figure(NOTHING)
    if events.world_size < len(phases.by_rank):
        events = Events([None] * len(phases.by_rank))
    text, alt = draw_steps(events) if len(events) else NO_CALLS, _describe(events)
    if phases:
        text, alt = f"{text}\n\n{tell_phases(phases)}", f"{alt} Phases above the lanes: {', '.join(phases.labels)}."
    line = timeline_of(events, phases)
    where = name_recording(results)
    line = replace(line, notes=[*_left_out(events), *[f"This run was {where}."] * bool(where), *line.notes])
    views = {"Steps": _layouts(line, draw_by_steps, title), "Time": _layouts(line, draw_by_time, title)}
    return Figure(
        views,
        text,
        alt,
        shown=SHOWN[axis or ("steps" if line.is_short else "time")],
        data={"hint": HINT, "zooms": "Time"},
    )


def _layouts(line: Timeline, draw: Callable[[Timeline, float], Drawing], title: str | None) -> list[Drawing]:
    widths = (*WIDTHS, WIDEST) if len(line.calls) <= MOST_FOR_ALL_WIDTHS else WIDTHS[-1:]
    return layouts_of(lambda width: draw(line, width), title, widths)


def _left_out(events: Events) -> list[str]:
    if not any(events.dropped):
        return []
    older = count(sum(events.dropped), "older call")
    return [f'{older} not shown. results.events.to_chrome_trace("run.json") writes all recorded calls for Perfetto.']


def _describe(events: Events) -> str:
    pending = sum(event.end is None and not event.error for event in events)
    failed = sum(bool(event.error) for event in events)
    never = len(never_ending(events))
    facts = [f"Timeline of {summary(events)}.", BETWEEN_CALLS]
    facts += [f"{count(pending, 'call')} did not complete."] * bool(pending)
    facts += [f"{count(never, 'wait')} can never end."] * bool(never)
    facts += [f"{count(failed, 'call')} failed."] * bool(failed)
    facts += [f"{count(sum(events.dropped), 'older call')} not shown."] * any(events.dropped)
    return " ".join(facts)
