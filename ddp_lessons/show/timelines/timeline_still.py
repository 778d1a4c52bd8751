"""The still image of a timeline: its document drawn at one width, by steps or by time as the document says."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ddp_lessons.show.figures.drawing import (
    SIZE,
    Box,
    Drawing,
    Line,
    Shape,
    Words,
    color_of_rank,
    ink_on,
    width_of,
)
from ddp_lessons.show.page.picture import count

WIDTH, LEFT = 760.0, 66.0  # pixels
BAR, LABELS, ROW, PHASE, AXIS, GAP = 22.0, 16.0, 16.0, 18.0, 24.0, 26.0
MOST_BLOCKS = 4  # of steps, one below the other
MOST_MESSAGES = 400
PHASE_COLORS = ("#CBD8E5", "#8FB0CC", "#4B5561", "#D3D8DE", "#3A709D", "#A9B2BD")
Call = Mapping[str, Any]
Document = Mapping[str, Any]
Columns = Mapping[int, tuple[float, float]]  # by step, its left edge and its width


def draw_timeline(document: Document) -> Drawing:
    shapes: list[Shape] = []
    y = 6.0
    if document["title"]:
        shapes.append(Words(8, y + 9, document["title"], is_bold=True))
        y += 24
    draw = _draw_steps if document["axis"] == "steps" else _draw_time
    more, y = draw(document, y)
    shapes += more
    for warning in [*(f"rank {one['rank']} {one['text']}" for one in document["warnings"]), *document["notes"]]:
        shapes.append(Words(8, y + 10, warning, "alarm"))
        y += 20
    if caption := document.get("caption"):
        shapes.append(Words(8, y + 10, caption, "faint"))
        y += 20
    return Drawing(WIDTH, y + 4, shapes)


def _color(call: Call) -> str:
    return color_of_rank(call["rank"]) if call["kind"] == "message" else str(call["kind"])


def _name_lane(rank: int, middle: float) -> Iterator[Shape]:
    yield Box(6, middle - 11, 5, 22, fill=color_of_rank(rank))
    yield Words(16, middle, f"rank {rank}")


# --- by steps ---------------------------------------------------------------------------------------------------------


def _draw_steps(document: Document, top: float) -> tuple[list[Shape], float]:
    """In blocks below each other, as lines of a text."""
    calls, ranks, pitch = document["calls"], document["ranks"], BAR + 26
    blocks, left_out = _blocks(calls)
    shapes: list[Shape] = []
    for columns in blocks:
        for rank in range(ranks):
            y = top + rank * pitch
            shapes.append(Box(LEFT - 4, y, WIDTH - LEFT, pitch, fill="paper" if rank % 2 else "band", corner=0))
            shapes.append(Line([(LEFT - 4, y + 4 + BAR / 2), (WIDTH - 4, y + 4 + BAR / 2)]))
            shapes += _name_lane(rank, y + 4 + BAR / 2)
        middles = {rank: top + rank * pitch + 4 + BAR / 2 for rank in range(ranks)}
        shapes += _links(document, columns, middles)
        for call in sorted(calls, key=lambda call: (call["step"], call["rank"])):  # whatever came first in this run
            if call["step"] in columns:
                shapes += _chip(call, *columns[call["step"]], middles[call["rank"]])
        shapes += _arrows_of_steps(document, columns, middles)
        top += ranks * pitch + 8
    if left_out:
        shapes.append(Words(8, top + 8, f"{count(left_out, 'further step')} left out.", "faint"))
        top += 20
    return shapes, top


def _blocks(calls: Sequence[Call]) -> tuple[list[dict[int, tuple[float, float]]], int]:
    """By step its left edge and its width, a block for each line; and how many steps found no place."""
    widest: dict[int, float] = {}
    for call in calls:
        widest[call["step"]] = max(widest.get(call["step"], 44.0), width_of(call["name"]) + 16)
    blocks: list[dict[int, tuple[float, float]]] = [{}]
    x = LEFT + 4
    for step in sorted(widest):
        if blocks[-1] and x + widest[step] > WIDTH - 8:
            if len(blocks) == MOST_BLOCKS:
                return blocks, len(widest) - sum(map(len, blocks))
            blocks.append({})
            x = LEFT + 4
        blocks[-1][step] = x, widest[step]
        x += widest[step] + GAP
    return blocks, 0


def _chip(call: Call, x: float, width: float, middle: float) -> Iterator[Shape]:
    place = x, middle - BAR / 2, width, BAR
    is_broken = bool(call.get("state"))
    waits = call.get("state") == "waits forever"
    yield Box(*place, "paper" if is_broken else _color(call), "alarm" if is_broken else "none", 1, 5, is_hatched=waits)
    ink = "alarm" if is_broken else ink_on(_color(call))
    yield Words(x + width / 2, middle, call["name"], ink, "middle", SIZE - 1)
    if "send" in call["name"]:
        yield Words(x, middle + BAR / 2 + 9, call["load"], "faint", size=SIZE - 1)


def _links(document: Document, columns: Columns, middles: Mapping[int, float]) -> Iterator[Shape]:
    for one in document["collectives"]:
        first = document["calls"][one["calls"][0]]
        for rank in one["missing"] if first["step"] in columns else ():
            (x, width), middle = columns[first["step"]], middles[rank]
            yield Box(x, middle - BAR / 2, width, BAR, edge="alarm", corner=5, is_dashed=True)
            yield Words(x + width / 2, middle, "no call", "alarm", "middle", SIZE - 1)
        ends = [document["calls"][number] for number in (one["calls"][0], one["calls"][-1])]
        if len(one["calls"]) > 1 and all(call["step"] in columns for call in ends):
            points = [(columns[call["step"]][0] + columns[call["step"]][1] / 2, middles[call["rank"]]) for call in ends]
            yield Line(points, "alarm" if one["is_odd"] else _color(ends[0]), 4, is_dashed=one["is_odd"])


def _arrows_of_steps(document: Document, columns: Columns, middles: Mapping[int, float]) -> Iterator[Line]:
    calls = document["calls"]
    pairs = [(calls[message["send"]], calls[message["recv"]]) for message in document["messages"]]
    for send, recv in sorted(pairs, key=lambda pair: [(call["step"], call["rank"]) for call in pair]):
        if send["step"] in columns and recv["step"] in columns:
            begin = sum(columns[send["step"]]), middles[send["rank"]]
            end = columns[recv["step"]][0], middles[recv["rank"]]
            yield Line([begin, end], "paper", 4)
            yield Line([begin, end], color_of_rank(send["rank"]), 1.8, has_head=True)


# --- by time ----------------------------------------------------------------------------------------------------------


class _Times:
    """Where the lanes are, and a moment in them."""

    def __init__(self, document: Document, top: float) -> None:
        self.calls = document["calls"]
        self.span = document["span"] or 1.0
        above = PHASE + 2 if document["phases"] else 4
        self.tops, self.mains = [], []
        for rank in range(document["ranks"]):
            rows = max((part[3] for call in self.calls if call["rank"] == rank for part in call["parts"]), default=0)
            self.tops.append(top)
            self.mains.append(top + above)
            top += above + BAR + LABELS + rows * ROW
        self.bottom = top

    def x(self, moment: float) -> float:
        return LEFT + 4 + moment / self.span * (WIDTH - LEFT - 16)

    def row(self, rank: int, row: int) -> tuple[float, float]:
        """The top and the height of a bar."""
        main = self.mains[rank]
        return (main + BAR + LABELS + (row - 1) * ROW, ROW - 2) if row else (main, BAR)

    def edge(self, call: Call, is_below: bool) -> float:
        top, height = self.row(call["rank"], max(part[3] for part in call["parts"]))
        return top + height if is_below else top


def _draw_time(document: Document, top: float) -> tuple[list[Shape], float]:
    times = _Times(document, top)
    shapes: list[Shape] = []
    bottoms = [*times.tops[1:], times.bottom]
    for rank, (begin, end) in enumerate(zip(times.tops, bottoms, strict=True)):
        shapes.append(Box(LEFT - 4, begin, WIDTH - LEFT, end - begin, fill="paper" if rank % 2 else "band", corner=0))
        middle = times.mains[rank] + BAR / 2
        shapes.append(Line([(LEFT - 4, middle), (WIDTH - 4, middle)]))
        shapes += _name_lane(rank, middle)
    shapes += _computing(document, times)
    shapes += _shapes_of_collectives(document, times)
    shapes += _phases(document, times)
    shapes += _bars(times)
    shapes += _arrows_of_time(document, times)
    shapes += _labels(times)
    shapes += _ticks(times)
    return shapes, times.bottom + AXIS


def _computing(document: Document, times: _Times) -> Iterator[Box]:
    """As high as the part of the time that the rank was on a CPU; together, where they are narrower than a pixel."""
    spans: list[list[float]] = []
    for rank, begin, end, share in document["computing"]:
        x, right = times.x(begin), times.x(end)
        if spans and spans[-1][0] == rank and right - spans[-1][1] < 1:
            spans[-1][2:] = right, spans[-1][3] + (right - x) * share
        else:
            spans.append([rank, x, right, (right - x) * share])
    for rank, x, right, filled in spans:
        height = BAR * filled / max(right - x, 1e-9)
        yield Box(x, times.mains[int(rank)] + (BAR - height) / 2, max(right - x, 0.5), height, "line", corner=0)


def _bars(times: _Times) -> Iterator[Box]:
    """Where they are so thin that they touch, one for all of them."""
    joined: dict[tuple[Any, ...], list[tuple[float, float]]] = {}
    for call in times.calls:
        for begin, end, look, row in call["parts"]:
            x, right = times.x(begin), times.x(end)
            right = max(right, x + (3.0 if look == "call" else 1.2))
            spans = joined.setdefault((call["rank"], row, look, _color(call)), [])
            if spans and right - x < 2 and x - spans[-1][1] < 0.5:
                spans[-1] = spans[-1][0], max(right, spans[-1][1])
            else:
                spans.append((x, right))
    for (rank, row, look, color), spans in joined.items():
        y, height = times.row(rank, row)
        for x, right in spans:
            if look in ("wait", "open", "never"):
                yield Box(x, y, right - x, height, "paper", "alarm" if look == "never" else color, is_hatched=True)
            elif look == "call":
                yield Box(x, y, right - x, height, "paper", color)
            else:
                yield Box(x, y, right - x, height, color)


def _shapes_of_collectives(document: Document, times: _Times) -> Iterator[Line]:
    """The begins joined, and the ends."""
    for one in document["collectives"]:
        calls = [document["calls"][number] for number in one["calls"]]
        if len(calls) > 1:
            color = "alarm" if one["is_odd"] else _color(calls[0])
            for when in ("begin", "end"):
                points = [(times.x(call[when]), times.mains[call["rank"]] + BAR / 2) for call in calls]
                yield Line(points, color, 1.0, is_dashed=one["is_odd"])


def _phases(document: Document, times: _Times) -> Iterator[Shape]:
    names = list(dict.fromkeys(phase["label"] for phase in document["phases"]))
    for phase in document["phases"]:
        color = PHASE_COLORS[names.index(phase["label"]) % len(PHASE_COLORS)]
        x, right, y = times.x(phase["begin"]), times.x(phase["end"]), times.tops[phase["rank"]] + 2
        yield Box(x, y, max(right - x - 1, 0.5), PHASE - 3, fill=color)
        if width_of(phase["label"], SIZE - 1) + 6 < right - x:
            ink = "#FFFFFF" if _is_dark(color) else "#111820"
            yield Words(x + 4, y + PHASE / 2 - 1, phase["label"], ink, size=SIZE - 1)


def _is_dark(color: str) -> bool:
    return sum(int(color[at : at + 2], 16) for at in (1, 3, 5)) < 330


def _arrows_of_time(document: Document, times: _Times) -> Iterator[Line]:
    if len(document["messages"]) > MOST_MESSAGES:  # they would hide all else
        return
    for message in document["messages"]:
        send, recv = document["calls"][message["send"]], document["calls"][message["recv"]]
        is_down = recv["rank"] > send["rank"]
        begin = times.x(message["begin"]), times.edge(send, is_down)
        end = times.x(message["end"]), times.edge(recv, not is_down)
        yield Line([begin, end], "paper", 3.6)
        yield Line([begin, end], color_of_rank(send["rank"]), 1.6, has_head=True)


def _labels(times: _Times) -> Iterator[Words]:
    """Names inside of bars where they fit, else below them where nothing is yet."""
    taken: dict[int, float] = {}
    for call in sorted(times.calls, key=lambda call: float(call["begin"])):
        width = width_of(call["name"], SIZE - 1)
        own_row = [part for part in call["parts"] if part[3]] or call["parts"]
        begin, end, look, row = max(own_row, key=lambda part: part[1] - part[0])
        y, height = times.row(call["rank"], row)
        if width + 8 < times.x(end) - times.x(begin):
            ink = ink_on(_color(call)) if look in ("move", "travel") else "ink"
            middle = (times.x(begin) + times.x(end)) / 2
            yield Words(middle, y + height / 2, call["name"], ink, "middle", SIZE - 1)
        else:
            x = min(times.x(call["begin"]), WIDTH - width - 8)
            if x >= taken.get(call["rank"], 0.0):
                taken[call["rank"]] = x + width + 6
                yield Words(
                    x,
                    times.mains[call["rank"]] + BAR + 8,
                    call["name"],
                    "alarm" if call.get("state") else "ink",
                    size=SIZE - 1,
                )


def _ticks(times: _Times) -> Iterator[Shape]:
    unit, name = (1e3, "s") if times.span >= 2000 else (1.0, "ms") if times.span >= 2 else (1e-3, "µs")
    step = _nice(times.span / 7)
    yield Line([(LEFT - 4, times.bottom), (WIDTH - 4, times.bottom)])
    for turn in range(math.floor(times.span / step + 1e-9) + 1):
        x = times.x(turn * step)
        yield Line([(x, times.bottom), (x, times.bottom + 5)])
        anchor = "end" if x + 30 > WIDTH else "middle"
        yield Words(x, times.bottom + 13, f"{turn * step / unit:.6g} {name}", "faint", anchor, SIZE - 1)


def _nice(at_least: float) -> float:
    """1, 2 or 5 times a power of ten."""
    power = 10.0 ** math.floor(math.log10(at_least))
    return next(times * power for times in (1, 2, 5, 10) if times * power >= at_least)
