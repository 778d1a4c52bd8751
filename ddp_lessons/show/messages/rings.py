"""The steps of a ring: what each rank sends to its neighbor, step by step, as it was recorded."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ddp_lessons.record.event import Event
from ddp_lessons.record.events import Events
from ddp_lessons.show.figures.figure import Figure, write_figure
from ddp_lessons.show.messages.exchange import Cell, Exchange, Move, Step
from ddp_lessons.show.messages.values import numbers_of, show_numbers
from ddp_lessons.show.page.picture import count, events_of, show_bytes
from ddp_lessons.show.page.printed import in_columns
from ddp_lessons.show.timelines.timeline_figure import NOTHING

MOST_STEPS = 32
NO_SENDS = "No rank sent a message: a ring is made of send and recv."


@dataclass(frozen=True)
class Sent:
    """What a rank has in one row: some text and, in a step, to whom it goes."""

    text: str
    to: int | None = None
    has_arrived: bool = True


Row = tuple[str, list[Sent | None]]  # its name, and what there is by rank


def ring(results: Any, before: Any = None) -> Figure:
    """Show what each rank sends to its neighbor, step by step: the k-th message that a rank sends is its step k.

    Record the values, `launch(..., record="values")`: otherwise there are only bytes. The figure begins with what the
    ranks began with, if you give it, and ends with what they returned; from a function that returns a pair of tensors,
    before and after, both are taken.
    """
    events = events_of(results)
    if not len(events):
        return write_figure(NOTHING)
    steps = _steps(events)
    if not steps:
        return write_figure(NO_SENDS)
    first, last = _before_and_after(results)
    first = first if before is None else [numbers_of(value) for value in before]
    shown = steps[:MOST_STEPS]
    rows = [*_row_of_tensors("before", first), *shown, *_row_of_tensors("after", last)]
    rest = f"{count(len(steps) - len(shown), 'further step')} left out." if len(steps) > len(shown) else ""
    alt = (
        f"{count(len(steps), 'step')} of messages between {count(events.world_size, 'rank')}, "
        f"with what each rank sends in each step."
    )
    return _film(shown, first, last, alt).figure(_text(rows, events.world_size, rest))


def _film(steps: Sequence[Row], first: Sequence[Any], last: Sequence[Any], alt: str) -> Exchange:
    """Before step k a rank holds what it sends in it; after the last step what it returned."""
    ranks = len(steps[0][1])
    states = [[_held(text, rank) for rank, text in enumerate(_texts(row))] for _, row in steps]
    if first:
        states[0] = [[[(text, rank) for text in _each(numbers)]] for rank, numbers in enumerate(first)]
    states.append([[[(text, "sum") for text in _each(numbers)]] for numbers in last] or [[] for _ in range(ranks)])
    films = []
    for number, (_, row) in enumerate(steps, 1):
        moves = [
            Move(rank, one.to, one.text, rank)
            for rank, one in enumerate(row)
            if one and one.to is not None and one.to < ranks and one.has_arrived
        ]
        films.append(Step(f"Step {number} of {len(steps)}: {count(len(moves), 'message')}.", moves))
    return Exchange("", alt, states, films, first=f"Before the first of {count(len(steps), 'step')}.", is_ring=True)


def _texts(row: Sequence[Sent | None]) -> list[str]:
    return [one.text if one else "" for one in row]


def _held(text: str, rank: int) -> list[list[Cell]]:
    return [[(text, rank)]] if text else []


def _each(numbers: Sequence[float] | None) -> list[str]:
    return [show_numbers([number]) for number in numbers or ()]


def _steps(events: Events) -> list[Row]:
    arrived = {id(delivery.send) for delivery in events.deliveries if delivery.arrived is not None}
    sends = [
        [event for event in events.of(rank) if event.operation == "send" and event.took_part]
        for rank in range(events.world_size)
    ]
    return [
        (f"step {k + 1}", [_sent(mine[k], id(mine[k]) in arrived) if k < len(mine) else None for mine in sends])
        for k in range(max(map(len, sends)))
    ]


def _sent(send: Event, has_arrived: bool) -> Sent:
    text = show_bytes(send.bytes) if send.values is None else show_numbers(send.values)
    return Sent(text, send.peer, has_arrived)


def _before_and_after(results: Any) -> tuple[list[Any], list[Any]]:
    """The tensors that the ranks returned; nothing where they returned something else."""
    values = getattr(getattr(results, "results", results), "values", ())
    if not isinstance(values, tuple):
        return [], []
    if values and all(
        isinstance(v, (tuple, list)) and len(v) == 2 and all(hasattr(t, "tolist") for t in v) for v in values
    ):
        return [numbers_of(value[0]) for value in values], [numbers_of(value[1]) for value in values]
    numbers = [numbers_of(value) for value in values]
    return [], numbers if any(numbers) else []


def _row_of_tensors(name: str, tensors: Sequence[list[float] | None]) -> list[Row]:
    shown = [None if numbers is None else Sent(show_numbers(numbers)) for numbers in tensors]
    return [(name, shown)] if any(shown) else []


def _text(rows: Sequence[Row], ranks: int, rest: str) -> str:
    head = ["", *(f"rank {rank}" for rank in range(ranks))]
    table = [head, *([name, *map(_cell, shown)] for name, shown in rows)]
    return "\n".join([*in_columns(table), *[rest] * bool(rest)])


def _cell(one: Sent | None) -> str:
    if one is None:
        return ""
    return one.text + (f" ->{one.to}" if one.to is not None else "") + " (not received)" * (not one.has_arrived)
