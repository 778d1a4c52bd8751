"""Events made by hand, so that a test knows every time in them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ddp_lessons.record.event import Event
from ddp_lessons.record.events import Events
from ddp_lessons.record.rank_record import Recorded

BEGAN = 10.0


def call(
    operation: str,
    begin: float,
    end: float | None,
    *,
    name: str = "",
    group_ranks: Sequence[int] = (),
    peer: int | None = None,
    bytes: int = 16,
    values: tuple[float, ...] | None = None,
    issued: float | None = None,
    waited: float | None = None,
    error: str = "",
    group: str = "0",
    thread: str = "MainThread",
    is_blocking: bool = False,
) -> Event:
    """A call in milliseconds after the function began; one that does not say when it was issued is a blocking one."""
    if issued is None:
        issued = waited = begin
        is_blocking = True
    return Event(
        rank=-1,
        call=name or operation,
        operation=operation,
        group=group,
        group_ranks=tuple(group_ranks),
        peer=peer,
        root=None,
        reduce_op=None,
        tag=0,
        shape=(4,),
        tensors=1,
        dtype="float32",
        bytes=bytes,
        values=values,
        received=None,
        file="/tmp/ipykernel_1/1.py",
        line=3,
        function="f",
        thread=thread,
        begin=BEGAN + begin / 1e3,
        issued=BEGAN + issued / 1e3,
        waited=None if waited is None else BEGAN + waited / 1e3,
        end=None if end is None else BEGAN + end / 1e3,
        error=error,
        is_blocking=is_blocking,
    )


def retimed(events: Sequence[Event], change: Callable[[float], float]) -> list[Event]:
    def one(event: Event) -> Event:
        times = {name: getattr(event, name) for name in ("begin", "issued", "waited", "end")}
        changed: dict[str, Any] = {name: change(time) for name, time in times.items() if time is not None}
        return replace(event, **changed)

    return [one(event) for event in events]


def record(
    by_rank: Sequence[Sequence[Event]],
    dropped: Mapping[int, int] | None = None,
    nodes: Sequence[tuple[str, float]] = (),
) -> Events:
    """`nodes`: for each rank the node, and by how many seconds its times may be off."""
    places = nodes or [("", 0.0)] * len(by_rank)
    return Events(
        [
            Recorded(BEGAN, tuple(calls), (dropped or {}).get(rank, 0), node=node, clock_error=error)
            for rank, (calls, (node, error)) in enumerate(zip(by_rank, places, strict=True))
        ]
    )


def record_work(gaps: Sequence[Sequence[tuple[float, float, float]]], events: Events, late_by: float = 0) -> Events:
    """The same calls, with what each rank did between them, in milliseconds: from, to, and how long on a CPU.

    The function began on the last rank so many milliseconds later than on the others.
    """
    last = events.world_size - 1
    return Events(
        [
            Recorded(
                BEGAN + late_by / 1e3 * (rank == last),
                tuple(retimed(events.of(rank), lambda moment: BEGAN + moment)),
                gaps=tuple((BEGAN + begin / 1e3, BEGAN + end / 1e3, on_cpu / 1e3) for begin, end, on_cpu in mine),
            )
            for rank, mine in enumerate(gaps)
        ]
    )


def token_round(world_size: int) -> Events:
    """Every rank but the first waits for a token, and every rank but the last passes it on; then all meet."""
    everyone = range(world_size)
    calls: list[list[Event]] = [[] for _ in everyone]
    for rank in range(world_size - 1):
        calls[rank].append(call("send", 2 * rank + 2, 2 * rank + 3, peer=rank + 1, values=(float(rank),)))
        calls[rank + 1].append(call("recv", 1, 2 * rank + 3.5, peer=rank))
    for rank in everyone:
        begin = 2 * world_size + (rank * 7 % world_size) / world_size
        calls[rank].append(call("all_reduce", begin, 2 * world_size + 3 + rank / 10, group_ranks=everyone))
    return record(calls)


def ring_steps(world_size: int, steps: int) -> Events:
    """In each step every rank sends to its right neighbor."""
    calls: list[list[Event]] = [[] for _ in range(world_size)]
    for step in range(steps):
        for rank in range(world_size):
            begin = 2.0 * step + 0.5 * ((rank * 3 + step) % world_size) / world_size
            right, left, values = (rank + 1) % world_size, (rank - 1) % world_size, (float(step), float(rank))
            batch: dict[str, Any] = {"name": "batch_isend_irecv", "bytes": 8}
            calls[rank].append(call("send", begin, 2.0 * step + 1.5, peer=right, values=values, **batch))
            calls[rank].append(call("recv", begin + 0.001, 2.0 * step + 1.7, peer=left, **batch))
    return record(calls)
