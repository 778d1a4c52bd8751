"""What a generated program is made of: for each rank a list of steps, as plain data.

Each step carries its turn: the place in one order for all ranks that the program was made from. What a tensor holds
follows from the turn and the rank that fills it, so every rank knows what has to come.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TypeVar

WORLD = "world"


@dataclass(frozen=True)
class Content:
    """The tensor of a step. A sliced one is a contiguous part of a larger tensor."""

    shape: tuple[int, ...] = (1,)
    dtype: str = "float32"
    sliced: bool = False

    @property
    def elements(self) -> int:
        product = 1
        for length in self.shape:
            product *= length
        return product

    def __str__(self) -> str:
        return f"{self.dtype} {list(self.shape)}"


@dataclass(frozen=True)
class Step:
    turn: int


@dataclass(frozen=True)
class Message(Step):
    """One side of a message. `how` is the call; all but send and recv go on under the number `handle`."""

    how: str  # "send", "isend", "thread" (a send in a thread of its own), "recv", "irecv"
    peer: int | None  # None: from anyone
    tag: int
    group: str
    content: Content
    handle: int | None = None
    delay: float = 0.0  # seconds that the thread sleeps before it sends

    @property
    def is_send(self) -> bool:
        return self.how not in ("recv", "irecv")


@dataclass(frozen=True)
class Batch(Step):
    """batch_isend_irecv of messages that are isend and irecv."""

    parts: tuple[Message, ...]
    handle: int

    @property
    def group(self) -> str:
        return self.parts[0].group


@dataclass(frozen=True)
class Collective(Step):
    """A call that all ranks of the group make. With a handle it is called with async_op=True."""

    name: str
    group: str
    content: Content = Content()
    root: int | None = None  # in the numbers of the world
    reduce_op: str | None = None
    handle: int | None = None


@dataclass(frozen=True)
class Wait(Step):
    """Wait for what has this handle; for a collective also by asking again and again, or for its future."""

    handle: int
    how: str = "wait"  # or "poll", "future"


@dataclass(frozen=True)
class NewGroup(Step):
    name: str
    ranks: tuple[int, ...]
    local: bool = False  # use_local_synchronization: only members call it


@dataclass(frozen=True)
class Sleep(Step):
    seconds: float


@dataclass(frozen=True)
class Compute(Step):
    elements: int


@dataclass(frozen=True)
class Tell(Step):
    """Set a key in the store, which nobody records."""

    key: str


@dataclass(frozen=True)
class Hear(Step):
    """Wait until that key is set."""

    key: str


@dataclass(frozen=True)
class Leave(Step):
    """Only in a broken program: return here."""


@dataclass(frozen=True)
class Missed(Step):
    """Only in a broken program: an exception is raised on the way to this step, and swallowed."""

    step: Step


@dataclass(frozen=True)
class Change(Step):
    """Only in a broken program: write into what is being sent."""

    handle: int


Steps = tuple[Step, ...]
S = TypeVar("S", bound=Step)


@dataclass(frozen=True)
class Program:
    seed: int
    steps: tuple[Steps, ...]  # by rank
    groups: Mapping[str, tuple[int, ...]]

    @property
    def world_size(self) -> int:
        return len(self.steps)

    def with_steps(self, rank: int, steps: Steps) -> Program:
        return replace(self, steps=(*self.steps[:rank], steps, *self.steps[rank + 1 :]))

    def all_of(self, kind: type[S]) -> Iterator[tuple[int, int, S]]:
        """Rank, index and step of every step of that kind."""
        for rank, steps in enumerate(self.steps):
            for index, step in enumerate(steps):
                if isinstance(step, kind):
                    yield rank, index, step

    def __str__(self) -> str:
        lines = [f"program {self.seed}, {self.world_size} ranks"]
        for rank, steps in enumerate(self.steps):
            lines += [f"  rank {rank}", *(f"    {index:2}  {step}" for index, step in enumerate(steps))]
        return "\n".join(lines)


def number_of(turn: int, rank: int) -> int:
    """What every element of a tensor is that this rank fills in that turn."""
    return 1 + (turn + rank) % 3


def part_length(turn: int, source: int, target: int) -> int:
    """How much goes from one rank to another in an all_to_all_single with uneven parts."""
    return 1 + (turn + 2 * source + target) % 4
