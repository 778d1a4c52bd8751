"""The ring all-reduce turning: in every step each rank passes one chunk on, and the chunks grow into the sum."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from ddp_lessons.record.colors import rank_color
from ddp_lessons.show.controls.explorer import Explorer
from ddp_lessons.show.controls.explorer_controls import Choice, Steps
from ddp_lessons.show.messages.recorded_messages import Message, Played, kept, play
from ddp_lessons.show.messages.watched_tensors import prepare_chunks
from ddp_lessons.show.page.boxes import draw_arrow, name_column, name_row, tint
from ddp_lessons.show.page.picture import (
    COLLECTIVE,
    FAINT,
    INK,
    PAPER,
    Picture,
    count,
    drawn_in_house_style,
    ink_on,
    new_figure,
    show_bytes,
    text_size,
)

LEFT, HEAD, CELL, GAP, FOOT = 74.0, 24.0, 20.0, 30.0, 40.0  # points
WORLD_SIZES = range(2, 9)
PARTIAL = "#C9CFD8"


def turn_the_ring(all_reduce: Callable[..., Any], world_size: int = 4) -> Explorer:
    """Turn a ring step by step, with the bytes that each rank has sent and that were sent in all.

    Args:
        all_reduce: a function of one tensor that leaves the sum over all ranks in it, by sending chunks to the next
            rank: `ring_all_reduce` of `train.ring`, or your own.
        world_size: of how many ranks; each has as many numbers as there are ranks, so that a chunk is one number.
    """

    @kept
    def played(world_size: int) -> Played:
        return play(all_reduce, world_size, prepare_chunks)

    def draw(world_size: int, step: int) -> Picture:
        return draw_turn(played(world_size=world_size), step)

    controls = {
        "world_size": Choice("ranks", WORLD_SIZES, world_size),
        "step": Steps("step", lambda now: range(len(steps_of(played(**now)))), 0),
    }
    return Explorer(draw, title="The ring, step by step", controls=controls)


def steps_of(played: Played) -> list[int]:
    """After how many messages each step is over: a new one begins where a rank sends again. The first is 0."""
    ends, senders = [0], set[int]()
    for number, message in enumerate(played.messages):
        if message.sender in senders:
            ends.append(number)
            senders = set()
        senders.add(message.sender)
    return [*ends, *[len(played.messages)] * bool(senders)]


@drawn_in_house_style
def draw_turn(played: Played, step: int) -> Picture:
    """Draw what each rank holds when so many steps are over, and the chunks that moved in the last of them."""
    ends = steps_of(played)
    moved = played.messages[ends[step - 1] : ends[step]] if step else ()
    columns = [_column(played, rank, ends[step]) for rank in range(played.world_size)]
    sent = [played.bytes_sent(rank, ends[step]) for rank in range(played.world_size)]
    figure, axes = _draw(played, columns, moved, ends[step - 1] if step else 0, sent)
    return Picture(figure, axes, _text(played, columns, sent, step), _say(played, columns, sent, step))


def _column(played: Played, rank: int, messages: int) -> list[float]:
    return [number for tensor in played.held(rank, messages) for number in tensor]


def _say(played: Played, columns: Sequence[Sequence[float]], sent: Sequence[int], step: int) -> str:
    last = len(steps_of(played)) - 1
    if last == 0:
        return "No rank sends a message, so there is nothing to turn."
    if step == 0:
        begin = f"Before the first of {count(last, 'step')}: every rank holds its own numbers."
        return f"{begin} Sums over some ranks will be grey, sums over all dark."
    sums = _column(played, 0, len(played.messages))
    complete = sum(number == total for column in columns for number, total in zip(column, sums, strict=False))
    numbers = sum(map(len, columns))
    each = f"each rank has sent {show_bytes(sent[0])}" if len(set(sent)) == 1 else "the ranks have sent unequally"
    return (
        f"Step {step} of {last}: {each}, in all {show_bytes(sum(sent))}; "
        f"{complete} of {count(numbers, 'number')} are complete sums."
    )


def _draw(
    played: Played, columns: Sequence[Sequence[float]], moved: Sequence[Message], before: int, sent: Sequence[int]
) -> tuple[Figure, Axes]:
    """The axes count in points: a column for each rank, a row for each chunk, and the bytes below."""
    ranks, rows, last = played.world_size, max(map(len, columns)), len(played.messages)
    widest = max(text_size(_show(number), 8.5)[0] for rank in range(ranks) for number in _column(played, rank, last))
    pitch = min(max(widest + 14, 46) + GAP, (9.6 * 72 - LEFT) / ranks)
    wide = pitch - GAP
    width, height = LEFT + ranks * pitch + GAP / 2, HEAD + rows * CELL + FOOT
    figure = new_figure(width / 72, height / 72)
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set(xlim=(0, width), ylim=(height, 0))
    axes.set_axis_off()
    for row in range(rows):
        name_row(axes, 4, HEAD + (row + 0.5) * CELL, f"chunk {row}")
    name_row(axes, 4, height - FOOT / 2, "sent")
    arriving = [(message, _rows(played, message, before)) for message in moved]
    most = max(played.bytes_sent(rank, last) for rank in range(ranks)) or 1
    for rank, column in enumerate(columns):
        x = LEFT + (rank + 0.5) * pitch
        name_column(axes, x, HEAD / 2, rank, rank_color(rank))
        new = {row for message, there in arriving for row in there if message.receiver == rank}
        for row, number in enumerate(column):
            own, total = _column(played, rank, 0)[row], _column(played, rank, last)[row]
            color = _color(number, own, total, rank)
            _draw_cell(axes, (x, HEAD + (row + 0.5) * CELL), wide, _show(number), color, row in new, f"{rank} {row}")
        _draw_bytes(axes, (x - wide / 2, height - FOOT / 2), wide, sent[rank], sent[rank] / most, rank)
    for message, there in arriving:
        y = HEAD + (sum(there) / len(there) + 0.5) * CELL if there else HEAD + rows * CELL / 2
        _draw_way(axes, message, ranks, pitch, y)
    return figure, axes


def _rows(played: Played, message: Message, before: int) -> list[int]:
    """Which of the sender's numbers were sent."""
    held, values = _column(played, message.sender, before), list(message.values)
    for first in range(len(held) - len(values) + 1):
        if values and held[first : first + len(values)] == values:
            return list(range(first, first + len(values)))
    return []


def _show(number: float) -> str:
    """A whole number with all its digits."""
    return str(number) if isinstance(number, int) else f"{number:g}"


def _color(number: float, own: float, total: float, rank: int) -> Any:
    """The rank's own number, a sum of some, or the sum of all."""
    if number == total:
        return COLLECTIVE
    return tint(rank_color(rank)) if number == own else PARTIAL


def _draw_cell(
    axes: Axes, middle: tuple[float, float], wide: float, text: str, color: Any, is_new: bool, gid: str
) -> None:
    (x, y), edge = middle, INK if is_new else FAINT
    style: dict[str, Any] = {"facecolor": color, "edgecolor": edge, "lw": 2.2 if is_new else 0.8}
    axes.add_patch(Rectangle((x - wide / 2, y - CELL / 2 + 1), wide, CELL - 2, gid=f"cell {gid}", zorder=2, **style))
    ink = ink_on(color) if isinstance(color, str) else INK
    size = 8.5 * min(1, (wide - 4) / text_size(text, 8.5)[0])
    axes.text(x, y, text, ha="center", va="center_baseline", fontsize=size, color=ink, gid=f"number {gid}", zorder=3)


def _draw_bytes(axes: Axes, place: tuple[float, float], wide: float, sent: int, part: float, rank: int) -> None:
    """A bar that is full when the rank has sent all that it will."""
    x, y = place
    axes.add_patch(Rectangle((x, y + 7), wide, 5, facecolor=PAPER, edgecolor=FAINT, lw=0.8))
    axes.add_patch(Rectangle((x, y + 7), wide * part, 5, facecolor=rank_color(rank), gid=f"sent {rank}"))
    axes.text(x + wide / 2, y - 2, show_bytes(sent), ha="center", va="center_baseline", gid=f"bytes {rank}")


def _draw_way(axes: Axes, message: Message, ranks: int, pitch: float, y: float) -> None:
    """To the next column; from the last rank out on the right, and in again on the left."""
    color, gid = rank_color(message.sender), f"arrow {message.sender} {message.receiver}"
    edge = LEFT + (message.sender + 1) * pitch
    if message.receiver == message.sender + 1 or message.receiver == (message.sender + 1) % ranks:
        draw_arrow(axes, (edge - GAP / 2 + 1, y), (edge + GAP / 2 - 2, y), color, gid, lw=2)
        if message.receiver == 0:
            draw_arrow(axes, (LEFT - GAP / 2, y), (LEFT + GAP / 2 - 2, y), color, f"{gid} again", lw=2)
    else:
        axes.text(edge - GAP / 2 + 2, y, f"→{message.receiver}", fontsize=7, va="center_baseline", gid=gid)


def _text(played: Played, columns: Sequence[Sequence[float]], sent: Sequence[int], step: int) -> str:
    table = [["", *(f"rank {rank}" for rank in range(played.world_size))]]
    for row in range(max(map(len, columns))):
        table.append([f"chunk {row}", *(_show(column[row]) for column in columns)])
    table.append(["sent", *map(show_bytes, sent)])
    widths = [max(map(len, cells)) for cells in zip(*table, strict=True)]
    lines = [" | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in table]
    return "\n".join([_say(played, columns, sent, step), "", *lines])
