"""The ring all-reduce, step by step."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from ddp_lessons.show.controls.explorer import Explorer
from ddp_lessons.show.controls.explorer_controls import Choice
from ddp_lessons.show.figures.figure import Figure
from ddp_lessons.show.messages.exchange import Cell, Exchange, Move, Step
from ddp_lessons.show.messages.recorded_messages import Message, Played, play
from ddp_lessons.show.messages.watched_tensors import prepare_chunks
from ddp_lessons.show.page.picture import count, show_bytes

WORLD_SIZES = range(2, 9)


def turn_the_ring(all_reduce: Callable[..., Any], world_size: int = 4) -> Explorer[Figure]:
    """Turn a ring step by step, with the bytes that each rank has sent and that were sent in all.

    Args:
        all_reduce: a function of one tensor that leaves the sum over all ranks in it, by sending chunks to the next
            rank: `ring_all_reduce` of `train.ring`, or your own.
        world_size: of how many ranks; each has as many numbers as there are ranks, so that a chunk is one number.
    """

    @functools.cache
    def played(world_size: int) -> Played:
        return play(all_reduce, world_size, prepare_chunks)

    controls = {"world_size": Choice("ranks", WORLD_SIZES, world_size)}
    return Explorer(lambda **chosen: ring_film(played(**chosen)), title="The ring, step by step", controls=controls)


def ring_film(played: Played) -> Figure:
    """In every step each rank passes one chunk on, and the chunks grow into the sum."""
    ends = steps_of(played)
    ranks, last = range(played.world_size), len(ends) - 1
    columns = [[_column(played, rank, end) for rank in ranks] for end in ends]
    states = [[[_tones(played, rank, column)] for rank, column in enumerate(row)] for row in columns]
    sent = [[show_bytes(played.bytes_sent(rank, end)) for rank in ranks] for end in ends]
    steps = []
    for step in range(1, last + 1):
        moves = [_chunk(played, one) for one in played.messages[ends[step - 1] : ends[step]]]
        steps.append(Step(_say_of_ring(played, columns[step], ends, step), moves))
    first = "No rank sends a message, so there is nothing to turn."
    if last:
        first = (
            f"Before the first of {count(last, 'step')}: every rank holds its own values. Sums over some ranks will "
        )
        first += "have a dashed edge, sums over all ranks a gray box."
    alt = f"{count(last, 'step')} of a ring of {count(played.world_size, 'rank')}." if last else first
    film = Exchange("", alt, states, steps, first=first, sent=sent, is_ring=True)
    return film.figure(_text_of_ring(played, columns, ends, first))


def steps_of(played: Played) -> list[int]:
    """After how many messages each step is over: a new one begins where a rank sends again. The first is 0."""
    ends, senders = [0], set[int]()
    for number, message in enumerate(played.messages):
        if message.sender in senders:
            ends.append(number)
            senders = set()
        senders.add(message.sender)
    return [*ends, *[len(played.messages)] * bool(senders)]


def _column(played: Played, rank: int, messages: int) -> list[float]:
    return [number for tensor in played.held(rank, messages) for number in tensor]


def _tones(played: Played, rank: int, column: Sequence[float]) -> list[Cell]:
    """The rank's own number, a sum of some, or the sum of all."""
    own, sums = _column(played, rank, 0), _column(played, rank, len(played.messages))
    return [
        (_show(number), "sum" if number == total else rank if number == mine else "part")
        for number, mine, total in zip(column, own, sums, strict=False)
    ]


def _chunk(played: Played, message: Message) -> Move:
    own = _column(played, message.sender, 0)
    sums = _column(played, message.sender, len(played.messages))
    tone = "sum" if set(message.values) <= set(sums) else message.sender if set(message.values) <= set(own) else "part"
    return Move(message.sender, message.receiver, " ".join(map(_show, message.values)) or f"{message.bytes} B", tone)


def _say_of_ring(played: Played, columns: Sequence[Sequence[float]], ends: Sequence[int], step: int) -> str:
    sent = [played.bytes_sent(rank, ends[step]) for rank in range(played.world_size)]
    sums = _column(played, 0, len(played.messages))
    complete = sum(number == total for column in columns for number, total in zip(column, sums, strict=False))
    numbers = sum(map(len, columns))
    each = f"each rank has sent {show_bytes(sent[0])}" if len(set(sent)) == 1 else "the ranks have sent unequally"
    return (
        f"Step {step} of {len(ends) - 1}: {each}, in all {show_bytes(sum(sent))}; "
        f"{complete} of {count(numbers, 'number')} are complete sums."
    )


def _show(number: float) -> str:
    """A whole number with all its digits."""
    return str(number) if isinstance(number, int) else f"{number:g}"


def _text_of_ring(played: Played, columns: Sequence[Sequence[Sequence[float]]], ends: Sequence[int], first: str) -> str:
    lines = [first]
    for step, row in enumerate(columns):
        lines += ["", _say_of_ring(played, row, ends, step)] if step else []
        lines += [f"rank {rank} | {' '.join(map(_show, column))}" for rank, column in enumerate(row)]
    return "\n".join(lines)
