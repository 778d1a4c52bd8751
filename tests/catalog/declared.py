"""How a program of the catalog declares its outcome, and what its message must contain."""

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeVar

Ending = Literal["stuck", "failed", "either", "warned"]
Alone = Literal["hang", "abort", "wrong answer", "error", "warning"]
Ranks = Callable[[int], tuple[int, ...]]  # by world size
F = TypeVar("F", bound=Callable[[int, int], object])


@dataclass(frozen=True)
class Mistake:
    """One program, and what its message must name (`ranks`, `words`) and show (`lines`)."""

    function: Callable[[int, int], object]
    kind: int
    key: str  # of the exception
    ranks: Ranks
    lines: tuple[str, ...]  # parts of the function's lines: where ranks waited, or what they called
    words: tuple[str, ...]
    ends: Ending  # with launch
    alone: Alone  # with torch alone; a rank that waits for an ended process gets an error, otherwise it hangs
    at_least: int  # ranks
    join: bool

    @property
    def name(self) -> str:
        return self.function.__name__

    @property
    def world_sizes(self) -> tuple[int, ...]:
        return tuple(size for size in (2, 3, 4, 8) if size >= self.at_least)

    @property
    def is_slow(self) -> bool:
        """Replicas take a second on each rank to be built."""
        return self.kind == 8

    def places(self) -> dict[str, str]:
        """How a message names the first line that has each of them: "groups.py line 12"."""
        source, first = inspect.getsourcelines(self.function)
        head = next(place for place, line in enumerate(source) if line.startswith("def "))
        file = Path(inspect.getsourcefile(self.function) or "").name
        return {
            part: f"{file} line {next(n for n, line in enumerate(source, first) if n > first + head and part in line)}"
            for part in self.lines
        }


DECLARED: list[Mistake] = []


def mistake(
    kind: int,
    key: str,
    ranks: Ranks,
    lines: list[str],
    *words: str,
    ends: Ending = "stuck",
    alone: Alone = "hang",
    at_least: int = 2,
    join: bool = True,
) -> Callable[[F], F]:
    """Without words, the message must say that a rank returned."""

    def declare(function: F) -> F:
        said = words or ("returned",)
        DECLARED.append(Mistake(function, kind, key, ranks, tuple(lines), said, ends, alone, at_least, join))
        return function

    return declare


def only(*ranks: int) -> Ranks:
    return lambda world_size: ranks


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
