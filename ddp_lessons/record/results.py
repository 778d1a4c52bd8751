"""The result of a launch: plain data that needs no running process."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Generic, TypeVar, overload

from ddp_lessons.record.events import Events
from ddp_lessons.record.rank_record import Told

T = TypeVar("T")


class _NoValue(enum.Enum):
    NO_VALUE = "no value"

    def __repr__(self) -> str:
        return "<no value>"

    def __bool__(self) -> bool:
        return False


NO_VALUE = _NoValue.NO_VALUE  # the placeholder for a rank that returned nothing
NO_ANSWER = "did not return, because the launch ended first"


@dataclass(frozen=True, eq=False, repr=False)
class Results(Sequence[T], Generic[T]):
    """The values returned by the ranks: `results[2]` is what rank 2 returned.

    `lines[rank]` is what that rank printed, `told[rank]` is what it logged with `tell`, `events` are the recorded calls
    of torch.distributed, and `seconds` is how long the run took.
    """

    values: tuple[T, ...]
    lines: tuple[list[str], ...]
    seconds: float
    events: Events = field(default_factory=Events)
    told: tuple[tuple[Told, ...], ...] = ()
    recorded: str = ""  # the system on which it ran, if it is a stored recording

    @overload
    def __getitem__(self, rank: int) -> T: ...
    @overload
    def __getitem__(self, rank: slice) -> Sequence[T]: ...
    def __getitem__(self, rank: int | slice) -> T | Sequence[T]:
        return self.values[rank]

    def __len__(self) -> int:
        return len(self.values)

    def __repr__(self) -> str:
        return f"Results({list(self.values)})"


def told_by_rank(told: Sequence[Sequence[Told]], origin: float | None) -> tuple[tuple[Told, ...], ...]:
    """What each rank logged, with times since the function began (`origin`), or else since the first entry."""
    begin = origin or min((one.seconds for by_rank in told for one in by_rank), default=0.0)
    return tuple(tuple(replace(one, seconds=one.seconds - begin) for one in by_rank) for by_rank in told)
