"""Events in the format of Perfetto (ui.perfetto.dev) and chrome://tracing."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from typing import Any

from ddp_lessons.record.event import Delivery, Event

_Entry = dict[str, Any]


def write_chrome_trace(
    path: str | os.PathLike[str], world_size: int, events: Sequence[Event], deliveries: Sequence[Delivery]
) -> None:
    """One process per rank: calls that blocked its threads, calls in the background, and an arrow per message."""
    threads = {place: number for number, place in enumerate(sorted({(e.rank, e.thread) for e in events}), start=1)}
    last = max((event.end or event.issued for event in events), default=0.0)
    entries = [*_names(world_size, threads)]
    for number, event in enumerate(events):
        about = {"pid": event.rank, "tid": threads[event.rank, event.thread], "cat": event.operation}
        entries += [{**about, **slice_} for slice_ in _slices(event, number, last)]
    for number, delivery in enumerate(deliveries):
        send, recv = delivery.send, delivery.recv
        taken = max(send.begin, recv.begin if recv.waited is None else recv.waited)
        for event, phase, moment in ((send, "s", send.begin), (recv, "f", taken)):
            about = {"pid": event.rank, "tid": threads[event.rank, event.thread], "cat": "message", "name": "message"}
            entries.append({**about, "ph": phase, "bp": "e", "id": number, "ts": moment * 1e6})
    with open(path, "w", encoding="utf-8") as file:
        json.dump({"traceEvents": entries, "displayTimeUnit": "ms"}, file)


def _names(world_size: int, threads: dict[tuple[int, str], int]) -> Iterator[_Entry]:
    for rank in range(world_size):
        yield {"ph": "M", "pid": rank, "name": "process_name", "args": {"name": f"rank {rank}"}}
        yield {"ph": "M", "pid": rank, "name": "process_sort_index", "args": {"sort_index": rank}}
    for (rank, thread), number in threads.items():
        yield {"ph": "M", "pid": rank, "tid": number, "name": "thread_name", "args": {"name": thread or "a thread"}}


def _slices(event: Event, number: int, last: float) -> Iterator[_Entry]:
    """The whole call, which may overlap others, and the part of it that blocked its thread."""
    end = event.issued if event.error else last if event.end is None else event.end
    yield {"ph": "b", "id": number, "name": event.call, "ts": event.begin * 1e6, "args": _detail(event)}
    yield {"ph": "e", "id": number, "name": event.call, "ts": end * 1e6}
    yield {"ph": "X", "name": event.call, "ts": event.begin * 1e6, "dur": (event.issued - event.begin) * 1e6}
    if event.waited is not None:
        held = max(0.0, end - event.waited)
        yield {"ph": "X", "name": f"wait for {event.call}", "ts": event.waited * 1e6, "dur": held * 1e6}


def _detail(event: Event) -> _Entry:
    about = {
        "bytes": event.bytes,
        "shape": list(event.shape),
        "dtype": event.dtype,
        "peer": event.peer,
        "root": event.root,
        "reduce op": event.reduce_op,
        "group": list(event.group_ranks),
        "at": event.place,
        "error": event.error,
    }
    return {name: value for name, value in about.items() if value not in (None, "")}
