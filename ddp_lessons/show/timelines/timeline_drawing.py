"""Draw a timeline for one width: by time, or by steps, with each call in the column of its step."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain

from ddp_lessons.run.diagnosis.wording import count
from ddp_lessons.show.figures.drawing import FONT_SIZE, PALE, Area, Box, Drawing, Group, Line, Shape, Words
from ddp_lessons.show.figures.layouts import LEFT, Entry, cut, fits, fixed, key_at, notes_at
from ddp_lessons.show.figures.palette import color_of_rank, ink_on, width_of
from ddp_lessons.show.timelines.timeline_calls import Call, Part, Timeline

BAR, LABELS, ROW, PHASE, AXIS = 22.0, 18.0, 18.0, 18.0, 24.0  # pixels: heights in a lane, and of the axis
PITCH, GAP = 48.0, 26.0  # by steps: height of lanes, and gap between two columns, for the arrows
MOST_LANES = 48  # by steps, of the blocks below each other
MOST_MESSAGES = 400  # more would hide everything else
PHASE_COLORS = ("#CBD8E5", "#8FB0CC", "#4B5561", "#D3D8DE", "#3A709D", "#A9B2BD")
Columns = Mapping[int, tuple[float, float]]  # by step, the column's left edge and width


def draw_by_steps(line: Timeline, width: float) -> Drawing:
    """Draw the steps in blocks below each other, like lines of text."""
    blocks, left_out = _blocks(line, width)
    shapes: list[Shape] = []
    top = 2.0
    for columns in blocks:
        middles = [top + rank * PITCH + 4 + BAR / 2 for rank in range(line.ranks)]
        for rank, middle in enumerate(middles):
            shapes += _lane(rank, top + rank * PITCH, PITCH, middle, width)
            shapes += _name(rank, top + rank * PITCH, PITCH, middle)
        shapes += _links(line, columns, middles)
        calls = sorted(line.calls, key=lambda call: (call.step, call.rank))  # in any run, whichever rank was first
        shapes += [_chip(line, call, *columns[call.step], middles[call.rank]) for call in calls if call.step in columns]
        shapes += _arrows_of_steps(line, columns, middles, width)
        top += line.ranks * PITCH + 8
    notes = ["Columns show the order of the calls, not their times."]
    notes += [f"{count(left_out, 'more step')} not shown."] * bool(left_out)
    return _with_words(line, shapes, top, width, notes, _key(line, is_time=False))


def _lane(rank: int, top: float, height: float, middle: float, width: float) -> Iterator[Shape]:
    yield Box(LEFT - 4, top, width - LEFT, height, "paper" if rank % 2 else "band", corner=0)
    yield Line([(LEFT - 4, middle), (width - 4, middle)])


def _name(rank: int, top: float, height: float, middle: float) -> Iterator[Shape]:
    yield Box(0, top, LEFT - 4, height, "paper", corner=0)
    yield Box(6, middle - 11, 5, 22, color_of_rank(rank))
    yield Words(16, middle, f"rank {rank}")


def _with_words(
    line: Timeline, shapes: Sequence[Shape], y: float, width: float, notes: Sequence[str], key: Sequence[Entry]
) -> Drawing:
    """Add the legend, the warnings and the notes below the lanes."""
    signs, y = key_at(y + 2, key, width) if key else ([], y)
    below = signs
    for said, color in [*((warning, "alarm") for warning in line.warnings), *((note, "faint") for note in line.notes)]:
        words, y = notes_at(y + 2, [said], width, color)
        below += words
    words, y = notes_at(y, [" ".join(notes)], width)
    return Drawing(width, y + 4, [*shapes, fixed([*below, *words])])


def _color(call: Call) -> str:
    return color_of_rank(call.rank) if call.kind == "message" else call.kind


def _group(line: Timeline, call: Call, shapes: Sequence[Shape]) -> Group:
    others = " ".join(str(other.number) for other in line.members(call))
    return Group(shapes, {"call": call.number, "lane": call.rank, "with": others}, line.tell(call))


# --- by steps ---------------------------------------------------------------------------------------------------------


def _blocks(line: Timeline, width: float) -> tuple[list[dict[int, tuple[float, float]]], int]:
    """The columns of each block, by step, and the number of steps that don't fit."""
    widest: dict[int, float] = {}
    for call in line.calls:
        widest[call.step] = max(widest.get(call.step, 44.0), width_of(call.name, FONT_SIZE) + 16)
    blocks: list[dict[int, tuple[float, float]]] = [{}]
    x = LEFT + 4
    for step in sorted(widest):
        wide = min(widest[step], width - LEFT - 16)
        if blocks[-1] and x + wide > width - 8:
            if (len(blocks) + 1) * line.ranks > MOST_LANES:
                return blocks, len(widest) - sum(map(len, blocks))
            blocks.append({})
            x = LEFT + 4
        blocks[-1][step] = x, wide
        x += wide + GAP
    return blocks, 0


def _chip(line: Timeline, call: Call, x: float, width: float, middle: float) -> Group:
    is_broken, waits = bool(call.state), call.state == "waits forever"
    look = ("paper", "alarm") if is_broken else (_color(call), "none")
    ink = "alarm" if is_broken else ink_on(_color(call))
    name = Words(x + width / 2, middle, cut(call.name, width - 6), ink, "middle", has_halo=waits)
    shapes: list[Shape] = [Box(x, middle - BAR / 2, width, BAR, *look, corner=5, is_hatched=waits), name]
    if call.is_send:
        shapes.append(Words(x, middle + BAR / 2 + 9, cut(call.load, width + GAP - 4), "faint"))
    return _group(line, call, shapes)


def _links(line: Timeline, columns: Columns, middles: Sequence[float]) -> Iterator[Shape]:
    for one in line.collectives:
        first, last = one.calls[0], one.calls[-1]
        if len(one.calls) > 1 and {first.step, last.step} <= columns.keys():
            points = [(columns[call.step][0] + columns[call.step][1] / 2, middles[call.rank]) for call in (first, last)]
            yield Line(points, "alarm" if one.is_odd else _color(first), 4, is_dashed=one.is_odd)
        for rank in one.missing if first.step in columns else ():
            x, width = columns[first.step]
            yield Box(x, middles[rank] - BAR / 2, width, BAR, "paper", "alarm", corner=5, is_dashed=True)
            yield Words(x + width / 2, middles[rank], "no call", "alarm", "middle")


def _arrows_of_steps(line: Timeline, columns: Columns, middles: Sequence[float], width: float) -> Iterator[Line]:
    for one in sorted(line.messages, key=lambda one: (one.send.step, one.send.rank, one.recv.step, one.recv.rank)):
        is_begin, is_end = one.send.step in columns, one.recv.step in columns
        if is_begin or is_end:  # in another block, the arrow continues from the edge
            begin = sum(columns[one.send.step]) if is_begin else LEFT - 2
            end = columns[one.recv.step][0] if is_end else width - 6
            between = (middles[one.send.rank] + middles[one.recv.rank]) / 2
            heights = middles[one.send.rank] if is_begin else between, middles[one.recv.rank] if is_end else between
            yield from _arrow((begin, heights[0]), (end, heights[1]), one.send.rank)


def _arrow(begin: tuple[float, float], end: tuple[float, float], rank: int) -> Iterator[Line]:
    yield Line([begin, end], "paper", 4)
    yield Line([begin, end], color_of_rank(rank), 1.8, has_head=True)


# --- by time ----------------------------------------------------------------------------------------------------------


def draw_by_time(line: Timeline, width: float) -> Drawing:
    lanes = _Lanes(line, width)
    shapes: list[Shape] = []
    for rank, (top, height) in enumerate(lanes.places):
        shapes += _lane(rank, top, height, lanes.main(rank) + BAR / 2, width)
    shapes += _computing(line, lanes)
    shapes += _areas(line, lanes)
    boxes, names = _phases(line, lanes)
    shapes += boxes
    shapes += [_group(line, call, [_bar(call, part, lanes) for part in call.parts]) for call in line.calls]
    shapes += _arrows_of_time(line, lanes)
    shapes += [*names, *_labels(line.calls, lanes)]
    shapes += _ticks(line.span, lanes)
    names_of_ranks = (_name(rank, *place, lanes.main(rank) + BAR / 2) for rank, place in enumerate(lanes.places))
    shapes.append(fixed(chain.from_iterable(names_of_ranks)))
    return _with_words(line, shapes, lanes.bottom + AXIS, width, ["Time runs to the right."], _key(line, is_time=True))


class _Lanes:
    """The positions of lanes and moments."""

    def __init__(self, line: Timeline, width: float) -> None:
        self.width, self._span, self._above = width, line.span or 1.0, PHASE + 4 if line.phases else 4.0
        rows = [0] * line.ranks
        for call in line.calls:
            rows[call.rank] = max(rows[call.rank], call.row)
        self.places: list[tuple[float, float]] = []
        self.bottom = 2.0
        for most in rows:
            self.places.append((self.bottom, self._above + BAR + LABELS + most * ROW))
            self.bottom += self.places[-1][1]

    def x(self, moment: float) -> float:
        return LEFT + moment / self._span * (self.width - LEFT - 16)

    def main(self, rank: int) -> float:
        """The top of the rank's own bars."""
        return self.places[rank][0] + self._above

    def row(self, rank: int, row: int) -> tuple[float, float]:
        """The top and the height of a bar."""
        main = self.main(rank)
        return (main + BAR + LABELS + (row - 1) * ROW, ROW - 2) if row else (main, BAR)


def _computing(line: Timeline, lanes: _Lanes) -> Iterator[Box]:
    """Bars as high as the fraction of time that the rank was on a CPU; those narrower than a pixel are merged."""
    spans: list[tuple[int, float, float, float]] = []
    for rank, begin, end, share in line.computing:
        x, right = lanes.x(begin), lanes.x(end)
        filled = (right - x) * share
        if spans and spans[-1][0] == rank and right - spans[-1][2] < 1:
            _, x, _, before = spans.pop()
            filled += before
        spans.append((rank, x, right, filled))
    for rank, x, right, filled in spans:
        height = BAR * filled / max(right - x, 1e-9)
        yield Box(x, lanes.main(rank) + (BAR - height) / 2, max(right - x, 0.5), height, "line", corner=0)


def _areas(line: Timeline, lanes: _Lanes) -> Iterator[Shape]:
    """The area of a collective behind its bars, from their begins to their ends."""
    for one in line.collectives:
        if len(one.calls) > 1:
            begins = [(lanes.x(call.begin), lanes.main(call.rank) + BAR / 2) for call in one.calls]
            ends = [(lanes.x(call.end), lanes.main(call.rank) + BAR / 2) for call in reversed(one.calls)]
            if one.is_odd:
                yield Line([*begins, *ends, begins[0]], "alarm", is_dashed=True)
            else:
                yield Area([*begins, *ends], _color(one.calls[0]))


def _phases(line: Timeline, lanes: _Lanes) -> tuple[list[Box], list[Words]]:
    """The phases and their names, which no arrow may cover."""
    colors = _colors_of_phases(line)
    boxes, names = [], []
    for phase in line.phases:
        x, right, y = lanes.x(phase.begin), lanes.x(phase.end), lanes.places[phase.rank][0] + 2
        boxes.append(Box(x, y, max(right - x - 1, 0.5), PHASE - 2, colors[phase.label]))
        if fits(phase.label, right - x - 6):
            ink = ink_on(colors[phase.label])
            names.append(Words((x + right) / 2, y + PHASE / 2 - 1, phase.label, ink, "middle"))
    return boxes, names


def _colors_of_phases(line: Timeline) -> dict[str, str]:
    labels = dict.fromkeys(phase.label for phase in line.phases)
    return {name: PHASE_COLORS[turn % len(PHASE_COLORS)] for turn, name in enumerate(labels)}


def _bar(call: Call, part: Part, lanes: _Lanes) -> Box:
    x, (y, height) = lanes.x(part.begin), lanes.row(call.rank, part.row)
    width = max(lanes.x(part.end) - x, 3.0 if part.look == "call" else 1.2)
    return Box(x, y, width, height, *_look(part.look, _color(call)), is_hatched=part.look in ("wait", "open", "never"))


def _look(look: str, color: str) -> tuple[str, str]:
    """The fill and the edge of a part of a call."""
    if look in ("move", "travel"):
        return color, "none"
    return "paper", "alarm" if look == "never" else color


def _arrows_of_time(line: Timeline, lanes: _Lanes) -> Iterator[Line]:
    for one in line.messages if len(line.messages) <= MOST_MESSAGES else ():
        is_down = one.recv.rank > one.send.rank
        begin, end = (_edge(call, below, lanes) for call, below in ((one.send, is_down), (one.recv, not is_down)))
        yield from _arrow((lanes.x(one.begin), begin), (lanes.x(one.end), end), one.send.rank)


def _edge(call: Call, is_below: bool, lanes: _Lanes) -> float:
    top, height = lanes.row(call.rank, call.row)
    return top + height if is_below else top


def _labels(calls: Sequence[Call], lanes: _Lanes) -> Iterator[Words]:
    """Names inside the bars if they fit, otherwise below them if there is space."""
    taken: dict[int, float] = {}
    for call in sorted(calls, key=lambda call: call.begin):
        name = f"{call.name}, {call.state}" if call.state else call.name
        width, ink = width_of(name, FONT_SIZE), "alarm" if call.state else "ink"
        own_row = [part for part in call.parts if part.row] or call.parts
        widest = max(own_row, key=lambda part: part.end - part.begin)
        if width + 8 < lanes.x(widest.end) - lanes.x(widest.begin):
            yield _label_in(name, call, widest, ink, lanes)
        else:
            x = min(lanes.x(call.begin), lanes.width - width - 8)
            if x >= taken.get(call.rank, 0.0):
                taken[call.rank] = x + width + 6
                yield Words(x, lanes.main(call.rank) + BAR + 8, name, ink, has_halo=True)
        for part in call.parts if call.is_in_background else ():
            if part.row == 0 and part.look in ("wait", "move") and lanes.x(part.end) - lanes.x(part.begin) > 40:
                yield _label_in("wait", call, part, ink, lanes)


def _label_in(name: str, call: Call, part: Part, ink: str, lanes: _Lanes) -> Words:
    y, height = lanes.row(call.rank, part.row)
    is_filled = part.look in ("move", "travel")
    middle = (lanes.x(part.begin) + lanes.x(part.end)) / 2
    ink = ink_on(_color(call)) if is_filled else ink
    return Words(middle, y + height / 2, name, ink, "middle", has_halo=not is_filled)


def _ticks(span: float, lanes: _Lanes) -> Iterator[Shape]:
    unit, name = (1e3, "s") if span >= 2000 else (1.0, "ms") if span >= 2 else (1e-3, "µs")
    step = _nice((span or 1.0) * 90 / (lanes.width - LEFT))
    yield Line([(LEFT - 4, lanes.bottom), (lanes.width - 4, lanes.bottom)])
    for turn in range(math.floor(span / step + 1e-9) + 1):
        x = lanes.x(turn * step)
        yield Line([(x, lanes.bottom), (x, lanes.bottom + 5)])
        anchor = "end" if x + 30 > lanes.width else "middle" if turn else "start"
        yield Words(x, lanes.bottom + 13, f"{turn * step / unit:.6g} {name}", "faint", anchor)


def _nice(at_least: float) -> float:
    """1, 2 or 5 times a power of ten."""
    power = 10.0 ** math.floor(math.log10(at_least))
    return next(times * power for times in (1, 2, 5, 10) if times * power >= at_least)


# --- the key ----------------------------------------------------------------------------------------------------------


def _key(line: Timeline, *, is_time: bool) -> list[Entry]:
    looks = {part.look for call in line.calls for part in call.parts}
    kinds = {call.kind for call in line.calls}
    bands = is_time and any(len(one.calls) > 1 for one in line.collectives)
    waits, moves = bool(looks & {"wait", "open"}), bool(looks & {"move", "travel"})
    signs: Iterable[tuple[Box, str, bool]] = (
        (_sign("line"), "computing (height: fraction of a core)", is_time and bool(line.computing)),
        (_sign("line", height=1), "not computing (asleep or waiting for a core)", is_time),
        (
            _sign("paper", "faint", is_hatched=True),
            "waiting for another rank",
            is_time and waits,
        ),
        (_sign("faint"), "transferring data", is_time and moves),
        (_sign("paper", "faint", width=5), "starting a call", is_time and "call" in looks),
        (_sign("faint", height=5), "lower row: runs in the background", is_time and "call" in looks),
        (_sign("paper", "alarm", is_hatched=True), "waits forever", "never" in looks),
        (_sign("collective", opacity=PALE), "one collective on all its ranks", bands),
        (_sign("collective"), "collective", "collective" in kinds),
        (_sign("ddp"), "called by DDP", "ddp" in kinds),
    )
    phases = [(_sign(color), name, is_time) for name, color in _colors_of_phases(line).items()]
    return [(sign, words) for sign, words, is_there in [*signs, *phases] if is_there]


def _sign(
    fill: str, edge: str = "none", width: float = 16, height: float = 11, opacity: float = 1, is_hatched: bool = False
) -> Box:
    return Box(8 - width / 2, -height / 2, width, height, fill, edge, opacity, is_hatched=is_hatched)
