"""How ranks find each other: each one gets four variables, joins through a store, and then communicates directly."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ddp_lessons.record.event import Event
from ddp_lessons.record.rank_record import NEW_GROUPS
from ddp_lessons.run.diagnosis.wording import count, ranks_named
from ddp_lessons.show.figures.drawing import Box, Words
from ddp_lessons.show.figures.figure import Figure
from ddp_lessons.show.figures.formats import events_of
from ddp_lessons.show.figures.layouts import Cue, Film, cut, film_of, write_figure
from ddp_lessons.show.figures.palette import color_of_rank, ink_on

NARROWEST_CARD, WIDEST_CARD, GAP, BETWEEN = 172.0, 240.0, 14.0, 34.0  # pixels
HEAD, ROW, CHIP = 22.0, 20.0, 12.0
NOTICEABLE_SECONDS = 0.1
ALREADY_JOINED = "The ranks joined before your function started. Use launch(..., join=False) and join in the function."
Point = tuple[float, float]
NOTEBOOK: Point = (4.0, 4.0)


@dataclass(frozen=True)
class Coming:
    """Ranks that join through one store. Step 1 starts the processes, and each rank that joins is one more step."""

    joins: Mapping[int, Event]  # by rank, its call to init_process_group, if any, in the order of their times
    given: Sequence[Mapping[str, str]]  # by rank, the variables or arguments that it joins with
    first_call: str  # the first collective that all of them called afterwards, or ""

    @property
    def have_met(self) -> bool:
        return len(self.joins) == len(self.given) and all(
            join.end is not None and not join.error for join in self.joins.values()
        )

    @property
    def absent(self) -> str:
        """Why the group was not formed."""
        failed = sorted(rank for rank, join in self.joins.items() if join.error)
        absent = [rank for rank in range(len(self.given)) if rank not in self.joins]
        if failed:
            return f"{ranks_named(failed).capitalize()} raised an error"
        return f"{ranks_named(absent).capitalize()} did not join" if absent else "Not all ranks joined"

    @property
    def store(self) -> list[str]:
        """Where the store is, and which rank opened it."""
        told, place = self.given[next(iter(self.joins))], next(iter(self.joins.values())).group
        return [f"{told['MASTER_ADDR']}, {place}", "opened by rank 0"] if "MASTER_ADDR" in told else [place]

    @property
    def opening_step(self) -> int:
        """The step in which the store is opened: ranks may try to join before rank 0 has opened it."""
        return [*self.joins, 0].index(0) + 2 if len(self.store) > 1 else 2


def joining(results: Any) -> Figure:
    """Show how the ranks of `launch(..., join=False)` found each other, if its function joins a process group.

    Args:
        results: what `launch` returned, or the exception that it raised.
    """
    events = events_of(results)
    joins: dict[int, Event] = {}
    for event in events:
        if event.operation == "init_process_group":
            joins.setdefault(event.rank, event)
    if not joins:
        return write_figure(ALREADY_JOINED)
    ranks = range(events.world_size)
    later = (one for one in events.meetings if one.operation not in (*NEW_GROUPS, "init_process_group"))
    first_call = next((one.operation for one in later if one.is_agreed), "")
    given = [_given(events.variables(rank), joins.get(rank)) for rank in ranks]
    coming = Coming(joins, given, first_call)
    captions = [*_captions(coming)]
    last = len(captions) - 1
    lines = []
    for rank in ranks:  # ports differ from run to run, and so does the order in which ranks join
        told = [name if name == "MASTER_PORT" else f"{name}={value}" for name, value in coming.given[rank].items()]
        came = "wrote its address to the store" if rank in joins else "did not join"
        lines.append(" | ".join([f"rank {rank}", *told, came, *["read the others' addresses"] * coming.have_met]))
    if not coming.have_met:
        lines.append(f"{coming.absent}.")
    elif first_call:
        lines.append(f"{first_call}: the ranks communicate directly")
    ends = "write their addresses to a store, and communicate directly once all of them have joined"
    ends = f" start, {ends}." if coming.have_met else f" start and wait for each other. {coming.absent}."
    alt = count(len(ranks), "rank") + ends
    return film_of(lambda width: _draw(coming, last, width), captions, last, "", "\n".join(lines), alt)


def _given(variables: dict[str, str], join: Event | None) -> dict[str, str]:
    """The rank's variables, or the rank and the world size that it passed itself."""
    if join is None or join.group.partition(" again")[0] == f"port {variables.get('MASTER_PORT')}":
        return variables
    return {"rank": str(join.tag), "world_size": str(len(join.group_ranks))}


def _captions(coming: Coming) -> Iterator[str]:
    total = len(coming.given)
    yield "At first, the notebook's process is the only one."
    yield f"launch starts {total} process{'es' * (total > 1)} and sets the variables of each. Only RANK differs."
    first = next(iter(coming.joins))
    for number, (rank, join) in enumerate(coming.joins.items(), 1):
        later = join.begin - coming.joins[first].begin
        after = f" {later:.1f} s after rank {first}" if later >= NOTICEABLE_SECONDS else ""
        opens = " and opens the store" * (rank == 0 and len(coming.store) > 1)
        ends = f"{opens}. {number} of {total} ranks have joined{'; waiting for the others' * (number < total)}."
        if number + 1 < coming.opening_step:
            ends = " and waits, because rank 0 has not opened the store yet."
        yield f"Rank {rank} calls init_process_group{after}{ends}"
    if coming.have_met:
        yield "Each rank reads the addresses of the others, and init_process_group returns: the group is ready."
        if coming.first_call:
            yield f"{coming.first_call}: the ranks communicate directly, and no longer through the store."
    else:
        yield f"{coming.absent}, so init_process_group does not return on any rank."


class Room:
    """The positions of the cards: the notebook and the store above, the ranks below."""

    def __init__(self, coming: Coming, width: float) -> None:
        total = len(coming.given)
        self.columns = max(1, min(total, int((width - 8 + GAP) / (NARROWEST_CARD + GAP))))
        self.wide = min((width - 8 - (self.columns - 1) * GAP) / self.columns, WIDEST_CARD)
        self.wide_above = min(self.wide, (width - 8 - GAP) / 2)
        self.above = HEAD + 8 + ROW * (2 + (total + 1) // 2)
        self.variables = max(map(len, coming.given))
        self.tall = HEAD + 6 + ROW * (self.variables + 2)
        all_columns = self.columns * (self.wide + GAP) - GAP
        self.store = 4 + max(all_columns - self.wide_above, self.wide_above + GAP), 4.0

    def of_rank(self, rank: int) -> Point:
        row, column = divmod(rank, self.columns)
        return 4 + column * (self.wide + GAP), 4 + self.above + BETWEEN + row * (self.tall + GAP)

    def row(self, rank: int, number: int) -> Point:
        """The position of a row in a rank's card."""
        x, y = self.of_rank(rank)
        return x + 6, y + HEAD + 3 + number * ROW


def _draw(coming: Coming, last: int, width: float) -> Film:
    room, total = Room(coming, width), len(coming.given)
    cues = [*_card("notebook", "collective", NOTEBOOK, (room.wide_above, room.above), 0)]
    for number, line in enumerate(("starts the processes,", "collects the results")):
        cues.append(Cue(Words(10, HEAD + 8 + (number + 0.5) * ROW, cut(line, room.wide_above - 10)), 1))
    cues += _store(coming, room)
    for rank in range(total):
        cues += _card(f"rank {rank}", color_of_rank(rank), room.of_rank(rank), (room.wide, room.tall), 1)
        cues += _held(coming, room, rank, last)
    return Film(width, room.of_rank(total - 1)[1] + room.tall + 6, cues)


def _card(name: str, color: str, corner: Point, size: Point, since: int) -> Iterator[Cue]:
    """A card, of which only the outline is visible before the process starts."""
    x, y = corner
    yield Cue(Box(x, y, *size, edge="line", corner=6, is_dashed=True), until=since or None)
    yield Cue(Box(x, y, *size, "paper", color, corner=6), since)
    yield Cue(Box(x, y, size[0], HEAD, color, corner=6), since)
    yield Cue(Words(x + size[0] / 2, y + HEAD / 2, name, ink_on(color), "middle", is_bold=True), since)


def _store(coming: Coming, room: Room) -> Iterator[Cue]:
    """The store, to which each rank writes its address."""
    (x, y), wide, opening = room.store, room.wide_above, coming.opening_step
    yield from _card("store", "collective", room.store, (wide, room.above), opening)
    for number, line in enumerate(coming.store):
        yield Cue(Words(x + 6, y + HEAD + 4 + (number + 0.5) * ROW, cut(line, wide - 10), "faint"), opening)
    for number, rank in enumerate(coming.joins):
        left, top = x + 6 + number % 2 * wide / 2, y + HEAD + 4 + (2 + number // 2) * ROW
        start, color = room.of_rank(rank), color_of_rank(rank)
        cell = Box(left, top + 1, wide / 2 - 10, ROW - 3, color, color, 0.2, 3)
        for shape in (cell, Words(left + wide / 4 - 5, top + ROW / 2, f"rank {rank}", anchor="middle")):
            yield Cue(shape, max(number + 2, opening), origin=(start[0] - left + 20, start[1] - top))


def _held(coming: Coming, room: Room, rank: int, last: int) -> Iterator[Cue]:
    """A rank's variables, whether it waits, which ranks it knows, and which have sent it something."""
    color = color_of_rank(rank)
    for number, (name, value) in enumerate(coming.given[rank].items()):
        x, y = room.row(rank, number)
        is_own = name.lower() == "rank"
        look = (color, color, 0.2) if is_own else ("band", "line", 1.0)
        words = Words(x + 4, y + ROW / 2, cut(f"{name}={value}", room.wide - 18), is_bold=is_own)
        for shape in (Box(x, y + 1, room.wide - 12, ROW - 3, *look, 3), words):  # on their way from the notebook
            yield Cue(shape, 1, origin=(NOTEBOOK[0] - x + 6, NOTEBOOK[1] + HEAD - y))
    met, (x, y) = len(coming.joins) + 2, room.row(rank, room.variables)
    if rank in coming.joins:
        arrived = [*coming.joins].index(rank) + 2
        yield Cue(Words(x, y + ROW / 2, "in init_process_group"), arrived, met if coming.have_met else None)
    else:
        yield Cue(Words(x, y + ROW / 2, "did not join", "alarm"), last)
    if coming.have_met:
        ranks = range(len(coming.given))
        yield from _chips("knows", (x, y), met, [room.store for _ in ranks])
        if coming.first_call:
            starts = [room.row(other, room.variables + 1) for other in ranks]
            yield from _chips(coming.first_call, (x, y + ROW), met + 1, starts)


def _chips(name: str, place: Point, since: int, starts: Sequence[Point]) -> Iterator[Cue]:
    """A small square for each rank, which moves here from its start."""
    x, y = place
    yield Cue(Words(x, y + ROW / 2, name), since)
    for rank, start in enumerate(starts):
        left, top = x + 72 + rank * (CHIP + 3), y + (ROW - CHIP) / 2
        chip = Box(left, top, CHIP, CHIP, color_of_rank(rank), about=f"rank {rank}")
        yield Cue(chip, since, origin=(start[0] - left, start[1] - top))
