"""Messages one below the other: who sends what to whom, and what every rank holds after it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ddp_lessons.record.colors import rank_color
from ddp_lessons.show.messages.recorded_messages import Message, Played
from ddp_lessons.show.messages.watched_tensors import Held
from ddp_lessons.show.page.boxes import (
    LINE_HEIGHT,
    draw_arrow,
    draw_box,
    draw_lines,
    name_column,
    name_row,
    show_numbers,
    wrap,
)
from ddp_lessons.show.page.picture import (
    FAINT,
    LINE,
    PAPER,
    Picture,
    count,
    drawn_in_house_style,
    new_figure,
    text_size,
)

LEFT, HEAD, ROW, FOOT = 74.0, 24.0, 25.0, 8.0  # points
MOST_ROWS = 8
SIZE = 8.5
NOTHING = "nothing"


@drawn_in_house_style
def message_rows(played: Played, done: int) -> Picture:
    """Draw what has been sent when so many messages have come; the room for those to come is there already."""
    holds = [played.held(rank, done) for rank in range(played.world_size)]
    figure, axes = _draw(played, done, holds)
    return Picture(figure, axes, _text(played, done, holds), say(played, done))


def say(played: Played, done: int) -> str:
    """Where the play stands, in a sentence or two."""
    total = len(played.messages)
    if total == 0:
        return "No rank sends a message: each keeps what it has."
    if done == 0:
        return f"Before the first of {count(total, 'message')}."
    message = played.messages[done - 1]
    what = f"Message {done} of {total}: rank {message.sender} sends {_values(message)} to rank {message.receiver}"
    holds = _holds(played.held(message.receiver, done))
    return f"{what}, which now holds {holds}." + " That was the last one." * (done == total)


def _values(message: Message) -> str:
    return show_numbers(message.values) or f"{message.bytes} B"


def _holds(held: Held) -> str:
    return ", ".join(f"[{show_numbers(tensor)}]" for tensor in held) or NOTHING


def _draw(played: Played, done: int, holds: Sequence[Held]) -> tuple[Figure, Axes]:
    """The axes count in points. A column for each rank, a row for each message, and what they hold at the foot."""
    ranks, total = played.world_size, len(played.messages)
    first = min(max(0, done - MOST_ROWS), max(0, total - MOST_ROWS))
    rows = min(total, MOST_ROWS)
    pitch = min(max(96.0, 360 / ranks), (9.6 * 72 - LEFT - 4) / ranks)
    every = [played.held(rank, k) for rank in range(ranks) for k in range(total + 1)]
    texts = [_lines(held, pitch - 10) for held in holds]
    tallest = max(len(_lines(held, pitch - 10)) for held in every) * SIZE * LINE_HEIGHT + 8
    width, height = LEFT + ranks * pitch + 4, HEAD + rows * ROW + tallest + 2 * FOOT
    figure = new_figure(width / 72, height / 72)
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set(xlim=(0, width), ylim=(height, 0))
    axes.set_axis_off()
    middles = [LEFT + (rank + 0.5) * pitch for rank in range(ranks)]
    foot = height - FOOT - tallest / 2
    for rank, x in enumerate(middles):
        name_column(axes, x, HEAD / 2, rank, rank_color(rank))
        axes.plot([x, x], [HEAD, foot], color=LINE, lw=0.8, zorder=0.5)
        is_new = done > 0 and played.messages[done - 1].receiver == rank
        style: dict[str, Any] = {"lw": 2.4 if is_new else 1.2, "facecolor": PAPER}
        draw_box(axes, (x, foot), (pitch - 6, tallest), rank_color(rank), f"holds {rank}", **style)
        draw_lines(axes, (x, foot), texts[rank], SIZE, f"held {rank}", FAINT if texts[rank] == [NOTHING] else "black")
    name_row(axes, 4, foot, "holds now")
    for row, number in enumerate(range(first, first + rows)):
        _draw_message(axes, number, played.messages[number], middles, HEAD + (row + 0.5) * ROW, done)
    return figure, axes


def _lines(held: Held, room: float) -> list[str]:
    """The numbers of one tensor, or of several in brackets; more lines where there are many."""
    if not held:
        return [NOTHING]
    return wrap(show_numbers(held[0]) if len(held) == 1 else _holds(held).replace(",", ""), room, SIZE)


def _draw_message(axes: Axes, number: int, message: Message, middles: Sequence[float], y: float, done: int) -> None:
    """The newest in full, those before it lighter; of one to come only its number."""
    is_newest, name = number == done - 1, f"message {number + 1}"
    axes.text(4, y, name, fontsize=8, va="center_baseline", color="black" if is_newest else FAINT, gid=name)
    if number >= done:
        return
    begin, end = middles[message.sender], middles[message.receiver]
    color, side = rank_color(message.sender), 1 if end > begin else -1
    text = _values(message)
    wide = text_size(text, SIZE)[0] + 12
    strength: dict[str, Any] = {"alpha": 1.0 if is_newest else 0.45}
    draw_box(axes, (begin, y), (wide, ROW - 8), color, f"box {name}", lw=1.8 if is_newest else 1.0, **strength)
    draw_lines(axes, (begin, y), [text], SIZE, f"values {name}")
    thick: dict[str, Any] = {"lw": 2.0 if is_newest else 1.2, **strength}
    draw_arrow(axes, (begin + side * wide / 2, y), (end - side, y), color, f"arrow {name}", **thick)


def _text(played: Played, done: int, holds: Sequence[Held]) -> str:
    lines = [say(played, done), ""]
    for number, message in enumerate(played.messages[:done], 1):
        lines.append(f"{number:>3}  rank {message.sender} -> rank {message.receiver}  {_values(message)}")
    return "\n".join([*lines, *[""] * (done > 0), *(f"rank {rank} holds {_holds(h)}" for rank, h in enumerate(holds))])
