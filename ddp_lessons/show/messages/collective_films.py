"""What a collective does, from a real run: every rank's tensors before and after, and what moves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from ddp_lessons.run.diagnosis.failures import WorkerFailed, WorkersStuck
from ddp_lessons.run.diagnosis.wording import count
from ddp_lessons.run.launch import launch
from ddp_lessons.show.figures.figure import Figure
from ddp_lessons.show.figures.layouts import film_of
from ddp_lessons.show.messages.collective_examples import (
    EXAMPLES,
    HAVE_A_ROOT,
    ROOT,
    Held,
    Pair,
    run_example,
    run_examples,
)
from ddp_lessons.show.messages.exchange import Exchange, Move, as_sheet, draw_rows
from ddp_lessons.show.programs.printed import in_columns
from ddp_lessons.show.timelines.timeline_figure import timeline

CAPTIONS = "Before.", "After."
ALT_OF_BARRIER = "Timeline of a barrier: each rank calls it at its own time, and none returns before the last call."
# In the columns of the table at the end of the lesson. gloo and NCCL both have the form with a single tensor.
SHEET = "scatter", "broadcast", "gather", "reduce", "all_gather", "all_reduce", "all_to_all_single", "reduce_scatter"


def collective(name: str, world_size: int = 4) -> Figure:
    """Run a collective on a few values, and show which of them move, and what every rank held before and after it.

    A value has the color of the rank that it comes from; one that was computed from several ranks' values is gray.
    `barrier` moves no data, so its figure shows when each rank called it and returned from it.

    Raises:
        ValueError: there is no collective of this name; the message lists all of them.
        RuntimeError: the backend, or this version of torch, doesn't support it.
    """
    if name not in EXAMPLES:
        raise ValueError(f"there is no collective {name!r}; choose one of {', '.join(EXAMPLES)}")
    try:
        results = launch(run_example, world_size, name, quiet=True)
    except (WorkerFailed, WorkersStuck) as failure:
        why = str(failure).splitlines()[0]
        raise RuntimeError(f"{name} does not work with this backend or this version of PyTorch: {why}") from failure
    if name == "barrier":
        return replace(timeline(results, "barrier"), text=_text_of_barrier(results.events), alt=ALT_OF_BARRIER)
    pairs = list(results)
    exchange = exchange_of(name, pairs)
    alt = f"{exchange.title}: the tensors of {count(world_size, 'rank')} before and after."
    return film_of(
        lambda width: draw_rows(exchange, width), CAPTIONS, 1, exchange.title, _text(name, pairs), alt, plays=True
    )


def collectives(world_size: int = 3) -> Figure:
    """Run eight collectives on a few values, and show all of them on one sheet.

    Rank 2 contributes 20, 21, and so on. A value has the color of the rank that it comes from. Where values are added
    up, each of them goes into every sum.

    Raises:
        ValueError: there are fewer than two ranks, or more than four, which don't fit on a sheet.
    """
    if world_size not in range(2, 5):
        raise ValueError(f"world_size must be 2, 3 or 4 to fit into the figure, not {world_size}")
    ranks = launch(run_examples, world_size, list(SHEET), quiet=True)
    pairs = {name: [pairs[number] for pairs in ranks] for number, name in enumerate(SHEET)}
    exchanges = [exchange_of(name, held) for name, held in pairs.items()]
    text = "\n\n".join(_text_of_panel(name, held) for name, held in pairs.items())
    alt = f"Eight collectives on {count(world_size, 'rank')}: the tensors before and after each, and what moves."
    return film_of(lambda width: as_sheet(exchanges, width), CAPTIONS, 1, "", text, alt)


def exchange_of(name: str, pairs: Sequence[Pair]) -> Exchange:
    """An exchange of one step, in which everything moves at once."""
    before, after = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
    origins = {value: rank for rank, held in enumerate(before) for tensor in held for value in tensor}
    known: dict[Any, int] = {} if "reduce" in name else origins
    states = [
        [_cells(held, rank, origins) for rank, held in enumerate(before)],
        [_cells(held, "sum", known) for held in after],
    ]
    return Exchange(_title(name), states, [moves_of(name, before, after)], empty=_instead(name))


def _cells(held: Held, instead: int | str, origins: dict[Any, int]) -> list[list[tuple[str, int | str]]]:
    return [[(str(value), origins.get(value, instead)) for value in tensor] for tensor in held]


def moves_of(name: str, before: Sequence[Held], after: Sequence[Held]) -> list[Move]:
    """Which rank sent something to which, also to itself, according to the values that each one has."""
    moves = []
    flat = [[value for tensor in held for value in tensor] for held in before]
    for receiver, held in enumerate(after):
        found = [value for tensor in held for value in tensor]
        for sender, own in enumerate(flat):
            if "reduce" not in name:
                values = [value for value in found if value in own]
            elif len(own) > len(found):  # each rank gets the sum of one part
                values = own[receiver : receiver + 1] if found else []
            else:
                values = own if found else []
            if values:
                moves.append(Move(sender, receiver, " ".join(map(str, values)), sender))
    return sorted(moves, key=lambda move: (move.sender, move.receiver))


def _text_of_barrier(events: Any) -> str:
    last = max(event.begin for event in events)
    early = sum(event.end is not None and event.end < last for event in events)
    rows = [f"rank {rank} | barrier" for rank in range(events.world_size)]
    return "\n".join([*rows, "", f"{early or 'None'} of them returned before the last one had called it."])


def _title(name: str) -> str:
    return name + ", sum" * ("reduce" in name) + f", root: rank {ROOT}" * (name in HAVE_A_ROOT)


def _instead(name: str) -> str:
    """What to show for a rank without a result. After reduce, the contents of its tensor are undefined."""
    return "undefined" if name == "reduce" else "nothing"


def _text(name: str, pairs: Sequence[Pair]) -> str:
    """A line for each rank, with its tensors in brackets."""
    lines = [["", "before", "after"]]
    for rank, (held, got) in enumerate(pairs):
        lines.append([f"rank {rank}", _show(held) or "nothing", _show(got) or _instead(name)])
    return "\n".join([_title(name), *in_columns(lines)])


def _show(held: Held) -> str:
    return " ".join("[" + " ".join(map(str, tensor)) + "]" for tensor in held)


def _text_of_panel(name: str, pairs: Sequence[Pair]) -> str:
    def show(held: Held) -> str:
        return " ".join(str(value) for tensor in held for value in tensor) or "-"

    return "\n".join([name, *(f"rank {rank}: {show(old)} -> {show(new)}" for rank, (old, new) in enumerate(pairs))])
