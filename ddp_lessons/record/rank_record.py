"""What a rank records: its calls of torch.distributed, what it waits for, and what it logged."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ddp_lessons.record.event import Event

NEW_GROUPS = ("new_group", "new_local_group")
JOINING_VARIABLES = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
MeetingPoint = tuple[Any, ...]
Gap = tuple[float, float, float]  # between calls: the start, the end, and how long the main thread was on a CPU


def meeting_point(operation: str, group: str, ranks: tuple[int, ...], peer: int | None, tag: int) -> MeetingPoint:
    """Where calls of ranks match by order: the third call of one rank belongs to the third of another."""
    if operation in ("send", "recv"):
        return operation, group, peer, tag
    # disjoint groups may have the same name
    return (operation, group) if operation in (*NEW_GROUPS, "init_process_group") else ("collective", group, ranks)


@dataclass(frozen=True)
class Recorded:
    """From a rank, alone or with its result: its calls of torch.distributed."""

    began: float  # time.perf_counter(), one clock for all processes of a node
    calls: tuple[Event, ...] = ()  # with times by the same clock
    dropped: int = 0  # the number of older calls that were dropped
    until: float = 0.0  # when this was sent
    before: tuple[tuple[MeetingPoint, int], ...] = ()  # the number of earlier calls at each meeting point
    standing: Standing | None = None
    is_out_of_sight: bool = False  # it made calls that were not recorded
    heavy_imports: tuple[str, ...] = ()  # imported parts of torch that take a second or more to import
    worlds: tuple[tuple[str, int, int], ...] = ()  # the worlds that it joined: name, its number there, size
    gaps: tuple[Gap, ...] = ()
    variables: tuple[tuple[str, str], ...] = ()  # JOINING_VARIABLES when its function began
    node: str = ""  # the other machine that it ran on; then its times were moved to the notebook's clock
    clock_error: float = 0.0  # seconds by which they may be off


@dataclass(frozen=True)
class Standing:
    """From a rank: what it waits for. Two equal ones mean that it made no progress in between."""

    is_free: bool  # something runs in it that does not wait for another rank
    held_in: tuple[int, ...] = ()  # the calls that its threads wait for, counted from its first
    moved: tuple[float, ...] = ()  # changes as soon as one of these threads makes progress
    at: tuple[str, int] = field(default=("", 0), compare=False)  # file and line of its main thread, outside torch


@dataclass(frozen=True)
class Told:
    """From a rank, while its function runs: where it is, or values to draw."""

    seconds: float  # time.perf_counter(); in `Results`, since the function began on the first rank, as in its events
    label: str
    numbers: dict[str, float]
