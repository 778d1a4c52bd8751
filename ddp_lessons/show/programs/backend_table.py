"""What each backend can do on this machine: a row for each call, a column for each backend.

What comes out differs from machine to machine, so it is in the picture only. Its words say what was tried; who cannot
see the picture prints the trials.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from ddp_lessons.record.colors import RANK_COLORS
from ddp_lessons.show.page.picture import (
    ALARM,
    BAND,
    FAINT,
    INK,
    PAPER,
    Picture,
    drawn_in_house_style,
    new_figure,
    text_size,
)

WIDTH, LEFT, RIGHT, ROW, HEAD, LINE = 9.6, 1.75, 0.1, 0.215, 0.56, 0.19  # inches
SIZE = 8.0
ELLIPSIS = "..."
# how a field is filled, and in which colour its word is
LOOKS = {
    "works": ("#D8E6F3", INK),
    "refused": (PAPER, FAINT),
    "not tried": (PAPER, FAINT),
    "wrong": (PAPER, ALARM),
    "died": (PAPER, ALARM),
    "no answer": (PAPER, ALARM),
}
WORDS = {"not tried": "·"}


class Trials(Protocol):
    """What `try_backends` returns."""

    @property
    def places(self) -> list[str]: ...

    @property
    def calls(self) -> list[str]: ...

    def of(self, place: str, call: str) -> Any: ...

    def why_not(self, place: str) -> str: ...


@drawn_in_house_style
def what_works(trials: Trials) -> Picture:
    """Draw what `try_backends` found on this machine, and under it why a column has nothing."""
    if not hasattr(trials, "why_not"):
        raise TypeError(f"this draws what try_backends() returned, and got something of type {type(trials).__name__}")
    places, calls = trials.places, trials.calls
    reasons = _reasons(trials)
    below = LINE * len(reasons) + 0.1 * bool(reasons)
    height = HEAD + ROW * len(calls) + below
    figure = new_figure(WIDTH, height)
    box = (LEFT / WIDTH, below / height, (WIDTH - LEFT - RIGHT) / WIDTH, ROW * len(calls) / height)
    axes = figure.add_axes(box)
    _draw_grid(axes, trials, places, calls)
    for number, reason in enumerate(reasons):
        up = below - 0.1 - LINE * (number + 0.6)
        figure.text(0.1 / WIDTH, up / height, reason, fontsize=SIZE, color=INK, gid=f"reason {number}")
    return Picture(figure, axes, _text(places, calls), _describe(places, calls))


def _draw_grid(axes: Axes, trials: Trials, places: Sequence[str], calls: Sequence[str]) -> None:
    axes.set(xlim=(0, len(places)), ylim=(len(calls), 0), xticks=[])
    axes.spines[:].set_visible(False)
    axes.set_yticks([row + 0.5 for row in range(len(calls))], calls, color=INK, fontsize=SIZE)
    axes.tick_params(length=0)
    for column, place in enumerate(places):
        head = "\n".join(_wrapped(place, _column_width(places)))
        axes.text(column + 0.5, -0.25, head, ha="center", va="bottom", fontsize=SIZE, color=INK, gid=f"place {column}")
        for row, call in enumerate(calls):
            outcome = trials.of(place, call).outcome
            fill, ink = LOOKS[outcome]
            if fill == PAPER and row % 2:
                fill = BAND
            axes.add_patch(Rectangle((column + 0.02, row + 0.04), 0.96, 0.92, facecolor=fill, lw=0))
            style: dict[str, Any] = {"ha": "center", "va": "center_baseline", "fontsize": SIZE, "color": ink}
            if ink == ALARM:
                style["fontweight"] = "bold"
            axes.text(column + 0.5, row + 0.52, WORDS.get(outcome, outcome), gid=f"outcome {column} {row}", **style)
    axes.axhline(0, color=RANK_COLORS[0], lw=1.0)


def _column_width(places: Sequence[str]) -> float:
    return 72 * (WIDTH - LEFT - RIGHT) / len(places) - 8


def _reasons(trials: Trials) -> list[str]:
    """Why nobody could join, in lines that fit the page."""
    lines = []
    for place in trials.places:
        if reason := trials.why_not(place):
            first, *more = _wrapped(f"{place}: {reason}", 72 * (WIDTH - 0.3))
            lines += [first, *(f"    {line}" for line in more)]
    return lines


def _wrapped(text: str, room: float) -> list[str]:
    lines = [""]
    for word in text.split():
        longer = f"{lines[-1]} {word}".strip()
        if lines[-1] and text_size(longer, SIZE)[0] > room:
            lines.append(word)
        else:
            lines[-1] = longer
    return [_shortened(line, room) for line in lines]


def _shortened(line: str, room: float) -> str:
    """A path has no spaces to break at."""
    while text_size(line, SIZE)[0] > room:
        line = line.removesuffix(ELLIPSIS)[:-1] + ELLIPSIS
    return line


def _text(places: Sequence[str], calls: Sequence[str]) -> str:
    return "\n".join(
        [
            "What works on this machine is in the picture; print the trials to have it in words. Tried were:",
            *(f"  {place}" for place in places),
            f"and with each: {', '.join(calls)}.",
        ]
    )


def _describe(places: Sequence[str], calls: Sequence[str]) -> str:
    return f"Table of {len(calls)} calls in {len(places)} backends: which of them work on this machine."
