"""One rank's dump as a compact list of calls: what many calls have in common is stored once."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ddp_lessons.dumps.operation_names import COALESCED, Place, bytes_of, read_dtype, read_name, read_stack
from ddp_lessons.record.event import Event

# these report the end of a call as a state of its own; "retired" then means that torch gave the call up
_SHOW_THE_END = ("nccl", "ncclx", "rccl", "rcclx", "xccl")
_OF_THE_OUTPUT = ("recv", "scatter", "reduce_scatter")  # ranks may bring tensors of other shapes, or none
HERE = -1  # as a root: this rank
_MOST_RANKS = 1_000_000  # a number beyond is a damaged one
_Batch = tuple[str, bool, int]  # calls that torch starts together: the group, whether they are messages, torch's number


class DumpedCall(NamedTuple):
    """One call. `kind` is an event without ranks and times, in which `peer` is a number of the group."""

    kind: Event
    number: int  # of a collective: torch's sequence number in its group
    batch: int  # of a message: torch's number of its batch
    begin: float  # seconds since 1970
    end: float | None  # None: unknown
    is_over: bool
    timed_out: bool

    def is_of(self, batch: _Batch) -> bool:
        group, is_message, number = batch
        return self.kind.group == group and (self.batch if is_message else self.number) == number


@dataclass
class RankDump:
    """The dump of one rank."""

    rank: int
    written: float  # seconds since 1970
    calls: list[DumpedCall]
    dropped: int  # older calls that the ring buffer has lost
    groups: dict[str, tuple[int, ...]]  # the ranks of each group, as far as torch stored them
    descriptions: dict[str, str] = field(default_factory=dict)  # of groups
    sizes: dict[str, int] = field(default_factory=dict)  # of groups, where a gathered tensor shows it
    library: str = ""


class CallReader:
    """Reads the dumps of a job, one after the other. Kinds of calls are shared between them."""

    def __init__(self) -> None:
        self._kinds: dict[object, Event] = {}

    def read(self, rank: int, content: Mapping[str, Any], written: float) -> RankDump:
        """Raises KeyError, TypeError, ValueError or AttributeError if an entry is not as torch writes it."""
        entries = content.get("entries") or []
        dump = RankDump(rank, written, [], int(entries[0]["record_id"]) if entries else 0, _groups_of(content))
        places: dict[tuple[int, ...], Place] = {}
        batches: dict[_Batch, tuple[int, int]] = {}
        for entry in entries:
            self._add(dump, entry, places, batches)
        if dump.dropped and entries and batches.get(_batch_of(entries[0]), (0, 0))[1] > 1:
            _leave_out_first_batch(dump, _batch_of(entries[0]))  # the ring buffer may have lost its first calls
        return dump

    def _add(
        self,
        dump: RankDump,
        entry: Mapping[str, Any],
        places: dict[tuple[int, ...], Place],
        batches: dict[_Batch, tuple[int, int]],
    ) -> None:
        """`batches`: the place of the first call of each batch, and the number of its entries."""
        group, description = entry["process_group"]
        batch = _batch_of(entry)
        _, is_message, number = batch
        first, count = batches.get(batch, (len(dump.calls), 0))
        batches[batch] = first, count + 1
        dump.descriptions.setdefault(group, description)
        kind = self._kind(entry, group, places)
        dump.library = dump.library or kind.backend
        ended = (entry.get("time_discovered_completed_ns") or 0) / 1e9 or None
        is_retired = bool(entry.get("retired"))
        is_over = entry["state"] == "completed" or (is_retired and kind.backend not in _SHOW_THE_END)
        timed_out = is_retired and not is_over
        if kind.operation == COALESCED:  # torch notes only here how the calls of a batch ended
            for at in range(first, len(dump.calls)):
                if dump.calls[at].is_of(batch):
                    dump.calls[at] = dump.calls[at]._replace(end=ended, is_over=is_over, timed_out=timed_out)
        elif is_message or not count:  # of a batch of collectives, the first stands for all
            of_group, of_batch = (-1, number) if is_message else (number, -1)
            begin = entry["time_created_ns"] / 1e9
            dump.calls.append(DumpedCall(kind, of_group, of_batch, begin, ended, is_over, timed_out))
            _note_size(dump, kind, entry)

    def _kind(self, entry: Mapping[str, Any], group: str, places: dict[tuple[int, ...], Place]) -> Event:
        frames = entry.get("frames") or ()
        which = tuple(map(id, frames))  # torch stores equal frames once
        place = places.get(which)
        if place is None:
            place = places[which] = read_stack(frames)
        inputs, outputs = entry["input_sizes"], entry["output_sizes"]
        dtypes = (*entry["input_dtypes"], *entry["output_dtypes"])
        key = (entry["profiling_name"], group, place, tuple(map(tuple, inputs)), tuple(map(tuple, outputs)), dtypes)
        kind = self._kinds.get(key)
        if kind is None:
            kind = self._kinds[key] = _kind(entry, group, place)
        return kind


def _batch_of(entry: Mapping[str, Any]) -> _Batch:
    is_message = bool(entry.get("is_p2p"))
    return entry["process_group"][0], is_message, entry["p2p_seq_id" if is_message else "collective_seq_id"]


def _leave_out_first_batch(dump: RankDump, batch: _Batch) -> None:
    dump.calls = [call for call in dump.calls if not call.is_of(batch)]


def _kind(entry: Mapping[str, Any], group: str, place: Place) -> Event:
    name = read_name(entry["profiling_name"])
    sides = [(entry["input_sizes"], entry["input_dtypes"]), (entry["output_sizes"], entry["output_dtypes"])]
    if name.operation in _OF_THE_OUTPUT:
        sides.reverse()
    shapes, dtypes = next(((sizes, dtypes) for sizes, dtypes in sides if sizes), ([], []))
    dtype = read_dtype(dtypes[0]) if dtypes else ""
    root = None
    if name.operation in ("gather", "scatter"):  # only the root has the whole
        whole = entry["output_sizes" if name.operation == "gather" else "input_sizes"]
        root = HERE if whole else None
    return Event(
        rank=-1,
        call=place.call or name.operation,
        operation=name.operation,
        group=str(group),
        group_ranks=(),
        peer=name.peer,
        root=root,
        reduce_op=None,
        tag=0,
        shape=tuple(shapes[0]) if shapes else (),
        tensors=len(shapes),
        dtype="" if name.operation == "barrier" else dtype,
        bytes=bytes_of(dtype, shapes),
        values=None,
        received=None,
        file=place.file,
        line=place.line,
        function=place.function,
        thread=str(entry.get("thread_name", "")),
        begin=0.0,
        issued=0.0,
        waited=0.0,
        end=None,
        error="",
        backend=name.library,
    )


def _groups_of(content: Mapping[str, Any]) -> dict[str, tuple[int, ...]]:
    """By name. gloo stores its groups before they have a name, so they are lost."""
    found = {}
    for name, about in dict(content["pg_config"]).items():
        ranks = about["ranks"]
        numbers = tuple(json.loads(ranks) if isinstance(ranks, str) else ranks)
        if not all(isinstance(number, int) and 0 <= number < _MOST_RANKS for number in numbers):
            raise ValueError(f"ranks of group {name}")
        if name and numbers:
            found[str(name)] = numbers
    return found


def _note_size(dump: RankDump, kind: Event, entry: Mapping[str, Any]) -> None:
    """gloo stacks what it gathers: [2] of each rank becomes [ranks, 2]."""
    inputs, outputs = entry["input_sizes"], entry["output_sizes"]
    if kind.operation == "all_gather" and len(inputs) == len(outputs) == 1 and outputs[0][1:] == inputs[0]:
        dump.sizes[kind.group] = int(outputs[0][0])
