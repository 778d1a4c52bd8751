"""What several machines logged, and when: a lane for each over time, which also shows silence, and the lines below.

The lines and times differ from run to run, so they are only in the image and in the printed attempt.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from ddp_lessons.machines.attempts import Attempt, Said
from ddp_lessons.show.figures.drawing import Bars, Box, Drawing, Line, Shape, Words
from ddp_lessons.show.figures.figure import Figure
from ddp_lessons.show.figures.layouts import LINE_HEIGHT, cut, figure_of, fits, name_rank, wrapped
from ddp_lessons.show.figures.palette import color_of_rank, ink_on

LEFT, ENDING, LANE, AXIS = 92.0, 132.0, 22.0, 30.0  # pixels: where lanes begin, the column after them, their heights
BESIDE = 500.0  # of a page: from this width on, the endings fit next to the lanes
TICK = 2.0  # the width of a mark
TIMES, WORDS = 48.0, 74.0  # where the seconds of a line end, and where its text begins
MOST_ROWS, MOST_LINES = 20, 4
# tracebacks, and what gloo logs before it raises an error with the same message
_WAY_THERE = re.compile(r"\s|Traceback|The above exception|During handling|[=\-~^]{4,}|\[\S*debug_logger\.cc:\d+\]|$")
_RANK = re.compile(r"\[rank\d+\]: ")  # torch puts it before each line of a rank's traceback

# of [/a/long/way/pair.cc:152], /a/long/way/launch.py:207 and /a/long/way/python, show only the end of the path
_FOLDERS = re.compile(r"(?<![:\w./+-])(?:[\w./+-]*/(?=[\w-]+\.[a-z]\w*:\d+)|/(?:[\w.+-]+/)+(?=\w))")


def machines(attempt: Attempt, title: str = "") -> Figure:
    """Draw when each machine printed something, what happened to it and how it ended, with its output.

    Tracebacks are left out.
    """
    rows = _rows(attempt)
    name = f"{title}: a" if title else "A"
    as_text = "To get it as text, print the attempt that you passed to show.machines."
    alt = f"{name} lane for each machine over time, and the lines that it logged. {as_text}"
    text = "What each machine logged, and when: the figure has the lines and times."
    return figure_of(lambda width: _draw(attempt, rows, width), text, alt, title)


def _rows(attempt: Attempt) -> list[Said | str]:
    """The lines to show, with a note in the middle if some are left out."""
    told = [said for said in attempt.said if not _WAY_THERE.match(_RANK.sub("", said.line))] + [*attempt.happened]
    rows: list[Said | str] = [*sorted(told, key=lambda said: said.seconds)]
    half = MOST_ROWS // 2
    if len(rows) > MOST_ROWS:
        rows[half - 1 : -half] = [f"... {len(rows) - 2 * half + 1} more lines ..."]
    return rows


def _draw(attempt: Attempt, rows: Sequence[Said | str], width: float) -> Drawing:
    origin = f"recorded ({attempt.recorded})" if attempt.recorded else "live, on this machine"
    shapes: list[Shape] = [Words(4, 10, cut(origin, width - 8), "faint")]
    lanes, y = _lanes(attempt, width)
    shapes += lanes
    for row in rows:
        words, color = (row, "faint") if isinstance(row, str) else (_FOLDERS.sub("", row.line), "ink")
        if not isinstance(row, str):  # the time, and which machine logged it
            middle, of_machine = y + LINE_HEIGHT / 2, color_of_rank(row.machine)
            shapes.append(Words(TIMES, middle, f"{row.seconds:.1f} s", "faint", "end"))
            shapes.append(Box(TIMES + 4, middle - 7, 18, 14, of_machine))
            shapes.append(Words(TIMES + 13, middle, str(row.machine), ink_on(of_machine), "middle"))
        lines = wrapped(words, width - WORDS - 6)
        if len(lines) > MOST_LINES:
            lines[MOST_LINES - 1 :] = [cut(f"{lines[MOST_LINES - 1]} …", width - WORDS - 6)]
        for line in lines:
            shapes.append(Words(WORDS, y + LINE_HEIGHT / 2, line, "alarm" if row in attempt.happened else color))
            y += LINE_HEIGHT
    return Drawing(width, y + 6, shapes)


def _lanes(attempt: Attempt, width: float) -> tuple[list[Shape], float]:
    """A lane for each machine over time, with how it ended next to it or below, and where the last lane ends."""
    machines = max([len(attempt.statuses), *(told.machine + 1 for told in (*attempt.said, *attempt.happened))])
    is_beside = width >= BESIDE
    right = width - (ENDING if is_beside else 12)
    per_second = (right - LEFT) / max(attempt.seconds, 0.1)
    shapes: list[Shape] = []
    y = 22.0
    for machine in range(machines):
        shapes += [*name_rank(machine, y + LANE / 2, "machine"), Box(LEFT, y + 1, right - LEFT, LANE - 2, "band")]
        shapes += _marks(attempt, machine, y, per_second, right)
        ending, color = _ending(attempt, machine)
        y += 0 if is_beside else LINE_HEIGHT + 2
        shapes.append(Words(right + 8 if is_beside else LEFT, y + LANE / 2, ending, color))
        y += LANE
    steps = (size * 10**power for power in range(-1, 5) for size in (1, 2, 5))
    every = next(step for step in steps if fits("0,000.0", step * per_second))
    for number in range(int(max(attempt.seconds, 0.1) / every) + 1):
        x = LEFT + number * every * per_second
        shapes += [Line([(x, y), (x, y + 4)]), Words(x, y + 12, f"{number * every:g}", "faint", "middle")]
    shapes.append(Words(LEFT - 10, y + 12, "seconds", "faint", "end"))
    return shapes, y + AXIS


def _marks(attempt: Attempt, machine: int, y: float, per_second: float, right: float) -> Iterator[Shape]:
    columns = int((right - LEFT) / TICK)
    told = {min(int(said.seconds * per_second / TICK), columns - 1) for said in attempt.said if said.machine == machine}
    parts = [int(column in told) for column in range(max(told, default=-1) + 1)]
    yield Bars(LEFT, y + LANE - 4, TICK, LANE - 8, parts, color_of_rank(machine))
    for event in attempt.happened:
        if event.machine == machine:
            x, middle = LEFT + event.seconds * per_second, y + LANE / 2
            for up in (-5, 5):
                yield Line([(x - 5, middle - up), (x + 5, middle + up)], "alarm", 3)


def _ending(attempt: Attempt, machine: int) -> tuple[str, str]:
    if machine >= len(attempt.statuses):  # a job has one exit status for all its machines
        return "same job as above", "faint"
    status = attempt.statuses[machine]
    if status is None:
        return "stopped: timeout", "alarm"
    return ("exit status 0", "ink") if status == 0 else (f"exit status {status}", "alarm")
