"""One rank's dump as a compact list of calls, in the course's words. What many calls have in common is stored once.

NCCL and gloo write one format and differ in it: in how they spell operations, in what tells that a call is over, and in
what they leave out.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import json
import math
import re
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ddp_lessons.record.event import Event
from ddp_lessons.run.diagnosis.wording import DDP, learners_frame
from ddp_lessons.run.recording.flight_dump import DTYPES
from ddp_lessons.run.wire.messages import Frame

# Of an operation there are variants with one meaning: _all_gather_base, ALLREDUCE_COALESCED, all_to_all_v_single.
_VARIANT = re.compile(r"^_|(_into_tensor|_tensor)?(_base|_oop|_single|_coalesced|_v)+$")
_OPERATIONS = {
    "allreduce": "all_reduce",
    "all_reduce_barrier": "barrier",
    "allgather": "all_gather",
    "alltoall": "all_to_all",
    "recvanysource": "recv",
}
_COALESCED = "coalesced"  # closes a batch of calls
_DTYPES = {torchs: name for name, torchs in DTYPES.items()}
# these report the end of a call as a state of its own; "retired" then means that torch gave the call up
_SHOW_THE_END = ("nccl", "ncclx", "rccl", "rcclx", "xccl")
_OF_THE_OUTPUT = ("recv", "scatter", "reduce_scatter")  # ranks may bring tensors of other shapes, or none
_PEER = re.compile(r"\d+(?:->|<-)(\d+)")
_BITS = re.compile(r"(\d+)")
_MOST_RANKS = 1_000_000  # a number beyond is a damaged one

# torch's own code, and the decorators of its functions
_TORCH = re.compile(r"[/\\]torch[/\\]|^(<frozen|torch[/\\])|(typing_extensions|contextlib|functools)\.py$")
_WHOSE_CALLS = re.compile(r"torch[/\\]distributed[/\\]distributed_c10d\.py$")
_OF_DDP = re.compile(r"torch[/\\](nn[/\\]parallel[/\\]distributed|autograd[/\\]graph)\.py$")

# a call of which nothing is known
BLANK = Event(
    rank=-1,
    call="",
    operation="",
    group="0",
    group_ranks=(),
    peer=None,
    root=None,
    reduce_op=None,
    tag=0,
    shape=(),
    tensors=1,
    dtype="",
    bytes=0,
    values=None,
    received=None,
    file="",
    line=0,
    function="",
    thread="",
    begin=0.0,
    issued=0.0,
    waited=0.0,
    end=None,
    error="",
)

_Sizes = tuple[tuple[int, ...], ...]
_Side = tuple[_Sizes, tuple[str, ...]]  # the shapes and dtypes of a call's inputs, or of its outputs
_Batch = tuple[str, bool, int]  # the group, whether it is of messages, and torch's number


class DumpedCall(NamedTuple):
    """One call."""

    kind: Event  # without ranks and times; its peer is a number of the group
    number: int  # torch's: of a collective in its group; of a message, of the batch that it is part of
    begin: float  # seconds since 1970
    end: float | None  # None: unknown
    is_over: bool
    timed_out: bool

    @property
    def batch(self) -> _Batch:
        """Calls that torch starts together, messages or collectives, have one number."""
        return self.kind.group, not self.kind.is_collective, self.number


@dataclass
class RankDump:
    """The dump of one rank."""

    rank: int
    written: float  # seconds since 1970
    groups: dict[str, tuple[int, ...]]  # the ranks of each group; "": of one whose name torch did not store
    lost: int  # older calls that the ring buffer has lost
    calls: list[DumpedCall] = field(default_factory=list)
    descriptions: dict[str, str] = field(default_factory=dict)  # of the groups that it called on


class CallReader:
    """Reads the dumps of a job, one after the other. Kinds of calls are shared between them."""

    def __init__(self) -> None:
        self._kind: Callable[..., Event] = functools.cache(_kind)

    def read(self, rank: int, content: Mapping[str, Any], written: float) -> RankDump:
        """Raises KeyError, TypeError, ValueError or AttributeError if an entry is not as torch writes it."""
        entries = content.get("entries") or []
        dump = RankDump(rank, written, _groups_of(content), int(entries[0]["record_id"]) if entries else 0)
        if dump.lost and len(entries) > 1 and _batch_of(entries[0]) == _batch_of(entries[1]):
            cut = _batch_of(entries[0])  # the first calls of this batch may be lost
            entries = list(itertools.dropwhile(lambda entry: _batch_of(entry) == cut, entries))
        places: dict[tuple[int, ...], tuple[Frame, str]] = {}
        batches: defaultdict[_Batch, list[int]] = defaultdict(list)
        for entry in entries:
            self._add(dump, entry, places, batches[_batch_of(entry)])
        return dump

    def _add(
        self,
        dump: RankDump,
        entry: Mapping[str, Any],
        places: dict[tuple[int, ...], tuple[Frame, str]],
        batch: list[int],
    ) -> None:
        """`batch`: the numbers of its earlier calls in the dump."""
        frames = entry.get("frames") or ()
        which = tuple(map(id, frames))  # torch stores equal frames once
        if which not in places:
            places[which] = _read_stack(frames)
        group, description = entry["process_group"]
        sides = tuple((_sizes(entry[f"{side}_sizes"]), tuple(entry[f"{side}_dtypes"])) for side in ("input", "output"))
        kind = self._kind(entry["profiling_name"], str(group), str(entry.get("thread_name", "")), places[which], *sides)
        dump.descriptions.setdefault(str(group), str(description))
        ended = (entry.get("time_discovered_completed_ns") or 0) / 1e9 or None
        is_over, is_message = _has_ended(entry), bool(entry.get("is_p2p"))
        timed_out = bool(entry.get("retired")) and not is_over
        if kind.operation == _COALESCED:  # torch notes only here how the calls of a batch ended
            for at in batch:
                dump.calls[at] = dump.calls[at]._replace(end=ended, is_over=is_over, timed_out=timed_out)
        elif is_message or not batch:  # of a batch of collectives, the first stands for all
            batch.append(len(dump.calls))
            number, begin = _batch_of(entry)[2], entry["time_created_ns"] / 1e9
            dump.calls.append(DumpedCall(kind, number, begin, ended, is_over, timed_out))


def read_operation(name: str) -> str:
    """As the course names it, in whatever spelling: ALLREDUCE, _allgather_base."""
    plain = _VARIANT.sub("", name.lower())
    return _OPERATIONS.get(plain, plain)


def _batch_of(entry: Mapping[str, Any]) -> _Batch:
    is_message = bool(entry.get("is_p2p"))
    return str(entry["process_group"][0]), is_message, int(entry["p2p_seq_id" if is_message else "collective_seq_id"])


def _has_ended(entry: Mapping[str, Any]) -> bool:
    library = entry["profiling_name"].partition(":")[0]
    return entry["state"] == "completed" or (bool(entry.get("retired")) and library not in _SHOW_THE_END)


def _sizes(told: Sequence[Sequence[int]]) -> _Sizes:
    return tuple(map(tuple, told))


def _kind(
    profiling_name: str, group: str, thread: str, place: tuple[Frame, str], inputs: _Side, outputs: _Side
) -> Event:
    library, _, name = profiling_name.rpartition(":")
    spelled, _, ends = name.partition(" ")
    operation, peer = read_operation(spelled), _PEER.match(ends)
    sides = [outputs, inputs] if operation in _OF_THE_OUTPUT else [inputs, outputs]
    shapes, dtypes = next((side for side in sides if side[0]), ((), ()))
    dtype = _DTYPES.get(dtypes[0], dtypes[0].lower()) if dtypes else ""
    bits = _BITS.search(dtype)
    frame, call = place
    return dataclasses.replace(
        BLANK,
        call=call or operation,
        operation=operation,
        group=group,
        peer=int(peer[1]) if peer is not None else None,
        shape=shapes[0] if shapes else (),
        tensors=len(shapes),
        dtype="" if operation == "barrier" else dtype,
        bytes=sum(map(math.prod, shapes)) * (int(bits[1]) // 8 if bits is not None else 1),
        file=frame.file,
        line=frame.line,
        function=frame.function,
        thread=thread,
        backend=library,
    )


def _read_stack(frames: Sequence[Mapping[str, Any]]) -> tuple[Frame, str]:
    """The line of the user's code, and the function of torch.distributed that was called there ("": unknown)."""
    stack = [Frame(str(one["filename"]), int(one["line"]), str(one["name"]), "") for one in frames]  # innermost first
    inside = list(itertools.takewhile(lambda frame: _TORCH.search(frame.file), stack))
    outside = stack[len(inside) :]
    frame = learners_frame(outside[::-1]) or next(iter(outside), Frame("", 0, "", ""))
    if any(_OF_DDP.search(one.file) for one in inside):  # which makes its calls in C++
        return frame, DDP
    public = [one.function for one in inside if _WHOSE_CALLS.search(one.file)]
    return frame, next((name for name in reversed(public) if not name.startswith("_") and name != "wrapper"), "")


def _groups_of(content: Mapping[str, Any]) -> dict[str, tuple[int, ...]]:
    found = {}
    for name, about in dict(content["pg_config"]).items():
        ranks = about["ranks"]
        numbers = tuple(json.loads(ranks) if isinstance(ranks, str) else ranks)
        if not all(isinstance(number, int) and 0 <= number < _MOST_RANKS for number in numbers):
            raise ValueError(f"ranks of group {name}")
        if numbers:
            found[str(name)] = numbers
    return found
