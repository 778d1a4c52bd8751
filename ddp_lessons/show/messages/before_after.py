"""What a collective does: the tensors of every rank before and after it, from a real run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from ddp_lessons.record.colors import rank_color
from ddp_lessons.run.diagnosis.failures import WorkerFailed, WorkersStuck
from ddp_lessons.run.launch import launch
from ddp_lessons.show.messages.collective_examples import EXAMPLES, HAVE_A_ROOT, ROOT, Held, run_example
from ddp_lessons.show.page.boxes import draw_arrow, name_column, name_row, tint
from ddp_lessons.show.page.picture import (
    COLLECTIVE,
    FAINT,
    INK,
    Picture,
    count,
    drawn_in_house_style,
    new_figure,
    text_size,
)
from ddp_lessons.show.timelines.timeline_picture import timeline

LEFT, HEAD, BAND_HEIGHT, FOOT = 52.0, 26.0, 40.0, 8.0  # points
CELL, BETWEEN = 17.0, 5.0  # a number's height, and the room between two tensors
ALT_OF_BARRIER = "Timeline of a barrier: each rank comes at its own time, and nobody goes on before the last has come."


@drawn_in_house_style
def collective(name: str, world_size: int = 4) -> Picture:
    """Run a collective on a few numbers, here and now, and draw what every rank held before and after it.

    A number has the color of the rank that brought it; what was computed from several is grey.
    `barrier` moves nothing: its picture shows when each rank came and went.

    Raises:
        ValueError: there is no collective of this name; the message lists those that there are.
        RuntimeError: the backend here, or this version of torch, cannot do it.
    """
    if name not in EXAMPLES:
        raise ValueError(f"no collective has the name {name!r}; these have: {', '.join(EXAMPLES)}")
    try:
        results = launch(run_example, world_size, name, quiet=True)
    except (WorkerFailed, WorkersStuck) as failure:
        why = str(failure).splitlines()[0]
        raise RuntimeError(
            f"{name} does not work with the backend or the torch that there are here: {why}"
        ) from failure
    if name == "barrier":
        picture = timeline(results, "barrier")
        return Picture(picture.figure, picture.axes, _text_of_barrier(results.events), ALT_OF_BARRIER)
    before, after = [pair[0] for pair in results], [pair[1] for pair in results]
    figure, axes = _draw(name, before, after)
    alt = f"{_title(name)}: the tensors of {count(world_size, 'rank')} before and after."
    return Picture(figure, axes, _text(name, before, after), alt)


def _text_of_barrier(events: Any) -> str:
    last = max(event.begin for event in events)
    early = sum(event.end is not None and event.end < last for event in events)
    came = [f"rank {rank} | barrier" for rank in range(events.world_size)]
    return "\n".join([*came, "", f"{early or 'None'} of them left before the last had come."])


def _title(name: str) -> str:
    return name + ", sum" * ("reduce" in name) + f", root: rank {ROOT}" * (name in HAVE_A_ROOT)


def _instead(name: str) -> str:
    """What a rank without a result has. After reduce, its tensor holds something, but nobody says what."""
    return "undefined" if name == "reduce" else "nothing"


def _draw(name: str, before: Sequence[Held], after: Sequence[Held]) -> tuple[Figure, Axes]:
    """The axes count in points. A column for each rank; a tensor is a stack of cells."""
    ranks = len(before)
    longest = max(text_size(str(number), 9)[0] for held in (*before, *after) for tensor in held for number in tensor)
    widest = (9.6 * 72 - LEFT) / ranks
    cell = min(max(longest + 12, 34), widest - 4)
    pitch = min(max(cell + 30, 66), widest)
    above, below = max(map(_height, before)), max(map(_height, after))
    width, height = LEFT + ranks * pitch, HEAD + above + BAND_HEIGHT + below + FOOT
    figure = new_figure(width / 72, height / 72)
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set(xlim=(0, width), ylim=(height, 0))
    axes.set_axis_off()
    middles = HEAD + above / 2, height - FOOT - below / 2
    origins = {number: rank for rank, held in enumerate(before) for tensor in held for number in tensor}
    for y, when in zip(middles, ("before", "after"), strict=True):
        name_row(axes, 4, y, when)
    for rank in range(ranks):
        x = LEFT + (rank + 0.5) * pitch
        name_column(axes, x, HEAD / 2, rank, rank_color(rank), 9, "rank " if ranks <= 10 else "")
        _draw_held(axes, before[rank], (x, middles[0]), cell, origins, f"before {rank}")
        known = {} if "reduce" in name else origins
        _draw_held(axes, after[rank], (x, middles[1]), cell, known, f"after {rank}", _instead(name))
    _draw_name(axes, _title(name), (LEFT, width), HEAD + above + BAND_HEIGHT / 2)
    return figure, axes


def _height(held: Held) -> float:
    return max(sum(len(tensor) * CELL for tensor in held) + BETWEEN * (len(held) - 1), CELL)


def _draw_held(
    axes: Axes,
    held: Held,
    middle: tuple[float, float],
    cell: float,
    origins: dict[Any, int],
    gid: str,
    instead: str = "nothing",
) -> None:
    """A number has the color of the rank that it comes from, if one rank brought it."""
    style: dict[str, Any] = {"ha": "center", "va": "center_baseline", "parse_math": False}
    if not held:
        axes.text(*middle, instead, fontsize=7.5, color=FAINT, gid=gid, **style)
    x, y = middle[0], middle[1] - _height(held) / 2
    for number, tensor in enumerate(held):
        for value in tensor:
            color = rank_color(origins[value]) if value in origins else COLLECTIVE
            box = Rectangle((x - cell / 2, y), cell, CELL, facecolor=tint(color), edgecolor=color, lw=1)
            box.set_gid(f"{gid} {number}")
            axes.add_patch(box)
            axes.text(x, y + CELL / 2, str(value), fontsize=min(9, cell / 3.2), color=INK, **style)
            y += CELL
        y += BETWEEN


def _draw_name(axes: Axes, title: str, span: tuple[float, float], y: float) -> None:
    """The name on a bar across all ranks: they call it together."""
    left, right = span
    bar = Rectangle((left + 4, y - 9), right - left - 8, 18, facecolor=COLLECTIVE, gid="collective", zorder=2)
    axes.add_patch(bar)
    axes.text((left + right) / 2, y, title, ha="center", va="center_baseline", color="white", fontsize=9, zorder=3)
    draw_arrow(axes, ((left + right) / 2, y + 9), ((left + right) / 2, y + 20), COLLECTIVE, "onward")


def _text(name: str, before: Sequence[Held], after: Sequence[Held]) -> str:
    """A line for each rank; tensors in brackets."""
    lines = [["", "before", "after"]]
    for rank, (held, got) in enumerate(zip(before, after, strict=True)):
        lines.append([f"rank {rank}", _show(held) or "nothing", _show(got) or _instead(name)])
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    table = [" | ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines]
    return "\n".join([_title(name), *table])


def _show(held: Held) -> str:
    return " ".join("[" + " ".join(map(str, tensor)) + "]" for tensor in held)
