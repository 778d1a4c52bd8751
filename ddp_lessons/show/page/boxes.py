"""Boxes with numbers in them, in columns and rows: what a rank holds or sends."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.colors import to_rgb
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch

from ddp_lessons.show.page.picture import FAINT, INK, text_size

MOST_LINES = 4
LINE_HEIGHT = 1.35  # of the font's size


def tint(color: str) -> tuple[float, ...]:
    """So light that a text on it reads well."""
    return tuple(0.82 + 0.18 * part for part in to_rgb(color))


def numbers_of(value: Any) -> list[Any] | None:
    """The numbers of a tensor or a list, flat; None if it is neither."""
    value = value.tolist() if hasattr(value, "tolist") else value
    if isinstance(value, (int, float)):
        return [value]
    if not isinstance(value, (list, tuple)):
        return None
    parts = [numbers_of(part) for part in value]
    return None if None in parts else [number for part in parts if part is not None for number in part]


def show_numbers(numbers: Sequence[float]) -> str:
    return " ".join(
        f"{number:.0f}" if number == round(number) and abs(number) < 1e7 else f"{number:.4g}" for number in numbers
    )


def wrap(text: str, room: float, size: float) -> list[str]:
    """Lines no longer than so many points; what does not fit into a few lines ends with dots."""
    lines = [""]
    for word in text.split(" "):
        longer = f"{lines[-1]} {word}".strip()
        if lines[-1] and text_size(longer, size)[0] > room:
            lines.append(word)
        else:
            lines[-1] = longer
    return lines if len(lines) <= MOST_LINES else [*lines[: MOST_LINES - 1], "..."]


def draw_box(
    axes: Axes, center: tuple[float, float], extent: tuple[float, float], color: str, gid: str, **style: Any
) -> None:
    """A box of a width and a height in points; its color is a tint inside and full at the edge."""
    (x, y), (width, height) = center, extent
    style = {"facecolor": tint(color), "edgecolor": color, "lw": 1.2, "zorder": 2, **style}
    shape = "round,pad=0,rounding_size=3"
    axes.add_patch(FancyBboxPatch((x - width / 2, y - height / 2), width, height, boxstyle=shape, gid=gid, **style))


def draw_lines(
    axes: Axes, center: tuple[float, float], lines: Sequence[str], size: float, gid: str, color: str = INK
) -> None:
    """Lines of text around a middle."""
    style: dict[str, Any] = {"ha": "center", "va": "center", "linespacing": 1.12, "parse_math": False, "zorder": 4}
    axes.text(*center, "\n".join(lines), fontsize=size, color=color, gid=gid, **style)


def draw_arrow(
    axes: Axes, begin: tuple[float, float], end: tuple[float, float], color: str, gid: str, **style: Any
) -> None:
    style = {"arrowstyle": "-|>", "mutation_scale": 8, "lw": 1.3, "shrinkA": 0, "shrinkB": 0, "zorder": 3, **style}
    axes.add_patch(FancyArrowPatch(begin, end, color=color, gid=gid, **style))


def name_column(axes: Axes, x: float, y: float, rank: int, color: str, size: float = 9, prefix: str = "rank ") -> None:
    """The label of a rank with its color beside."""
    name = f"{prefix}{rank}"
    width = text_size(name, size)[0]
    axes.plot([x - width / 2 - 7], [y], "s", color=color, ms=6.5)
    axes.text(x - width / 2, y, name, fontsize=size, va="center_baseline", ha="left", gid=f"name {rank}")


def name_row(axes: Axes, x: float, y: float, name: str) -> None:
    axes.text(x, y, name, fontsize=9, va="center_baseline", ha="left", color=FAINT)
