"""Collectives and other programs of messages, played message by message; and the ring all-reduce, step by step."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from types import ModuleType
from typing import Any

from ddp_lessons.show.controls.explorer import Explorer
from ddp_lessons.show.controls.explorer_controls import Choice
from ddp_lessons.show.figures.figure import Figure
from ddp_lessons.show.messages.exchange import Cell, Exchange, Move, Step
from ddp_lessons.show.messages.recorded_messages import Message, Played, play
from ddp_lessons.show.messages.values import show_numbers
from ddp_lessons.show.messages.watched_tensors import Held, prepare_chunks, prepare_collective
from ddp_lessons.show.page.picture import count, show_bytes

WORLD_SIZES = range(2, 9)
Functions = ModuleType | Mapping[str, Callable[..., Any]]
HAVE_A_ROOT = ("broadcast", "reduce", "scatter", "gather")
OPERATIONS = (*HAVE_A_ROOT, "all_reduce", "all_gather", "reduce_scatter", "all_to_all")
NOTHING = "nothing"


def step_through(
    functions: Functions, operation: str | None = None, world_size: int = 4, root: int = 0
) -> Explorer[Figure]:
    """Play a collective that is made of messages: one by one, with what every rank holds after each.

    Args:
        functions: a module with functions of the names `broadcast_by_hand`, `all_gather_by_hand` and so on, or a
            dict of such functions: `{"broadcast": broadcast_by_hand}`. They take what those of `train` take.
        operation: which of them to begin with.
        world_size: of how many ranks.
        root: the rank that gives or gets, where there is one.

    Raises:
        ValueError: there is no collective among the functions.
    """
    by_name = _by_operation(functions)

    @functools.cache
    def played(operation: str, world_size: int, root: int) -> Played:
        return play(by_name[operation], world_size, prepare_collective, operation, root)

    controls = {
        "operation": Choice("collective", list(by_name), operation or next(iter(by_name))),
        "world_size": Choice("ranks", WORLD_SIZES, world_size),
        "root": Choice("root", lambda now: range(now["world_size"] if now["operation"] in HAVE_A_ROOT else 1), root),
    }
    title = "A collective, message by message"
    return Explorer(
        lambda **chosen: message_film(played(**chosen), "reduce" in chosen["operation"]), title=title, controls=controls
    )


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


def _by_operation(functions: Functions) -> dict[str, Callable[..., Any]]:
    if isinstance(functions, Mapping):
        found = {name: functions[name] for name in OPERATIONS if name in functions}
    else:
        names = {name: f"{name}_by_hand" for name in OPERATIONS}
        found = {name: getattr(functions, by_hand) for name, by_hand in names.items() if hasattr(functions, by_hand)}
    if not found:
        raise ValueError(f"there is no collective among the functions; these can be played: {', '.join(OPERATIONS)}")
    return found


# --- message by message -----------------------------------------------------------------------------------------------


def message_film(played: Played, adds_up: bool) -> Figure:
    """A step for each message. A number has the color of the rank that it comes from, or that of sums."""
    total = len(played.messages)
    first = "No rank sends a message: each keeps what it has."
    if total:
        first = f"Before the first of {count(total, 'message')}."
    ranks = range(played.world_size)
    own = [{value: rank for tensor in played.held(rank, 0) for value in tensor} for rank in ranks]
    of_all = {value: rank for origins in own for value, rank in origins.items()}
    # where numbers are added up, a sum may equal another rank's number
    origins = own if adds_up else [of_all] * played.world_size
    states = [[_cells(played.held(rank, done), origins[rank]) for rank in ranks] for done in range(total + 1)]
    moves = [_move(message, origins[message.sender]) for message in played.messages]
    steps = [Step(_say(played, done), [moves[done - 1]]) for done in range(1, total + 1)]
    alt = f"{count(total, 'message')} between {count(played.world_size, 'rank')}, one by one." if total else first
    return Exchange("", alt, states, steps, first=first).figure(_text_of_messages(played, first))


def _cells(held: Held, origins: Mapping[Any, int]) -> list[list[Cell]]:
    return [[(show_numbers([value]), origins.get(value, "sum")) for value in tensor] for tensor in held]


def _move(message: Message, origins: Mapping[Any, int]) -> Move:
    tones = {origins.get(value, "sum") for value in message.values}
    return Move(message.sender, message.receiver, _values(message), tones.pop() if len(tones) == 1 else message.sender)


def _say(played: Played, done: int) -> str:
    message, total = played.messages[done - 1], len(played.messages)
    what = f"Message {done} of {total}: rank {message.sender} sends {_values(message)} to rank {message.receiver}"
    return f"{what}, which now holds {_holds(played.held(message.receiver, done))}." + " That was the last one." * (
        done == total
    )


def _values(message: Message) -> str:
    return show_numbers(message.values) or f"{message.bytes} B"


def _holds(held: Held) -> str:
    return ", ".join(f"[{show_numbers(tensor)}]" for tensor in held) or NOTHING


def _text_of_messages(played: Played, first: str) -> str:
    total = len(played.messages)
    lines = [_say(played, total) if total else first, ""]
    for number, message in enumerate(played.messages, 1):
        lines.append(f"{number:>3}  rank {message.sender} -> rank {message.receiver}  {_values(message)}")
    holds = [f"rank {rank} holds {_holds(played.held(rank, total))}" for rank in range(played.world_size)]
    return "\n".join([*lines, *[""] * (total > 0), *holds])


# --- the ring ---------------------------------------------------------------------------------------------------------


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
