"""Samples dealt to the ranks like cards, round by round and epoch by epoch, as the ranks reported what they got."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from ddp_lessons.show.figures.figure import Figure, write_figure
from ddp_lessons.show.messages.exchange import Cell, Exchange, Held, Move, Step
from ddp_lessons.show.page.picture import count

Hands = Sequence[Sequence[int]]  # by rank, its samples in their order
MOST_SAMPLES, MOST_EPOCHS = 40, 3


def deal(results: Any, total: int) -> Figure:
    """Show how samples reach the ranks: in round k each rank gets the k-th index of its list.

    Args:
        results: from a function that returns the indices of its samples, or a list of these for each epoch.
        total: how many samples there are.
    """
    epochs = _by_epoch(results)
    if total > MOST_SAMPLES:
        return write_figure(f"{total:,} samples are too many to be dealt one by one: show at most {MOST_SAMPLES}.")
    if not any(hand for hands in epochs for hand in hands):
        return write_figure("No rank got a sample: there is nothing to draw.")
    shown = epochs[:MOST_EPOCHS]
    frames = [frame for number, hands in enumerate(shown) for frame in _of_epoch(number, hands, total, len(shown))]
    states, captions = [state for _, _, state in frames], [caption for caption, _, _ in frames]
    steps = [Step(caption, moves) for caption, moves, _ in frames[1:]]
    alt = f"{count(total, 'sample')} dealt to {count(len(epochs[0]), 'rank')}: {_remarks(epochs[0], total)}."
    film = Exchange("", alt, states, steps, first=captions[0], empty="nothing", source="samples")
    return film.figure(_text(shown, total))


def _by_epoch(results: Any) -> list[Hands]:
    by_rank = [list(one) for one in results]
    if any(isinstance(one, (list, tuple)) for rank in by_rank for one in rank):
        return [[list(map(int, hand)) for hand in hands] for hands in zip(*by_rank, strict=True)]
    return [[list(map(int, hand)) for hand in by_rank]]


def _of_epoch(number: int, hands: Hands, total: int, epochs: int) -> Iterator[tuple[str, Sequence[Move], list[Held]]]:
    """The beginning and each round: what is said of it, what moves in it, and what there is afterwards."""
    rounds = max(map(len, hands))
    epoch = f"Epoch {number}. " if epochs > 1 else ""
    left = _never(hands, total)
    yield f"{epoch}The samples in the order in which they are dealt.", [], _state(hands, left, 0)
    for place in range(rounds):
        moves = [Move(0, rank + 1, str(hand[place]), rank) for rank, hand in enumerate(hands) if place < len(hand)]
        again = sorted({sample for sample in _dealt(hands, place) if sample in _before(hands, place)})
        said = f"{epoch}Round {place + 1}: {'one sample for each rank' if len(moves) == len(hands) else 'the rest'}."
        said += f" {_listed(again)} {'comes' if len(again) == 1 else 'come'} again." if again else ""
        said += f" All in all, {_remarks(hands, total)}." if place == rounds - 1 else ""
        yield said, moves, _state(hands, left, place + 1)


def _state(hands: Hands, left: Sequence[int], rounds: int) -> list[Held]:
    """What is still to be dealt, a row for each round, and what stays; and what each rank has."""
    rest = [*(_dealt(hands, place) for place in range(rounds, max(map(len, hands)))), *[left] * bool(left)]
    deck: list[Cell] = [(" ".join(map(str, row)), "part") for row in rest]
    dealt: list[Held] = [
        [[(str(sample), rank) for sample in hand[:rounds]]] * bool(rounds) for rank, hand in enumerate(hands)
    ]
    return [[deck] if deck else [], *dealt]


def _dealt(hands: Hands, place: int) -> list[int]:
    return [hand[place] for hand in hands if place < len(hand)]


def _before(hands: Hands, place: int) -> set[int]:
    return {sample for hand in hands for sample in hand[:place]}


def _never(hands: Hands, total: int) -> list[int]:
    return sorted(set(range(total)) - {sample for hand in hands for sample in hand})


def _remarks(hands: Hands, total: int) -> str:
    every = [sample for hand in hands for sample in hand]
    twice = sorted({sample for sample in every if every.count(sample) > 1})
    never = _never(hands, total)
    remarks = [f"{_listed(some)} {how}" for some, how in ((twice, "more than once"), (never, "never")) if some]
    return " and ".join(remarks) or "each sample once"


def _listed(samples: Sequence[int]) -> str:
    *front, last = map(str, samples)
    return f"{', '.join(front)} and {last}" if front else last


def _text(epochs: Sequence[Hands], total: int) -> str:
    lines = []
    for number, hands in enumerate(epochs):
        lines += [f"epoch {number}"] * (len(epochs) > 1)
        lines += [f"rank {rank}: {' '.join(map(str, hand))}" for rank, hand in enumerate(hands)]
        lines.append(_remarks(hands, total))
    return "\n".join(lines)
