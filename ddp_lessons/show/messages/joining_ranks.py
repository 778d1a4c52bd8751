"""How ranks find each other: each gets four variables, joins through a store, and then communicates directly."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ddp_lessons.record.event import Event, Meeting
from ddp_lessons.record.events import Events
from ddp_lessons.record.rank_record import NEW_GROUPS
from ddp_lessons.run.diagnosis.wording import ranks_named
from ddp_lessons.show.figures.drawing import Box, color_of_rank, ink_on
from ddp_lessons.show.figures.figure import Figure, write_figure
from ddp_lessons.show.figures.films import Cue, Film, film_of
from ddp_lessons.show.figures.layouts import cut, label
from ddp_lessons.show.page.picture import count, events_of

NARROWEST_CARD, WIDEST_CARD, GAP, BETWEEN = 172.0, 240.0, 14.0, 34.0  # pixels
HEAD, ROW, CHIP = 22.0, 20.0, 12.0
NOTICEABLE_SECONDS, MOST_RANKS = 0.1, 8
ALREADY_JOINED = "The ranks had joined before your function began: launch(..., join=False) leaves it to the function."
Point = tuple[float, float]


@dataclass(frozen=True)
class Coming:
    """Ranks on their way to one store."""

    joins: Mapping[int, Event]  # the first call of init_process_group of each rank that made one
    given: Sequence[Mapping[str, str]]  # by rank, what it was told
    first_call: Meeting | None  # that all of them made afterwards

    @property
    def ranks(self) -> range:
        return range(len(self.given))

    @property
    def place(self) -> str:
        """Where most of them go."""
        return Counter(event.group for event in self.joins.values()).most_common(1)[0][0]

    @property
    def arrivals(self) -> list[int]:
        """Those that come to that store, in the order in which they came."""
        here = [rank for rank, event in self.joins.items() if event.group == self.place]
        return sorted(here, key=lambda rank: self.joins[rank].begin)

    @property
    def have_met(self) -> bool:
        return all(rank in self.joins and _is_through(self.joins[rank]) for rank in self.ranks)

    @property
    def is_opened_by_rank_0(self) -> bool:
        return any("MASTER_ADDR" in one for one in self.given) and 0 in self.arrivals

    @property
    def opening_step(self) -> int:
        """From which step on the store is there: ranks may call before rank 0 has opened it."""
        return self.arrivals.index(0) + 2 if self.is_opened_by_rank_0 else 2

    @property
    def meeting_step(self) -> int:
        """Step 1 starts the processes; each arrival is one more."""
        return len(self.arrivals) + 2


def joining(results: Any, title: str | None = None) -> Figure:
    """Show how the ranks of a launch found each other: `launch(..., join=False)`, and a function that joins.

    Args:
        results: what `launch` returned, or the exception that it raised.
        title: a heading.
    """
    coming = _coming(events_of(results))
    if not coming.joins:
        return write_figure(ALREADY_JOINED)
    if len(coming.ranks) > MOST_RANKS:
        return write_figure(f"{len(coming.ranks)} ranks are too many to be drawn: show at most {MOST_RANKS}.")
    captions = [*_captions(coming)]
    last = len(captions) - 1
    moments = [len(coming.arrivals), last] if coming.have_met else [last]
    return film_of(
        lambda width: _draw(coming, last, width), captions, moments, title or "", _text(coming), _describe(coming)
    )


def _coming(events: Events) -> Coming:
    joins: dict[int, Event] = {}
    for event in events:
        if event.operation == "init_process_group":
            joins.setdefault(event.rank, event)
    given = [_given(events.variables(rank), joins.get(rank)) for rank in range(events.world_size)]
    later = (one for one in events.meetings if one.operation not in (*NEW_GROUPS, "init_process_group"))
    return Coming(joins, given, next((one for one in later if one.is_agreed), None))


def _given(variables: dict[str, str], join: Event | None) -> dict[str, str]:
    """What a rank joins by: its variables, or a rank and a world size that it gives itself."""
    if join is None or join.group.partition(" again")[0] == f"port {variables.get('MASTER_PORT')}":
        return variables
    return {"rank": str(join.tag), "world_size": str(len(join.group_ranks))}


def _is_through(join: Event) -> bool:
    return join.end is not None and not join.error


def _captions(coming: Coming) -> Iterator[str]:
    total = len(coming.ranks)
    alike = " Only RANK differs." if any("RANK" in one for one in coming.given) else ""
    yield "One process: the notebook's."
    yield f"launch starts {total} process{'es' * (total > 1)} and gives each its variables.{alike}"
    first = coming.joins[coming.arrivals[0]].begin
    for number, rank in enumerate(coming.arrivals, 1):
        later = coming.joins[rank].begin - first
        after = f" {later:.1f} s after rank {coming.arrivals[0]}" if later >= NOTICEABLE_SECONDS else ""
        waits = ": waiting" if number < total else ""
        if number + 1 < coming.opening_step:
            yield f"Rank {rank} calls init_process_group{after}. Rank 0 has not opened the store yet: waiting."
            continue
        opens = " and opens the store" if rank == 0 and coming.is_opened_by_rank_0 else ""
        yield f"Rank {rank} calls init_process_group{after}{opens}. {number} of {total} ranks have joined{waits}."
    if coming.have_met:
        yield "Each rank reads the addresses of the others: the group exists, and init_process_group returns."
        if coming.first_call:
            yield f"{coming.first_call.operation}: the ranks communicate directly. Nothing goes through the store."
    else:
        yield f"{_missing(coming)}, so init_process_group does not return on any rank."


def _missing(coming: Coming) -> str:
    failed = [rank for rank, join in coming.joins.items() if join.error]
    if failed:
        return f"In {ranks_named(sorted(failed))} it raised an error"
    absent = sorted({*coming.ranks} - {*coming.arrivals})
    return f"{ranks_named(absent)[0].upper()}{ranks_named(absent)[1:]} did not join" if absent else "Not all joined"


@dataclass(frozen=True)
class Room:
    """Where the cards are: the notebook and the store above, the ranks below."""

    width: float
    columns: int
    above: float  # the height of the upper cards
    tall: float  # and of a rank's

    @property
    def wide(self) -> float:
        return min((self.width - 8 - (self.columns - 1) * GAP) / self.columns, WIDEST_CARD)

    @property
    def wide_above(self) -> float:
        return min(self.wide, (self.width - 8 - GAP) / 2)

    @property
    def store(self) -> Point:
        all_columns = self.columns * (self.wide + GAP) - GAP
        return 4 + max(all_columns - self.wide_above, self.wide_above + GAP), 4.0

    def of_rank(self, rank: int) -> Point:
        row, column = divmod(rank, self.columns)
        return 4 + column * (self.wide + GAP), 4 + self.above + BETWEEN + row * (self.tall + GAP)

    def row(self, rank: int, number: int) -> Point:
        """Of what a rank holds, one below the other."""
        x, y = self.of_rank(rank)
        return x + 6, y + HEAD + 3 + number * ROW

    def noted(self, number: int) -> Point:
        """In the store, two in a row."""
        return self.store[0] + 6 + number % 2 * self.wide_above / 2, self.store[1] + HEAD + 4 + (2 + number // 2) * ROW


NOTEBOOK: Point = (4.0, 4.0)


def _draw(coming: Coming, last: int, width: float) -> Film:
    total = len(coming.ranks)
    columns = max(1, min(total, int((width - 8 + GAP) / (NARROWEST_CARD + GAP))))
    above = HEAD + 8 + ROW * (2 + (total + 1) // 2)
    room = Room(width, columns, above, HEAD + 6 + ROW * (max(map(len, coming.given)) + 2))
    cues = [*_notebook(coming, room), *_store(coming, room)]
    for rank in coming.ranks:
        cues += [*_card(f"rank {rank}", color_of_rank(rank), room.of_rank(rank), (room.wide, room.tall), 1)]
        cues += [*_held(coming, room, rank, last)]
    return Film(width, room.of_rank(total - 1)[1] + room.tall + 6, cues)


def _card(name: str, color: str, corner: Point, size: Point, since: int) -> Iterator[Cue]:
    """Before its process is there, only its outline."""
    x, y = corner
    yield Cue(Box(x, y, *size, edge="line", corner=6, is_dashed=True), until=since or None)
    yield Cue(Box(x, y, *size, "paper", color, corner=6), since)
    yield Cue(Box(x, y, size[0], HEAD, color, corner=6), since)
    yield Cue(label(x + size[0] / 2, y + HEAD / 2, name, ink_on(color), "middle", is_bold=True), since)


def _notebook(coming: Coming, room: Room) -> Iterator[Cue]:
    x, y = NOTEBOOK
    yield from _card("notebook", "collective", NOTEBOOK, (room.wide_above, room.above), 0)
    words = ("starts the processes", "and collects the results")
    for number, line in enumerate(words):
        yield Cue(label(x + 6, y + HEAD + 4 + (number + 0.5) * ROW, cut(line, room.wide_above - 10)), 1)


def _store(coming: Coming, room: Room) -> Iterator[Cue]:
    """Each rank leaves its address there."""
    (x, y), wide = room.store, room.wide_above
    opening = coming.opening_step
    yield from _card("store", "collective", room.store, (wide, room.above), opening)
    told = next((one for one in coming.given if "MASTER_ADDR" in one), None)
    words = [coming.place] if told is None else [f"{told['MASTER_ADDR']}, {coming.place}", "opened by rank 0"]
    for number, line in enumerate(words):
        yield Cue(label(x + 6, y + HEAD + 4 + (number + 0.5) * ROW, cut(line, wide - 10), "faint"), opening)
    for number, rank in enumerate(coming.arrivals):
        (left, top), start = room.noted(number), room.of_rank(rank)
        color, origin = color_of_rank(rank), (start[0] - left + 20, start[1] - top)
        cell = Box(left, top + 1, wide / 2 - 10, ROW - 3, color, color, 0.2, 3)
        for shape in (cell, label(left + wide / 4 - 5, top + ROW / 2, f"rank {rank}", anchor="middle")):
            yield Cue(shape, max(number + 2, opening), origin=origin)


def _held(coming: Coming, room: Room, rank: int, last: int) -> Iterator[Cue]:
    """What a rank was told, whether it waits, whom it knows, and from whom it has heard."""
    given = coming.given[rank]
    for number, (name, value) in enumerate(given.items()):
        yield from _variable(f"{name}={value}", room, rank, number, is_own=name.lower() == "rank")
    row, met = max(map(len, coming.given)), coming.meeting_step
    x, y = room.row(rank, row)
    if rank in coming.arrivals:
        arrived, until = coming.arrivals.index(rank) + 2, met if coming.have_met else None
        yield Cue(label(x, y + ROW / 2, "in init_process_group"), arrived, until)
    else:
        yield Cue(label(x, y + ROW / 2, "did not join", "alarm"), last)
    if coming.have_met:
        store = room.store
        yield from _chips("knows", coming, (x, y), met, dict.fromkeys(coming.ranks, store))
        if coming.first_call:
            starts = {other: room.row(other, row + 1) for other in coming.ranks}
            yield from _chips(coming.first_call.operation, coming, room.row(rank, row + 1), met + 1, starts)


def _variable(text: str, room: Room, rank: int, number: int, *, is_own: bool) -> Iterator[Cue]:
    """On its way from the notebook."""
    (x, y), color = room.row(rank, number), color_of_rank(rank)
    fill, edge = (color, color) if is_own else ("band", "line")
    origin = NOTEBOOK[0] - x + 6, NOTEBOOK[1] + HEAD - y
    cell = Box(x, y + 1, room.wide - 12, ROW - 3, fill, edge, 0.2 if is_own else 1, 3)
    for shape in (cell, label(x + 4, y + ROW / 2, cut(text, room.wide - 18), is_bold=is_own)):
        yield Cue(shape, 1, origin=origin)


def _chips(name: str, coming: Coming, place: Point, since: int, starts: Mapping[int, Point]) -> Iterator[Cue]:
    """A small square for each rank, from where it comes."""
    x, y = place
    yield Cue(label(x, y + ROW / 2, name), since)
    for rank in coming.ranks:
        left, top = x + 72 + rank * (CHIP + 3), y + (ROW - CHIP) / 2
        chip = Box(left, top, CHIP, CHIP, color_of_rank(rank), about=f"rank {rank}")
        yield Cue(chip, since, origin=(starts[rank][0] - left, starts[rank][1] - top))


def _text(coming: Coming) -> str:
    """Ports are others in each run, and so is the order in which ranks come."""
    lines = []
    for rank in coming.ranks:
        told = [name if name == "MASTER_PORT" else f"{name}={value}" for name, value in coming.given[rank].items()]
        came = "wrote its address to the store" if rank in coming.arrivals else "did not join"
        lines.append(" | ".join([f"rank {rank}", *told, came, *["read the others' addresses"] * coming.have_met]))
    call = coming.first_call.operation if coming.first_call and coming.have_met else ""
    ends = f"{call}: the ranks communicate directly" if call else ""
    return "\n".join([*lines, *([ends] if ends else []), *([] if coming.have_met else [f"{_missing(coming)}."])])


def _describe(coming: Coming) -> str:
    ranks = count(len(coming.ranks), "rank")
    if coming.have_met:
        return f"{ranks} start, write their addresses to a store, and communicate directly once all have joined."
    return f"{ranks} start, and wait for each other. {_missing(coming)}."
