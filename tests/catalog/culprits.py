"""The ranks that the message of a mistake has to name, for a given world size."""

from collections.abc import Callable

Ranks = Callable[[int], tuple[int, ...]]


def only(*ranks: int) -> Ranks:
    return lambda world_size: ranks


def nobody(world_size: int) -> tuple[int, ...]:
    return ()


def last(world_size: int) -> tuple[int, ...]:
    return (world_size - 1,)


def first_and_last(world_size: int) -> tuple[int, ...]:
    return (0, world_size - 1)


def everybody(world_size: int) -> tuple[int, ...]:
    return tuple(range(world_size))


def all_but_rank_0(world_size: int) -> tuple[int, ...]:
    return tuple(range(1, world_size))


def near_their_target(world_size: int) -> tuple[int, ...]:
    """The ranks that break after the first step of `early_break`."""
    weight = 2 - 0.2 * (2 - (world_size - 1) / 2)
    return tuple(rank for rank in range(world_size) if abs(weight - rank) < 1)
