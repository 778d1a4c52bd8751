"""What a rank notes of itself: its calls of torch.distributed, what holds it, and what it told."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ddp_lessons.record.event import Event

NEW_GROUPS = ("new_group", "new_local_group")
JOINING_VARIABLES = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
MeetingPoint = tuple[Any, ...]
Gap = tuple[float, float, float]  # between calls: from when, until when, and how long the main thread was on a CPU


def meeting_point(operation: str, group: str, ranks: tuple[int, ...], peer: int | None, tag: int) -> MeetingPoint:
    """Where ranks meet in the order of their calls: the third call of one there belongs to the third of another."""
    if operation in ("send", "recv"):
        return operation, group, peer, tag
    # groups that do not touch each other may have one name
    return (operation, group) if operation in (*NEW_GROUPS, "init_process_group") else ("collective", group, ranks)


@dataclass(frozen=True)
class Recorded:
    """From a rank, alone or with its answer: its calls of torch.distributed."""

    began: float  # time.perf_counter(), one clock for all processes of a machine
    calls: tuple[Event, ...] = ()  # whose times are by that clock
    dropped: int = 0  # how many older ones it could not keep
    until: float = 0.0  # when this was told
    before: tuple[tuple[MeetingPoint, int], ...] = ()  # how many calls at each meeting point came before these
    standing: Standing | None = None
    is_out_of_sight: bool = False  # it made calls that are not among these
    heavy_imports: tuple[str, ...] = ()  # parts of torch that take a second or more to import, and that this rank has
    worlds: tuple[tuple[str, int, int], ...] = ()  # that it has joined: the name of each, its number there, the size
    gaps: tuple[Gap, ...] = ()
    variables: tuple[tuple[str, str], ...] = ()  # JOINING_VARIABLES when its function began


@dataclass(frozen=True)
class Standing:
    """From a rank: what holds it. Two equal ones say that it did not move in between."""

    is_free: bool  # something goes on in it that is no wait for another rank
    held_in: tuple[int, ...] = ()  # the calls that its threads wait for, counted from its first
    moved: tuple[float, ...] = ()  # other than before as soon as one of these threads has moved
    at: tuple[str, int] = field(default=("", 0), compare=False)  # file and line of its main thread, outside of torch
    answers: int = field(default=0, compare=False)  # the number of the question


@dataclass(frozen=True)
class Told:
    """From a rank, in the middle of its function: where it is, or numbers to draw."""

    seconds: float  # time.perf_counter(); in `Results`, since the function began on the first rank, as in its events
    label: str
    numbers: dict[str, float]
