"""One call of torch.distributed on one rank, as plain data; which calls belong together, and what they must share."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from ddp_lessons.record.line_names import name_place
from ddp_lessons.record.rank_record import NEW_GROUPS, MeetingPoint, meeting_point

POINT_TO_POINT = ("send", "recv")
# the tensors of a collective must have the same shape on all ranks; those of all_to_all may differ
_OF_ONE_SHAPE = ("all_reduce", "reduce", "broadcast", "all_gather", "gather", "scatter", "reduce_scatter")
_WITHOUT_TENSORS = ("barrier", "monitored_barrier", *NEW_GROUPS, "init_process_group")


@dataclass(frozen=True)
class Event:
    """One call of torch.distributed on one rank. Times are seconds since the function began on the first rank.

    When a rank sends it, the times are those of `time.perf_counter()`, one clock for all processes of a node.
    """

    rank: int
    call: str  # the name that was called: "isend", "all_gather_object", "DistributedDataParallel", ...
    operation: str  # what kind it is: "send", "recv", "broadcast", "all_reduce", ..., "barrier", "new_group"
    group: str  # the group's name, given by torch
    group_ranks: tuple[int, ...]
    peer: int | None  # the destination of a send; the source of a recv (None: from any rank, and nothing was received)
    root: int | None  # of broadcast, reduce, scatter and gather
    reduce_op: str | None  # "sum", "max", ...
    tag: int  # of init_process_group: the rank argument
    shape: tuple[int, ...]  # of this rank's first tensor; of a recv, of the tensor to fill
    tensors: int  # the number of its tensors
    dtype: str  # "float32"
    bytes: int  # of all its tensors
    values: tuple[float, ...] | None  # its values, flat; only with record="values" and for small tensors
    received: tuple[float, ...] | None  # its values afterwards, flat; likewise
    file: str
    line: int
    function: str
    thread: str
    begin: float
    issued: float  # when a non-blocking call returned
    waited: float | None  # when the rank began to wait for it; None: never
    end: float | None  # when it was complete; None: not seen complete
    error: str  # the exception that it raised, or ""
    backend: str = "gloo"
    remark: str = ""  # of a non-blocking call: "not waited for", "let go" (before it was over), "changed" (its tensor)
    untouched: float | None = None  # of a changed tensor: the end of another call at which it was not changed yet
    parts: tuple[tuple[int, ...], tuple[int, ...]] = ((), ())  # of an all_to_all: bytes to and from each rank
    is_blocking: bool = False  # torch's own function waited before it returned

    @property
    def is_collective(self) -> bool:
        return self.operation not in POINT_TO_POINT

    @property
    def place(self) -> str:
        return name_place(self.file, self.line)

    @property
    def took_part(self) -> bool:
        """Whether torch accepted the call."""
        return not self.error or self.waited is not None

    @property
    def meeting_point(self) -> MeetingPoint:
        return meeting_point(self.operation, self.group, self.group_ranks, self.peer, self.tag)


def of_rank(rank: int, event: Event, origin: float) -> Event:
    """The event with the rank's number, and with times in seconds since the origin."""
    times = {name: getattr(event, name) for name in ("begin", "issued", "waited", "end", "untouched")}
    return replace(event, rank=rank, **{name: time - origin for name, time in times.items() if time is not None})


@dataclass(frozen=True)
class Delivery:
    """A send and the matching recv."""

    send: Event
    recv: Event

    @property
    def arrived(self) -> float | None:
        """When both sides were complete."""
        return self.recv.end


@dataclass(frozen=True)
class Meeting:
    """One collective: one event of each rank of the group that called it."""

    events: tuple[Event, ...]
    expected: tuple[int, ...]  # the ranks that have to call it

    @property
    def operation(self) -> str:
        return self.events[0].operation

    @property
    def is_agreed(self) -> bool:
        """Whether all ranks called it, and all called the same collective."""
        return len(self.events) == len(self.expected) and len({event.operation for event in self.events}) == 1

    @property
    def missing(self) -> tuple[int, ...]:
        return tuple(sorted(set(self.expected) - {event.rank for event in self.events}))


def what_must_agree(call: Event) -> dict[str, object]:
    """What must agree between matching calls. The first difference is the one to report.

    For an all_to_all, see also its `parts`.
    """
    if call.operation in POINT_TO_POINT:
        return {"dtype": call.dtype, "bytes": call.bytes}
    elements: object = math.prod(call.shape) if call.operation in _OF_ONE_SHAPE else None
    if call.operation == "all_reduce" and call.tensors > 1:
        elements = call.tensors, call.bytes
    return {
        "operation": call.operation,
        "group": sorted(call.group_ranks),
        "root": call.root,
        "elements": elements,
        "dtype": None if call.operation in _WITHOUT_TENSORS else call.dtype,
        "reduce_op": call.reduce_op,
    }
