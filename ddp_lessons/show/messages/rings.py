"""The ring all-reduce, step by step: what each rank holds, and which chunk it sends on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ddp_lessons.record.event import Event
from ddp_lessons.run.diagnosis.wording import count
from ddp_lessons.run.launch import launch
from ddp_lessons.show.figures.figure import Figure
from ddp_lessons.show.figures.formats import show_bytes
from ddp_lessons.show.figures.layouts import layouts_of
from ddp_lessons.show.messages.exchange import Cell, Exchange, Move, Tone, draw_ring, draw_rows
from ddp_lessons.show.messages.watched_tensors import add_up_and_look

TITLE = "The ring, step by step"
MOST_SECONDS = 10.0  # the tensors are small
LEGEND = "In the next steps, sums over some ranks have dashed edges, and sums over all ranks are gray."


def ring(all_reduce: Callable[..., Any], world_size: int = 4) -> Figure:
    """Run an all-reduce on small tensors and show it step by step; step k is the k-th message that a rank sends.

    Args:
        all_reduce: a function that replaces a tensor with the sum over all ranks by sending chunks to the next rank
            with `send` or `batch_isend_irecv`: `ring_all_reduce` of `train.ring`, or your own.
        world_size: the number of ranks, and of the values on each of them, so that a chunk is one value.
    """
    results = launch(add_up_and_look, world_size, all_reduce, quiet=True, record="values", timeout_seconds=MOST_SECONDS)
    ranks = range(world_size)
    sends = [[event for event in results.events.of(rank) if event.operation == "send"] for rank in ranks]
    last = max(map(len, sends))
    held = [[column[min(step, len(column) - 1)] for column in results] for step in range(last + 1)]
    sent = [[sum(event.bytes for event in sends[rank][:step]) for rank in ranks] for step in range(last + 1)]

    def tone(rank: int, numbers: Sequence[float]) -> Tone:
        """The rank's own value, a sum over some ranks, or the sum over all."""
        own, sums = held[0][rank], held[-1][rank]
        return "sum" if set(numbers) <= set(sums) else rank if set(numbers) <= set(own) else "part"

    def cells(rank: int, column: Sequence[float]) -> list[Cell]:
        return [(_show(number), tone(rank, [number])) for number in column]

    def move(event: Event) -> Move:
        values = event.values or ()
        text = " ".join(map(_show, values)) or show_bytes(event.bytes)
        return Move(event.rank, event.peer or 0, text, tone(event.rank, values))

    states = [[[cells(rank, column)] for rank, column in enumerate(row)] for row in held]
    captions = [_caption(number, last, sent[number], held) for number in range(1, last + 1)]
    moves = [[move(own[step]) for own in sends if step < len(own)] for step in range(last)]
    first = f"Before the first of {count(last, 'step')}: every rank holds its own values. {LEGEND}"
    first = first if last else "No rank sends a message, so there are no steps."
    alt = f"{count(last, 'step')} of an all-reduce across {count(world_size, 'rank')}: what each one holds and sends."
    exchange = Exchange(TITLE, states, moves, sent=[[*map(show_bytes, row)] for row in sent])
    views = {
        "Ring": layouts_of(lambda width: draw_ring(exchange, width).still(last), TITLE),
        "Rows": layouts_of(lambda width: draw_rows(exchange, width).still(last), TITLE),
    }
    lines = [
        "\n".join([said, *(f"rank {rank} | {' '.join(map(_show, column))}" for rank, column in enumerate(row))])
        for said, row in zip([first, *captions], held, strict=True)
    ]
    return Figure(
        views, "\n\n".join(lines), alt if last else first, [first, *captions], shown="Rows", data={"first": "Ring"}
    )


def _caption(step: int, last: int, sent: Sequence[int], held: Sequence[Sequence[Sequence[float]]]) -> str:
    complete = sum(number in held[-1][0] for column in held[step] for number in column)
    each = f"each rank has sent {show_bytes(sent[0])}" if len(set(sent)) == 1 else "the amounts sent differ"
    numbers = count(sum(map(len, held[step])), "value")
    return f"Step {step} of {last}: {each}, {show_bytes(sum(sent))} in total; {complete} of {numbers} are final sums."


def _show(number: float) -> str:
    return f"{number:.10g}"  # whole numbers with all their digits
