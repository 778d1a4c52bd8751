"""What a program printed in a terminal, as a picture, which says whether it ran here or was recorded elsewhere.

The words of the picture are the same in both cases.
"""

from __future__ import annotations

from typing import Any, Protocol

from matplotlib.patches import Rectangle

from ddp_lessons.show.page.picture import (
    BAND,
    DDPS_OWN,
    FAINT,
    INK,
    LINE,
    PAPER,
    TRAFFIC,
    Picture,
    count,
    drawn_in_house_style,
    ink_on,
    new_figure,
    text_size,
)

WIDTH, ROW, EDGE, SIZE = 9.6, 0.2, 0.14, 8.5  # inches, and points
MOST_LINES, MOST_LETTERS = 24, 118


class Ended(Protocol):
    """What `mpirun` returns: a command, its lines, and where they come from."""

    @property
    def command(self) -> str: ...

    @property
    def lines(self) -> tuple[str, ...]: ...

    @property
    def is_live(self) -> bool: ...

    @property
    def origin(self) -> str: ...


@drawn_in_house_style
def mpi_run(ended: Ended) -> Picture:
    """Draw a command and the lines that it printed, marked as run on this machine or as recorded."""
    lines = [f"$ {ended.command}", *_fitting(ended.lines)]
    height = ROW * len(lines) + 2 * EDGE
    figure = new_figure(WIDTH, height)
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set(xlim=(0, WIDTH), ylim=(height, 0))
    axes.set_axis_off()
    frame: dict[str, Any] = {"facecolor": BAND, "edgecolor": LINE, "lw": 1.0}
    axes.add_patch(Rectangle((0.04, 0.04), WIDTH - 0.08, height - 0.08, **frame))
    for number, line in enumerate(lines):
        style: dict[str, Any] = {"family": "DejaVu Sans Mono", "fontsize": SIZE, "va": "center", "parse_math": False}
        color = FAINT if number == 0 else INK
        axes.text(EDGE + 0.04, EDGE + ROW * (number + 0.5), line, color=color, gid=f"line {number}", **style)
    _write_origin(axes, ended)
    text = "\n".join([*lines, "(run on this machine where it can, else recorded on another: the picture says which)"])
    return Picture(figure, axes, text, f"Terminal: {ended.command}, and {count(len(ended.lines), 'line')} of output.")


def _fitting(lines: tuple[str, ...]) -> list[str]:
    shown = [line if len(line) <= MOST_LETTERS else line[: MOST_LETTERS - 3] + "..." for line in lines[:MOST_LINES]]
    left_out = len(lines) - len(shown)
    return [*shown, f"... and {count(left_out, 'more line')}"] if left_out else shown


def _write_origin(axes: Any, ended: Ended) -> None:
    """A label in the corner, at the end of the command's line."""
    color = TRAFFIC if ended.is_live else DDPS_OWN
    width = text_size(ended.origin, SIZE)[0] / 72
    right, middle = WIDTH - EDGE, EDGE + ROW / 2
    plate: dict[str, Any] = {"facecolor": color, "lw": 0, "gid": "plate"}
    axes.add_patch(Rectangle((right - width - 0.12, middle - 0.1), width + 0.12, 0.2, **plate))
    style: dict[str, Any] = {"fontsize": SIZE, "va": "center_baseline", "ha": "right", "gid": "origin"}
    axes.text(right - 0.06, middle, ended.origin, color=ink_on(color) if color else PAPER, **style)
