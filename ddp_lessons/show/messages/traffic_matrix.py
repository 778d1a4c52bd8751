"""Who sent how many bytes to whom, and what each rank sent and received in all."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from numbers import Real
from typing import Any

from ddp_lessons.record.events import Events
from ddp_lessons.show.figures.drawing import COMMON, Bars, Box, Drawing, Line, Shape, color_of_rank, width_of
from ddp_lessons.show.figures.figure import Figure, write_figure
from ddp_lessons.show.figures.layouts import LEFT, Entry, figure_of, fits, key_at, label, name_rank, notes_at
from ddp_lessons.show.page.picture import count, events_of, name_recording, show_bytes
from ddp_lessons.show.page.printed import in_columns
from ddp_lessons.show.timelines.text_steps import name_call
from ddp_lessons.show.timelines.timeline_figure import NOTHING

ROW, LOW_ROW, WIDEST, HEAD, GAP = 34.0, 18.0, 64.0, 38.0, 10.0  # pixels
BESIDE = 700.0  # of a page: from here on, the totals fit next to the matrix
PALEST, STRONGEST = 0.12, 0.5  # color of a cell: words on it can be read on a light and on a dark page
MOST_RANKS, MOST_PAIRS = 16, 6
STYLES = [("ink", 2.5, False), ("ink", 2.5, True), ("faint", 2.5, False)]  # of textbooks, in turn
Textbook = float | Sequence[float] | Mapping[str, Any]


def traffic(results: Any, textbook: Textbook | None = None) -> Figure:
    """Draw a matrix of the bytes that ranks sent to each other, and the totals of each rank.

    If they ran on several nodes, it also says how much went from node to node.

    Args:
        results: what `launch` returned, or the exception that it raised.
        textbook: how many bytes a rank should send: a number for all, a sequence by rank, or a dict of names to these.
    """
    events = events_of(results)
    if not len(events):
        return write_figure(NOTHING)
    ranks = range(events.world_size)
    sent = [[events.bytes_sent(rank, to) for to in ranks] for rank in ranks]
    expected = _by_rank(textbook, len(ranks))
    about_run = [*_between_nodes(events, sent), *filter(None, [name_recording(results)])]

    def draw(width: float) -> Drawing:
        return _draw(events, sent, expected, about_run, width)

    return figure_of(draw, None, _text(events, sent, expected), _describe(events, sent))


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


def _between_nodes(events: Events, sent: list[list[int]]) -> list[str]:
    nodes = events.nodes
    if len(set(nodes)) < 2:
        return []
    pairs = [(rank, to) for rank, line in enumerate(sent) for to, amount in enumerate(line) if amount]
    across = [(rank, to) for rank, to in pairs if nodes[rank] != nodes[to]]
    total, between = (sum(sent[rank][to] for rank, to in some) for some in (pairs, across))
    named = ", ".join(f"{rank} to {to}" for rank, to in across[:MOST_PAIRS]) + ", ..." * (len(across) > MOST_PAIRS)
    return [f"between nodes: {show_bytes(between)} of {show_bytes(total)}{f' (rank {named})' if across else ''}"]


def _draw(
    events: Events,
    sent: list[list[int]],
    expected: Mapping[str, list[float]],
    about_run: Sequence[str],
    width: float,
) -> Drawing:
    """The totals are in the rows of the matrix, or below it."""
    shown = min(len(sent), MOST_RANKS)
    is_beside = width >= BESIDE
    cell = min(WIDEST, ((0.55 if is_beside else 1) * width - LEFT - 8) // shown)
    row = ROW if is_beside or cell > LOW_ROW else LOW_ROW
    shapes = [*_matrix([line[:shown] for line in sent[:shown]], cell, row)]
    bottom = HEAD + shown * row
    if is_beside:
        shapes += _totals(events, expected, shown, LEFT + shown * cell + 16, HEAD, width)
    else:
        names = [shape for rank in range(shown) for shape in name_rank(rank, bottom + GAP + (rank + 0.5) * ROW)]
        shapes += [*names, *_totals(events, expected, shown, LEFT, bottom + GAP, width)]
        bottom += GAP + shown * ROW
    key, bottom = key_at(bottom + 6, _key(expected), width)
    notes, bottom = notes_at(bottom, [*_notes(sent, shown, cell), *about_run], width)
    return Drawing(width, bottom + 4, [*shapes, *key, *notes])


def _matrix(sent: Sequence[Sequence[int]], cell: float, row: float) -> Iterator[Shape]:
    """Each row in the color of its rank, the stronger, the more was sent."""
    most = max(map(max, sent)) or 1
    yield label(4, 10, "bytes from … to rank", "faint")
    for to in range(len(sent)):
        yield label(LEFT + (to + 0.5) * cell, 28, str(to), anchor="middle")
    for rank, line in enumerate(sent):
        top = HEAD + rank * row
        yield from name_rank(rank, top + row / 2)
        yield Bars(LEFT + 1, top + row - 1, cell, row - 2, [1] * len(line), fill="band", gap=2)
        for to, amount in enumerate(line):
            if amount:
                opacity = PALEST + (STRONGEST - PALEST) * amount / most
                box = Box(LEFT + to * cell + 1, top + 1, cell - 2, row - 2, color_of_rank(rank), opacity=opacity)
                yield from _cell(box, show_bytes(amount), f"rank {rank} to rank {to}")


def _cell(box: Box, amount: str, way: str) -> Iterator[Shape]:
    words = _words(amount, box.width)
    yield box if words else replace(box, about=f"{way}: {amount}")
    for turn, word in enumerate(words):
        middle = box.y + box.height / 2 + 13 * (turn - (len(words) - 1) / 2)
        yield label(box.x + box.width / 2, middle, word, anchor="middle")


def _words(amount: str, room: float) -> list[str]:
    """In one line or in two, if they fit."""
    lines = [amount] if fits(amount, room - 3) else amount.split()
    return lines if all(fits(line, room - 1) for line in lines) else []


def _totals(
    events: Events, expected: Mapping[str, list[float]], shown: int, left: float, top: float, width: float
) -> Iterator[Shape]:
    """Two bars for each rank: sent, solid; received, hatched. The textbook's is a line across the first."""
    ranks = range(shown)
    sent, received = [events.bytes_sent(rank) for rank in ranks], [events.bytes_received(rank) for rank in ranks]
    told = [f"{show_bytes(sent[rank])} in {count(events.messages_sent(rank), 'message')}" for rank in ranks]
    most = max([1.0, *sent, *received, *(number for numbers in expected.values() for number in numbers[:shown])])
    scale = (width - left - max(width_of(text, COMMON) for text in told) - 12) / most
    for rank in ranks:
        y, color = top + rank * ROW, color_of_rank(rank)
        yield Box(left, y + 4, scale * sent[rank], 12, fill=color, edge=color)
        yield Box(left, y + 18, scale * received[rank], 12, edge=color, is_hatched=True)
        ends = [sent[rank], *(numbers[rank] for numbers in expected.values())]
        yield label(left + scale * max(ends) + 6, y + 10, told[rank])
        yield label(left + scale * received[rank] + 6, y + 24, show_bytes(received[rank]), "faint")
        for number, numbers in enumerate(expected.values()):
            yield _mark(number, left + scale * numbers[rank], y + 2)


def _mark(number: int, x: float, y: float) -> Line:
    color, thick, is_dashed = STYLES[number % len(STYLES)]
    return Line([(x, y), (x, y + 15)], color, thick, is_dashed=is_dashed)


def _key(expected: Mapping[str, list[float]]) -> list[Entry]:
    solid, hatched = Box(0, -5, 16, 10, "faint", "faint"), Box(0, -5, 16, 10, edge="faint", is_hatched=True)
    books = [(_mark(n, 8, -7), f"{name}: {_span(book)} sent") for n, (name, book) in enumerate(expected.items())]
    return [(solid, "sent"), (hatched, "received"), *books]


def _notes(sent: Sequence[Sequence[int]], shown: int, cell: float) -> list[str]:
    amounts = [show_bytes(amount) for line in sent[:shown] for amount in line[:shown] if amount]
    is_without_words = not all(_words(amount, cell - 2) for amount in amounts)
    notes = ["the stronger the color of a cell, the more bytes"] * is_without_words
    return notes + [f"{count(len(sent) - shown, 'further rank')} left out"] * (shown < len(sent))


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
    return "\n".join([*in_columns([head, *rows], "  ", slice(None)), *_more(events, sent)])


def _more(events: Events, sent: list[list[int]]) -> list[str]:
    return [*_between_nodes(events, sent), *_asked_of_collectives(events), *_dropped(events)]


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
