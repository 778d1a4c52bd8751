"""One call of torch.distributed on one rank, as plain data; and which calls belong together."""

from __future__ import annotations

from dataclasses import dataclass, replace

from ddp_lessons.record.line_names import name_place
from ddp_lessons.record.rank_record import MeetingPoint, meeting_point

POINT_TO_POINT = ("send", "recv")


@dataclass(frozen=True)
class Event:
    """One call of torch.distributed on one rank. Times are seconds since the function began on the first rank.

    As a rank tells it, they are those of `time.perf_counter()`, one clock for all processes of a machine.
    """

    rank: int
    call: str  # the name that was called: "isend", "all_gather_object", "DistributedDataParallel", ...
    operation: str  # what that is: "send", "recv", "broadcast", "all_reduce", ..., "barrier", "new_group"
    group: str  # the name of the group, as torch gave it
    group_ranks: tuple[int, ...]
    peer: int | None  # of a send, to whom; of a recv, from whom (None: from anyone, and nothing has come)
    root: int | None  # of broadcast, reduce, scatter and gather
    reduce_op: str | None  # "sum", "max", ...
    tag: int  # of init_process_group: the rank that it was told
    shape: tuple[int, ...]  # of the first tensor that this rank brought; of a recv, of the tensor to fill
    tensors: int  # how many it brought
    dtype: str  # "float32"
    bytes: int  # of all that it brought
    values: tuple[float, ...] | None  # what it brought, flat; only with record="values", and of small tensors
    received: tuple[float, ...] | None  # what it had afterwards, flat; likewise
    file: str
    line: int
    function: str
    thread: str
    begin: float
    issued: float  # the call of a non-blocking one was back
    waited: float | None  # when the rank began to wait for the end; None: it never did
    end: float | None  # when it was complete; None: nobody saw it complete
    error: str  # what it raised, or ""
    backend: str = "gloo"
    remark: str = ""  # of a non-blocking call: "not waited for", "let go" (before it was over), "changed" (its tensor)
    untouched: float | None = None  # of a changed tensor: when another call ended by which it was not changed yet
    parts: tuple[tuple[int, ...], tuple[int, ...]] = ((), ())  # of an all_to_all: bytes to each of the group, from each
    is_blocking: bool = False  # torch's own function waited before it returned

    @property
    def is_collective(self) -> bool:
        return self.operation not in POINT_TO_POINT

    @property
    def place(self) -> str:
        return name_place(self.file, self.line)

    @property
    def took_part(self) -> bool:
        """Torch did not refuse it from the start."""
        return not self.error or self.waited is not None

    @property
    def meeting_point(self) -> MeetingPoint:
        return meeting_point(self.operation, self.group, self.group_ranks, self.peer, self.tag)


def of_rank(rank: int, event: Event, origin: float) -> Event:
    """What a rank has told, with its number, and in seconds since the origin."""
    times = {name: getattr(event, name) for name in ("begin", "issued", "waited", "end", "untouched")}
    return replace(event, rank=rank, **{name: time - origin for name, time in times.items() if time is not None})


@dataclass(frozen=True)
class Delivery:
    """A send and the recv that took it."""

    send: Event
    recv: Event

    @property
    def arrived(self) -> float | None:
        """When both sides were through."""
        return self.recv.end


@dataclass(frozen=True)
class Meeting:
    """What the ranks of a group called as one collective: one event of each rank that came."""

    events: tuple[Event, ...]
    expected: tuple[int, ...]  # the ranks that have to come

    @property
    def operation(self) -> str:
        return self.events[0].operation

    @property
    def is_agreed(self) -> bool:
        """Everyone came, to the same collective."""
        return len(self.events) == len(self.expected) and len({event.operation for event in self.events}) == 1

    @property
    def missing(self) -> tuple[int, ...]:
        return tuple(sorted(set(self.expected) - {event.rank for event in self.events}))
