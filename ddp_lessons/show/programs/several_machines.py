"""What several machines said, and when: a lane for each over the seconds, so that silence is seen, and the lines below.

The words and times are another machine's affair each time: they are in the image only, and in the printed attempt.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from ddp_lessons.machines.attempts import Attempt, Said
from ddp_lessons.record.colors import rank_color
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

WIDTH, LEFT, RIGHT = 9.6, 0.85, 1.2  # inches
LANE, ROW, HEAD, AXIS = 0.24, 0.165, 0.32, 0.42
MOST_ROWS, SIZE = 20, 7.5
# tracebacks, and what gloo notes down before it raises the error that says the same
_WAY_THERE = re.compile(r"\s|Traceback|The above exception|During handling|[=\-~^]{4,}|\[\S*debug_logger\.cc:\d+\]|$")
_RANK = re.compile(r"\[rank\d+\]: ")  # torch puts it before each line of a rank's traceback

# of [/a/long/way/pair.cc:152], /a/long/way/launch.py:207 and /a/long/way/python: what stands at its end is enough
_FOLDERS = re.compile(r"(?<![:\w./+-])(?:[\w./+-]*/(?=[\w-]+\.[a-z]\w*:\d+)|/(?:[\w.+-]+/)+(?=\w))")


@drawn_in_house_style
def machines(attempt: Attempt, title: str = "") -> Picture:
    """Draw when each machine said something, what happened to it and how it ended, with the lines.

    Tracebacks are left out.

    Raises:
        TypeError: this is no attempt.
    """
    if not isinstance(attempt, Attempt):
        raise TypeError(f"machines() draws what attempt() returned, and this is of type {type(attempt).__name__}")
    rows = _rows(attempt)
    count = max([len(attempt.statuses), *(told.machine + 1 for told in (*attempt.said, *attempt.happened))])
    height = HEAD + count * LANE + AXIS + ROW * len(rows) + 0.1
    figure = new_figure(WIDTH, height)
    _draw_head(figure, title, attempt.recorded, height)
    lanes = (LEFT / WIDTH, 1 - (HEAD + count * LANE) / height)
    axes = figure.add_axes((*lanes, (WIDTH - LEFT - RIGHT) / WIDTH, count * LANE / height))
    _draw_lanes(axes, attempt, count)
    _draw_rows(figure, rows, attempt.happened, height)
    name = f"{title}: a" if title else "A"
    as_text = "Print what you gave to show.machines, and you have it as text."
    alt = f"{name} lane for each machine, over the seconds, and what it said. {as_text}"
    text = "What each machine said, and when: the times and words are in the picture."
    return Picture(figure, axes, text, alt)


def _rows(attempt: Attempt) -> list[Said | str]:
    """The lines to be shown, and in the middle a sentence for those that are not."""
    told = [said for said in attempt.said if not _WAY_THERE.match(_RANK.sub("", said.line))] + [*attempt.happened]
    told.sort(key=lambda said: said.seconds)
    if len(told) <= MOST_ROWS:
        return [*told]
    half = MOST_ROWS // 2
    return [*told[: half - 1], f"... {len(told) - 2 * half + 1} more lines ...", *told[-half:]]


def _draw_head(figure: Figure, title: str, recorded: str, height: float) -> None:
    style: dict[str, Any] = {"va": "center", "parse_math": False}
    up = 1 - HEAD / 2 / height
    if title:
        figure.text(8 / 72 / WIDTH, up, title, fontsize=10, weight="bold", gid="title", **style)
    origin = f"recorded ({recorded})" if recorded else "live, on this machine"
    figure.text(1 - 8 / 72 / WIDTH, up, origin, fontsize=8, color=FAINT, ha="right", gid="origin", **style)


def _draw_lanes(axes: Axes, attempt: Attempt, count: int) -> None:
    axes.set_ylim(count - 0.5, -0.5)
    axes.set_xlim(0, max(attempt.seconds, 0.1) * 1.01)
    axes.set_yticks([])
    for side in ("left", "right", "top"):
        axes.spines[side].set_visible(False)
    axes.xaxis.set_major_locator(MaxNLocator(10, steps=[1, 2, 5, 10]))
    axes.set_xlabel("seconds", labelpad=1, fontsize=8)
    beside: dict[str, Any] = {"transform": axes.get_yaxis_transform(), "fontsize": 8, "va": "center"}
    for machine in range(count):
        color = rank_color(machine)
        if machine % 2 == 0:
            axes.axhspan(machine - 0.5, machine + 0.5, color=BAND, lw=0, zorder=0)
        moments = [said.seconds for said in attempt.said if said.machine == machine]
        axes.plot(moments, [machine] * len(moments), "|", color=color, ms=10, mew=1.6, gid=f"said {machine}")
        events = [event.seconds for event in attempt.happened if event.machine == machine]
        if events:
            axes.plot(events, [machine] * len(events), "X", color=ALARM, ms=8, mec=PAPER, gid=f"happened {machine}")
        axes.text(-0.012, machine, f"machine {machine}", color=color, ha="right", weight="bold", **beside)
        if machine < len(attempt.statuses):
            ending, is_well = _ending(attempt.statuses[machine])
            axes.text(1.01, machine, ending, color=INK if is_well else ALARM, gid=f"ending {machine}", **beside)
        else:  # a job has one status for all its machines
            axes.text(1.01, machine, "of the same job", color=FAINT, gid=f"ending {machine}", **beside)


def _draw_rows(figure: Figure, rows: Sequence[Said | str], happened: Sequence[Said], height: float) -> None:
    room = (WIDTH - 0.9) * 72
    for number, row in enumerate(rows):
        up = (0.1 + ROW * (len(rows) - number - 0.5)) / height
        style: dict[str, Any] = {"fontsize": SIZE, "va": "center", "family": "DejaVu Sans Mono", "parse_math": False}
        if isinstance(row, str):
            figure.text(0.85 / WIDTH, up, row, color=FAINT, **style)
            continue
        figure.text(0.62 / WIDTH, up, f"{row.seconds:.1f} s", color=FAINT, ha="right", **style)
        mark = {"boxstyle": "square,pad=0.15", "facecolor": rank_color(row.machine), "edgecolor": "none"}
        figure.text(
            0.74 / WIDTH, up, str(row.machine), color=PAPER, ha="center", bbox=mark, **style | {"fontsize": 6.5}
        )
        color = ALARM if row in happened else INK
        figure.text(0.85 / WIDTH, up, _shortened(row.line, room), color=color, gid=f"line {number}", **style)


def _shortened(line: str, room: float) -> str:
    line = _FOLDERS.sub("", line)
    letters = int(room / (text_size("m", SIZE)[0] * 0.62))  # of the font with equal widths
    return line if len(line) <= letters else f"{line[: letters - 1]}…"


def _ending(status: int | None) -> tuple[str, bool]:
    if status is None:
        return "stopped, time over", False
    return ("ended well", True) if status == 0 else (f"ended with {status}", False)
