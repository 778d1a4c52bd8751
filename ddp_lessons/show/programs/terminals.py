"""What a program printed, as a picture: times, names of machines and process numbers, which differ from run to run.

The words that a notebook stores beside it are the same in every run, so that the lesson can be compared.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ddp_lessons.show.page.picture import BAND, FAINT, INK, LINE, Picture, drawn_in_house_style, new_figure

WIDTH, LINE_HEIGHT, MARGIN = 9.6, 0.172, 0.14  # inches
MOST_LINES, MOST_LETTERS = 40, 124
SIZE = 7.6  # points
TEXT = "What was printed."


@drawn_in_house_style
def terminal(printed: str | Sequence[str], title: str = TEXT) -> Picture:
    """Draw the lines that a program printed; of very many, the first and the last.

    Args:
        printed: a text, or its lines.
        title: what is stored as text, too, and so has to be the same in every run.
    """
    lines = [_fitted(line) for line in _in_the_middle_cut(_lines(printed))]
    rows = len(lines) + 1
    height = rows * LINE_HEIGHT + 2 * MARGIN
    figure = new_figure(WIDTH, height)
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set_xlim(0, WIDTH)
    axes.set_ylim(height, 0)
    axes.set_axis_off()
    figure.patch.set(facecolor=BAND, edgecolor=LINE, linewidth=1)
    style: dict[str, Any] = {"va": "center_baseline", "parse_math": False}
    axes.text(MARGIN, MARGIN + 0.4 * LINE_HEIGHT, title, color=FAINT, fontsize=8, gid="title", **style)
    for row, line in enumerate(lines, start=1):
        place = MARGIN + (row + 0.5) * LINE_HEIGHT
        axes.text(MARGIN, place, line, color=INK, fontsize=SIZE, family="DejaVu Sans Mono", gid=f"line {row}", **style)
    return Picture(figure, axes, title, title)


def _lines(printed: str | Sequence[str]) -> list[str]:
    if isinstance(printed, str):
        printed = printed.splitlines()
    return [str(line).expandtabs(4).rstrip() for line in printed] or ["(nothing)"]


def _in_the_middle_cut(lines: Sequence[str]) -> list[str]:
    left_out = len(lines) - MOST_LINES
    if left_out <= 0:
        return list(lines)
    half = MOST_LINES // 2
    return [*lines[:half], f"... {left_out:,} lines ...", *lines[-half:]]


def _fitted(line: str) -> str:
    plain = "".join(letter if letter.isprintable() else " " for letter in line)
    return plain if len(plain) <= MOST_LETTERS else plain[: MOST_LETTERS - 4] + " ..."
