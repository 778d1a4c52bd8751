"""What the ranks told of where they were: tell("forward"), tell("backward"), as bars above the lanes of a timeline.

A phase lasts from its label to the next one of the same rank; tell("") ends it, and so does the end of the launch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection
from matplotlib.colors import to_hex, to_rgb
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from ddp_lessons.show.page.labels import Labels, Place
from ddp_lessons.show.page.picture import FAINT, INK, LINE, PAPER, SHADES, TRAFFIC, count, ink_on, text_size
from ddp_lessons.show.timelines.lanes import Lanes

TOP, BOTTOM = -0.49, -0.3  # of a lane, whose middle is 0: there is nothing of its calls
SIZE = 7.5
MOST_IN_KEY = 8
LONGEST_LINE = 100
MANY = 40  # of one rank, from which on no gap is left between them


@dataclass(frozen=True)
class Phase:
    """A stretch in which a rank was somewhere; None: until the end."""

    rank: int
    label: str
    begin: float
    end: float | None


@dataclass(frozen=True)
class Phases:
    """Those of all ranks, each rank's in their order."""

    by_rank: Sequence[Sequence[Phase]]

    @property
    def labels(self) -> list[str]:
        """Each once, in the order of their first times, rank by rank."""
        return list(dict.fromkeys(phase.label for phases in self.by_rank for phase in phases))

    @property
    def moments(self) -> list[float]:
        ends = [(phase.begin, phase.end) for phases in self.by_rank for phase in phases]
        return [moment for pair in ends for moment in pair if moment is not None]

    @property
    def are_open(self) -> bool:
        return any(phases and phases[-1].end is None for phases in self.by_rank)

    def __bool__(self) -> bool:
        return any(self.by_rank)


def phases_of(results: Any) -> Phases:
    """Those of results, or of an exception that carries some; none, where nothing was told."""
    told: Sequence[Sequence[Any]] = getattr(getattr(results, "results", results), "told", ())
    return Phases([_phases(rank, by_rank) for rank, by_rank in enumerate(told)])


def _phases(rank: int, told: Sequence[Any]) -> list[Phase]:
    # numbers alone do not say where the rank is
    marks = [one for one in told if one.label or not one.numbers]
    ends = [*(one.seconds for one in marks), None][1:]
    pairs = zip(marks, ends, strict=False)
    return [Phase(rank, _printable(one.label), one.seconds, end) for one, end in pairs if one.label]


def _printable(label: str) -> str:
    return "".join(letter if letter.isprintable() else " " for letter in label)


def draw_phases(axes: Axes, phases: Phases, lanes: Lanes) -> None:
    colors = _colors(phases)
    for rank, mine in enumerate(phases.by_rank):
        if mine:
            boxes = [_box(phase, lanes) for phase in mine]
            gap = 0.8 if len(mine) < MANY else 0.0
            fill = [colors[phase.label] for phase in mine]
            edges = PAPER if gap else fill
            style: dict[str, Any] = {"facecolors": fill, "edgecolors": edges, "linewidths": gap or 0.2, "zorder": 1.2}
            collection = PolyCollection(boxes, **style)
            collection.set_gid(f"phases {rank}")
            axes.add_collection(collection)


def label_phases(labels: Labels, phases: Phases, lanes: Lanes) -> None:
    """Their names, where they fit inside; no other label stands on them."""
    colors = _colors(phases)
    for rank, mine in enumerate(phases.by_rank):
        for phase in mine:
            (left, top), (right, _), (_, bottom), _ = _box(phase, lanes)
            wide = labels.points(right, 0)[0] - labels.points(left, 0)[0]
            high = labels.points(0, top)[1] - labels.points(0, bottom)[1]
            if text_size(phase.label, SIZE)[0] + 4 <= wide and high >= SIZE + 0.5:
                color = ink_on(colors[phase.label])
                middle = Place((left + right) / 2, rank + (TOP + BOTTOM) / 2, color=color, has_halo=False)
                labels.put([phase.label], [middle], SIZE, f"phase {rank}")
        for phase in mine[:1]:
            last = mine[-1].end
            labels.keep_box_free((phase.begin, rank + BOTTOM), (lanes.stop if last is None else last, rank + TOP))


def draw_key_of_phases(figure: Figure, phases: Phases, left: float, y: float) -> None:
    """What was told, each with its colour; so also those whose names fit nowhere are known."""
    colors = _colors(phases)
    names = phases.labels[:MOST_IN_KEY]
    signs = [Patch(facecolor=colors[name], edgecolor=LINE, lw=0.5) for name in names]
    shown = [name if len(name) <= 24 else f"{name[:23]}…" for name in names]
    if len(phases.labels) > len(names):
        signs.append(Patch(facecolor=PAPER, lw=0))
        shown.append(f"and {count(len(phases.labels) - len(names), 'other label')}")
    style: dict[str, Any] = {"frameon": False, "fontsize": 8, "handlelength": 1.8, "columnspacing": 1.4}
    place: dict[str, Any] = {"loc": "lower left", "bbox_to_anchor": (left, y), "ncols": len(shown)}
    figure.legend(signs, shown, **place, **style).set_gid("key of the phases")


def tell_phases(phases: Phases) -> str:
    """A line for each rank: what it told, in its order."""
    lines = [f"rank {rank} | {_in_order(mine)}".rstrip() for rank, mine in enumerate(phases.by_rank)]
    return "\n".join(["Phases that the ranks told:", *lines])


def _in_order(phases: Sequence[Phase]) -> str:
    line = ""
    for turn, phase in enumerate(phases):
        if len(line) + len(phase.label) > LONGEST_LINE:
            return f"{line}... {len(phases) - turn:,} more"
        line += f"{phase.label} | "
    return line.removesuffix(" | ")


def _box(phase: Phase, lanes: Lanes) -> list[tuple[float, float]]:
    end = lanes.stop if phase.end is None else phase.end
    top, bottom = phase.rank + TOP, phase.rank + BOTTOM
    return [(phase.begin, top), (end, top), (end, bottom), (phase.begin, bottom)]


def _colors(phases: Phases) -> dict[str, str]:
    """Not those of ranks; light ones, in the steps that every saved picture has."""
    shades = [(TRAFFIC, 9), (TRAFFIC, 5), (INK, 2), (FAINT, 8), (TRAFFIC, 1), (FAINT, 4)]
    mixed = [_lighter(color, step) for color, step in shades]
    return {label: mixed[turn % len(mixed)] for turn, label in enumerate(phases.labels)}


def _lighter(color: str, steps: int) -> str:
    red, green, blue = (part + (1 - part) * steps / SHADES for part in to_rgb(color))
    return to_hex((red, green, blue))
