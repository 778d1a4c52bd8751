"""Who sent how many bytes to whom, and what each rank sent and received in all."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from numbers import Real
from typing import Any

from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from ddp_lessons.record.colors import rank_color
from ddp_lessons.record.events import Events
from ddp_lessons.show.page.picture import (
    ALARM,
    FAINT,
    HATCH,
    INK,
    PAPER,
    TRAFFIC,
    Picture,
    count,
    drawn_in_house_style,
    events_of,
    ink_on,
    new_figure,
    show_bytes,
    text_size,
    write_picture,
)
from ddp_lessons.show.timelines.text_steps import name_call
from ddp_lessons.show.timelines.timeline_figure import NOTHING

WIDTH, LEFT = 9.6, 0.55  # inches
Textbook = float | Sequence[float] | Mapping[str, Any]


@drawn_in_house_style
def traffic(results: Any, textbook: Textbook | None = None) -> Picture:
    """Draw a matrix of the bytes that ranks sent to each other, and the totals of each rank.

    Args:
        results: what `launch` returned, or the exception that it raised.
        textbook: how many bytes a rank should send: a number for all, a sequence by rank, or a dict of names to these.
    """
    events = events_of(results)
    if not len(events):
        return write_picture(NOTHING)
    ranks = events.world_size
    sent = [[events.bytes_sent(rank, to) for to in range(ranks)] for rank in range(ranks)]
    expected = _by_rank(textbook, ranks)
    side = min(5.0, max(2.1, 0.36 * ranks + 0.9))
    below = 0.5 if len(expected) < 2 else 0.7
    height = side + below + 0.07
    figure = new_figure(WIDTH, height)
    matrix = figure.add_axes((LEFT / WIDTH, below / height, side / WIDTH, side / height))
    left = LEFT + side + 0.8
    totals = figure.add_axes((left / WIDTH, below / height, (WIDTH - left - 0.1) / WIDTH, side / height))
    _draw_matrix(matrix, sent)
    _draw_totals(totals, events, expected)
    _draw_key(figure, (left, below), totals, expected)
    return Picture(figure, (matrix, totals), _text(events, sent, expected), _describe(events, sent))


def _by_rank(textbook: Textbook | None, ranks: int) -> dict[str, list[float]]:
    """Every textbook's bytes for every rank, by the textbook's name."""
    if textbook is None:
        return {}
    books: Mapping[str, Any] = textbook if isinstance(textbook, Mapping) else {"textbook": textbook}
    by_name = {name: [book] * ranks if isinstance(book, Real) else list(book) for name, book in books.items()}
    for name, numbers in by_name.items():
        if len(numbers) != ranks:
            raise ValueError(
                f"{name} has {count(len(numbers), 'number')} for {count(ranks, 'rank')}: give one for each"
            )
    return {name: [float(number) for number in numbers] for name, numbers in by_name.items()}


def _draw_matrix(axes: Axes, sent: list[list[int]]) -> None:
    ranks, most = len(sent), max(map(max, sent)) or 1
    shades = LinearSegmentedColormap.from_list("bytes", ["#DCE5EE", TRAFFIC]).with_extremes(bad=PAPER)
    visible = [[amount or float("nan") for amount in row] for row in sent]
    axes.imshow(visible, cmap=shades, vmin=0, vmax=most, aspect="auto").set_gid("bytes")
    size = 9 if ranks <= 6 else 7.5 if ranks <= 9 else 5.6
    for rank, row in enumerate(sent):
        for to, amount in enumerate(row):
            text = show_bytes(amount) if ranks <= 9 else show_bytes(amount).replace(" ", "\n")
            color = ink_on(_hex(shades(amount / most))) if amount else FAINT
            label = axes.text(to, rank, text if amount else "·", ha="center", va="center", fontsize=size, color=color)
            label.set_gid(f"bytes {rank} {to}")
    axes.set_xticks(range(ranks), map(str, range(ranks)), color=INK, fontsize=8)
    axes.set_yticks(range(ranks), map(str, range(ranks)), color=INK, fontsize=8)
    axes.set_xticks([edge - 0.5 for edge in range(ranks + 1)], minor=True)
    axes.set_yticks([edge - 0.5 for edge in range(ranks + 1)], minor=True)
    axes.grid(which="minor", color=PAPER, lw=2)
    axes.tick_params(which="both", length=0)
    axes.spines[:].set_visible(False)
    axes.set_xlabel("to rank", labelpad=3)
    axes.set_ylabel("from rank", labelpad=3)


def _hex(color: tuple[float, ...]) -> str:
    return "#" + "".join(f"{round(255 * part):02x}" for part in color[:3])


def _draw_totals(axes: Axes, events: Events, expected: Mapping[str, list[float]]) -> None:
    """Two bars for each rank: sent, solid; received, hatched. The textbook's is a line across."""
    ranks = range(events.world_size)
    sent, received = [events.bytes_sent(rank) for rank in ranks], [events.bytes_received(rank) for rank in ranks]
    told = [f"{show_bytes(sent[rank])} in {count(events.messages_sent(rank), 'message')}" for rank in ranks]
    size = 8 if len(ranks) <= 9 else 6.5
    for rank in ranks:
        own: dict[str, Any] = {"edgecolor": rank_color(rank), "lw": 0.7}
        axes.barh(rank - 0.19, sent[rank], 0.34, facecolor=rank_color(rank), gid=f"sent {rank}", **own)
        axes.barh(rank + 0.19, received[rank], 0.34, facecolor=PAPER, hatch=HATCH, gid=f"received {rank}", **own)
        beside: dict[str, Any] = {"xytext": (4, 0), "textcoords": "offset points", "va": "center", "fontsize": size}
        axes.annotate(told[rank], (sent[rank], rank - 0.19), **beside)
        axes.annotate(show_bytes(received[rank]), (received[rank], rank + 0.19), color=FAINT, **beside)
    for number, (name, numbers) in enumerate(expected.items()):
        style: dict[str, Any] = {"colors": ALARM, "linestyles": ("-", "--", ":")[number % 3], "lw": 1.8, "zorder": 4}
        low, high = [rank - 0.45 for rank in ranks], [rank + 0.45 for rank in ranks]
        axes.vlines(numbers, low, high, label=name, gid=f"textbook {name}", **style)
    most = max([1.0, *sent, *received, *(number for numbers in expected.values() for number in numbers)])
    wide, room = axes.bbox.width * 72 / axes.figure.dpi, max(text_size(text, size)[0] for text in told) + 8
    axes.set(xlim=(0, most * wide / (wide - room)), ylim=(len(ranks) - 0.5, -0.5), xticks=[])
    axes.set_yticks(ranks, [f"rank {rank}" for rank in ranks], color=INK, fontsize=9 if len(ranks) <= 9 else 7.5)
    axes.tick_params(axis="y", length=0)
    axes.spines["bottom"].set_visible(False)


def _draw_key(figure: Figure, corner: tuple[float, float], axes: Axes, expected: Mapping[str, list[float]]) -> None:
    lines, names = axes.get_legend_handles_labels()
    solid, hatched = Patch(facecolor=FAINT, edgecolor=FAINT), Patch(facecolor=PAPER, edgecolor=FAINT, hatch=HATCH)
    names = ["sent", "received", *(f"{name}: {_span(expected[name])} sent" for name in names)]
    style: dict[str, Any] = {"frameon": False, "fontsize": 8, "handlelength": 1.6, "columnspacing": 1.2}
    handles = [solid, hatched, *lines]
    place = (corner[0] - 0.08) / WIDTH, (corner[1] - 0.02) / figure.get_figheight()
    figure.legend(handles, names, loc="upper left", bbox_to_anchor=place, ncols=min(3, len(names)), **style)


def _span(numbers: Sequence[float]) -> str:
    low, high = show_bytes(min(numbers)), show_bytes(max(numbers))
    return low if low == high else f"{low} to {high}"


def _text(events: Events, sent: list[list[int]], expected: Mapping[str, list[float]]) -> str:
    ranks = range(events.world_size)
    head = ["bytes sent", *(f"to {to}" for to in ranks), "sent", "received", "messages", *expected]
    rows = [
        [
            f"rank {rank}",
            *(str(amount or ".") for amount in sent[rank]),
            str(events.bytes_sent(rank)),
            str(events.bytes_received(rank)),
            str(events.messages_sent(rank)),
            *(f"{numbers[rank]:g}" for numbers in expected.values()),
        ]
        for rank in ranks
    ]
    widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
    lines = ["  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)) for row in (head, *rows)]
    return "\n".join([*lines, *_asked_of_collectives(events), *_dropped(events)])


def _asked_of_collectives(events: Events) -> list[str]:
    """Nobody can see from outside what a collective moves: only what each rank brought to it."""
    brought: Counter[tuple[str, int]] = Counter()
    for meeting in events.meetings:
        first = meeting.events[0]
        brought[name_call(first), max(event.bytes for event in meeting.events)] += 1
    if not brought:
        return []
    asked = [
        f"  {times} x {name}" + (f" of {show_bytes(size)}" if size else "") for (name, size), times in brought.items()
    ]
    return ["", "Besides, in collectives, whose own traffic is not counted above:", *asked]


def _dropped(events: Events) -> list[str]:
    return [f"Rank {rank} dropped {count(n, 'older call')}, not counted." for rank, n in enumerate(events.dropped) if n]


def _describe(events: Events, sent: list[list[int]]) -> str:
    total = sum(map(sum, sent))
    messages = sum(events.messages_sent(rank) for rank in range(events.world_size))
    return (
        f"Matrix of the bytes that {count(events.world_size, 'rank')} sent to each other, with totals for each rank: "
        f"{total:,} bytes in {count(messages, 'message')}."
    )
