"""Values that travel between ranks, step by step: the data of such a figure, and its still image.

A cell has the tone of the rank that its value comes from; "part" is a sum of some ranks' values, "sum" is what was
computed from all that there is.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from ddp_lessons.show.figures.drawing import SIZE, Box, Drawing, Line, Shape, Words, color_of_rank, ink_on, width_of
from ddp_lessons.show.figures.figure import Figure
from ddp_lessons.show.figures.layouts import moved
from ddp_lessons.show.page.picture import count

Tone = int | str
Cell = tuple[str, Tone]
Held = Sequence[Sequence[Cell]]  # the tensors of one rank
WIDTH, LEFT, RIGHT = 760.0, 70.0, 8.0  # pixels
HEAD, CELL, BETWEEN, BAND = 26.0, 22.0, 4.0, 44.0
MOST_STEPS = 6  # that a still shows


@dataclass(frozen=True)
class Move:
    """A value on its way."""

    sender: int
    receiver: int
    text: str
    tone: Tone


@dataclass(frozen=True)
class Step:
    caption: str
    moves: Sequence[Move]


@dataclass(frozen=True)
class Exchange:
    """States, and one step between each two of them."""

    title: str
    alt: str
    states: Sequence[Sequence[Held]]
    steps: Sequence[Step]
    first: str = "Before."
    empty: str = "nothing"  # what a rank has in the end that got no result
    sent: Sequence[Sequence[str]] | None = None  # by state and rank, how much it has sent so far
    is_ring: bool = False
    is_collective: bool = False  # one step, in which all that moves does so at once
    source: str = ""  # the name of what is drawn before rank 0 and gives values to the ranks, if there is one

    @property
    def document(self) -> dict[str, Any]:
        held_by_state = [[[list(map(list, tensor)) for tensor in held] for held in state] for state in self.states]
        states = [
            {"held": held} | ({"sent": self.sent[n]} if self.sent else {}) for n, held in enumerate(held_by_state)
        ]
        return {
            "kind": "exchange",
            "title": self.title,
            "alt": self.alt,
            "layout": "ring" if self.is_ring else "flow" if self.is_collective else "row",
            "ranks": len(self.states[0]),  # and the source
            "source": self.source,
            "states": states,
            "steps": [{"caption": step.caption, "moves": [_plain(move) for move in step.moves]} for step in self.steps],
            "first": self.first,
            "empty": self.empty,
            "plays": self.is_collective,  # by itself, when it is first seen
        }

    def figure(self, text: str) -> Figure:
        document = self.document
        return Figure(document, draw_exchange(document), text, self.alt)


def _plain(move: Move) -> dict[str, Any]:
    return {"from": move.sender, "to": move.receiver} | {name: asdict(move)[name] for name in ("text", "tone")}


def sheet_of(exchanges: Sequence[Exchange], title: str, alt: str, text: str) -> Figure:
    """Several on one page."""
    documents = [exchange.document for exchange in exchanges]
    sheet = {"kind": "sheet", "title": title, "alt": alt, "figures": documents, "plays": False}
    return Figure(sheet, draw_sheet(documents), text, alt)


def draw_sheet(documents: Sequence[Mapping[str, Any]], columns: int = 2) -> Drawing:
    shapes: list[Shape] = []
    wide, y = WIDTH / columns, 0.0
    for first in range(0, len(documents), columns):
        panels = [draw_exchange(document, wide - 6) for document in documents[first : first + columns]]
        for column, panel in enumerate(panels):
            shapes += [moved(shape, column * wide, y) for shape in panel.shapes]
        y += max(panel.height for panel in panels) + 10
    return Drawing(WIDTH, y, shapes)


def draw_exchange(document: Mapping[str, Any], width: float = WIDTH) -> Drawing:
    """A column for each rank, a row for each state, and between two rows the arrows of the step."""
    ranks, states, steps = document["ranks"], document["states"], document["steps"]
    shown = len(steps) if len(steps) <= MOST_STEPS else MOST_STEPS
    pitch = (width - LEFT - RIGHT) / ranks
    cell = min(max(max(map(_widest, states)) + 16, 56), pitch - 6)
    size = min(SIZE - 1, max((cell - 4) / max(max(map(_widest, states)), 1) * (SIZE - 1), 6))
    middles = [LEFT + (rank + 0.5) * pitch for rank in range(ranks)]
    shapes: list[Shape] = []
    y = 4.0
    if document["title"]:
        shapes.append(Words(8, y + 9, document["title"], is_bold=True))
        y += 22
    for place, x in enumerate(middles):
        name, color = _name_and_color(document, place)
        name = name if cell >= 56 else name.removeprefix("rank ")
        shapes.append(Box(x - cell / 2, y, cell, HEAD - 6, color, corner=4))
        shapes.append(Words(x, y + (HEAD - 6) / 2, name, ink_on(color), "middle", SIZE - 1, True))
    y += HEAD
    for number in range(shown + 1):
        held = states[number]["held"]
        tall = max(max(map(_height, held)), CELL)
        names = {0: "before", len(steps): "after"}
        shapes.append(Words(8, y + tall / 2, names.get(number, f"step {number}"), "faint", size=SIZE - 1))
        for rank, x in enumerate(middles):
            empty = document["empty"] if number == len(steps) else "nothing"
            shapes += _cells(held[rank], x, y + (tall - max(_height(held[rank]), CELL)) / 2, cell, size, empty)
        y += tall
        if number < shown:
            shapes += _ways(document, steps[number]["moves"], middles, y)
            y += BAND
    if shown < len(steps):
        shapes.append(Words(8, y + 14, f"{count(len(steps) - shown, 'further step')} left out.", "faint"))
        y += 26
    return Drawing(width, y + 6, shapes)


def _widest(state: Mapping[str, Any]) -> float:
    texts = [text for held in state["held"] for tensor in held for text, _ in tensor]
    return max((width_of(text, SIZE - 1) for text in texts), default=0.0)


def _height(held: Held) -> float:
    return sum(len(tensor) * CELL + BETWEEN for tensor in held) - BETWEEN if held else 0.0


def _cells(held: Held, x: float, y: float, width: float, size: float, empty: str) -> Iterator[Shape]:
    if not held:
        yield Words(x, y + CELL / 2, empty, "faint", "middle", min(size, SIZE - 1))
    for tensor in held:
        for text, tone in tensor:
            place = x - width / 2, y + 1, width, CELL - 2
            if tone == "sum":
                yield Box(*place, fill="collective", corner=3)
            elif tone == "part":
                yield Box(*place, fill="band", edge="faint", corner=3, is_dashed=True)
            else:
                color = color_of_rank(int(tone))
                yield Box(*place, fill=color, edge=color, opacity=0.2, corner=3)
            ink = ink_on("collective") if tone == "sum" else "ink"
            yield Words(x, y + CELL / 2, text, ink, "middle", size)
            y += CELL
        y += BETWEEN


def _ways(
    document: Mapping[str, Any], moves: Sequence[Mapping[str, Any]], middles: Sequence[float], y: float
) -> Iterator[Shape]:
    for move in moves:
        if move["from"] != move["to"]:
            points = [(middles[move["from"]], y + 3), (middles[move["to"]], y + BAND - 4)]
            yield Line(points, _name_and_color(document, move["from"])[1], 1.6, has_head=True)
    if len(moves) == 1:  # of many, the texts would cover each other
        (move,) = moves
        x, edge = (middles[move["from"]] + middles[move["to"]]) / 2, _name_and_color(document, move["from"])[1]
        wide = width_of(move["text"], SIZE - 1) + 10
        yield Box(x - wide / 2, y + BAND / 2 - 10, wide, 20, fill="paper", edge=edge, corner=4)
        yield Words(x, y + BAND / 2, move["text"], "ink", "middle", SIZE - 1)


def _name_and_color(document: Mapping[str, Any], place: int) -> tuple[str, str]:
    """Of a rank, or of what gives to the ranks."""
    if not document["source"]:
        return f"rank {place}", color_of_rank(place)
    return (f"rank {place - 1}", color_of_rank(place - 1)) if place else (document["source"], "collective")
