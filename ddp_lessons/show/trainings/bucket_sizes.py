"""What the size of buckets does to a backward(): launched for real, drawn as a timeline, counted in words."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ddp_lessons.record.event import Event
from ddp_lessons.run.launch import launch
from ddp_lessons.show.controls.explorer import Explorer
from ddp_lessons.show.controls.explorer_controls import Choice, Slider
from ddp_lessons.show.figures.figure import Figure
from ddp_lessons.show.page.picture import count, show_bytes
from ddp_lessons.show.timelines.timeline_figure import timeline
from ddp_lessons.show.timelines.told_phases import phases_of

BACKWARD = "backward"  # what ranks tell when it begins
SIZES = (1, 2, 4, 8, 12, 25)
MOST_REMEMBERED = 12


@dataclass(frozen=True)
class Backward:
    """The last backward() of a launch: its calls of all_reduce on rank 0, and how far they hide behind computing."""

    seconds: float
    calls: int
    bytes: int
    travelling: float  # seconds in which a call was on its way, all ranks together
    hidden: float  # of these, before the last bucket set off: until then gradients were still being computed

    @property
    def share_hidden(self) -> float:
        return self.hidden / self.travelling if self.travelling else 0.0


def explore_buckets(
    functions: Callable[..., Any] | Mapping[str, Callable[..., Any]],
    world_size: int = 2,
    *,
    sizes: Sequence[float] = SIZES,
    size: float | None = None,
    timeout_seconds: float | None = 60.0,
) -> Explorer[Figure]:
    """Launch a training with buckets of a size that a slider gives, and draw when they were filled and sent.

    Args:
        functions: called as `function(rank, world_size, megabytes)`: it wraps a model with buckets of that size and
            trains a few steps, in each of which it says `tell("backward")` before backward(), and something else
            after it. Or a dict of several: `{"DDP": ..., "SmallDDP": ...}`.
        world_size: how many ranks.
        sizes: of the buckets, in megabytes.
        size: which of them to begin with.
        timeout_seconds: how long a launch may take.

    Raises:
        ValueError: there are no functions or no sizes, or the first size is not one of them.
    """
    by_name = dict(functions) if isinstance(functions, Mapping) else {_name(functions): functions}
    if not by_name or not sizes:
        raise ValueError("explore_buckets needs at least one function and one size")
    if size is not None and size not in sizes:
        raise ValueError(f"size={size} is none of the sizes {list(sizes)}")
    tried: dict[tuple[str, float], str] = {}

    def draw(megabytes: float, function: str = next(iter(by_name))) -> Figure:
        results = launch(by_name[function], world_size, megabytes, timeout_seconds=timeout_seconds, quiet=True)
        last = last_backward(results)
        who = f"{function}, " if len(by_name) > 1 else ""
        title = f"{who}buckets of {_show_size(megabytes)}"
        if last is None:
            nothing = f'No rank told where a backward() begins, tell("{BACKWARD}"), and where it ends: tell().'
            picture = timeline(results, title=title)
            return replace(picture, alt=f"{title}. {nothing} {picture.alt}", text=f"{picture.text}\n\n{nothing}")
        calls, took = count(last.calls, "call"), f"{1000 * last.seconds:.0f} ms"
        tried.pop((function, megabytes), None)
        before = [*tried.values()][-MOST_REMEMBERED:]
        tried[function, megabytes] = f"{who}{_show_size(megabytes)}: {calls}, {took}"
        picture = timeline(results, title=f"{title}: {calls}, the last backward() took {took}")
        sentences = [_tell(title, last), f"Tried before: {'; '.join(before)}." if before else "", picture.alt]
        counted = f"The last backward(), {title}: {calls} of all_reduce, {show_bytes(last.bytes)}."
        return replace(picture, alt=" ".join(filter(None, sentences)), text=f"{picture.text}\n\n{counted}")

    controls: dict[str, Choice] = {"function": Choice("wrapper", list(by_name))} if len(by_name) > 1 else {}
    controls["megabytes"] = Slider("bucket size", {_show_size(one): one for one in sizes}, size)
    return Explorer(draw, title="Buckets of different sizes, launched for real", controls=controls, run="Run again")


def last_backward(results: Any) -> Backward | None:
    """None: no rank logged it."""
    phases = [
        [one for one in mine if one.label == BACKWARD and one.end is not None] for mine in phases_of(results).by_rank
    ]
    if not phases or not all(phases):
        return None
    calls: list[list[Event]] = []
    for rank, mine in enumerate(phases):
        begin, end = mine[-1].begin, mine[-1].end
        assert end is not None
        own = [event for event in results.events.of(rank) if event.operation == "all_reduce"]
        calls.append([event for event in own if begin <= event.begin <= end and event.end is not None])
    times = [_seconds(own) for own in calls]
    last = phases[0][-1]
    assert last.end is not None
    return Backward(
        seconds=last.end - last.begin,
        calls=len(calls[0]),
        bytes=sum(event.bytes for event in calls[0]),
        travelling=sum(travelling for travelling, _ in times),
        hidden=sum(hidden for _, hidden in times),
    )


def _seconds(calls: Sequence[Event]) -> tuple[float, float]:
    """How long any of these was on its way, and how much of that was before the last of them set off."""
    travelling = hidden = until = 0.0
    last = max((event.begin for event in calls), default=0.0)
    for event in sorted(calls, key=lambda event: event.begin):
        assert event.end is not None
        begin, end = max(event.begin, until), max(event.end, until)
        travelling += end - begin
        hidden += max(min(end, last) - begin, 0.0)
        until = end
    return travelling, hidden


def _tell(title: str, last: Backward) -> str:
    begun = f"{title[0].upper()}{title[1:]}: in the last backward(), {1000 * last.seconds:.0f} ms,"
    if not last.calls:
        return f"{begun} no rank called all_reduce."
    told = f"{begun} rank 0 called all_reduce {count(last.calls, 'time')}."
    if last.calls == 1:
        return f"{told} Nothing is hidden: it set off when everything was computed."
    return (
        f"{told} {100 * last.share_hidden:.0f} % of the time on the way is hidden: gradients were still being computed."
    )


def _show_size(megabytes: float) -> str:
    return f"{megabytes:g} MB"


def _name(function: Callable[..., Any]) -> str:
    return getattr(function, "__name__", type(function).__name__)
