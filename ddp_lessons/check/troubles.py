"""Launches that did not come to an end: what happened, in the exercise's words, and which mistake that reminds of."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ddp_lessons.check.traffic import group_between_trials, hangs, is_between
from ddp_lessons.run.events import Event, Events
from ddp_lessons.run.failures import WorkerFailed, WorkersStuck

Trouble = WorkerFailed | WorkersStuck
_WHERE = re.compile(r"^    rank (\d+)   (.*)$", re.M)
_NOISE = re.compile(r"\[\S*/gloo/\S*\] ?| ?\[[\d.:a-f]+\]:\d+")  # a line of C++, an address with its port
_TOLD_ELSEWHERE = ("  Rank", "  It last said", "  Next")

_MISTAKES = (
    (
        "should not be the same as the rank of the current process",
        "A rank sends to itself or receives from itself, and torch refuses that: alone, it has nobody to talk to.",
    ),
    (
        "SIGABRT",
        "Tensors of different size or dtype met: receive into torch.empty_like(tensor), or into a part of it.",
    ),
    ("contiguous", "What is sent has to lie in one piece of memory: use contiguous()."),
    (
        "process group has not been initialized",
        "The process group is gone: leave it as it is, and call neither init_process_group nor destroy_process_group.",
    ),
    ("ended its process", "A rank ends its process instead of returning."),
)


def what_failed(error: WorkerFailed) -> tuple[str, list[str]]:
    """The likely mistake, and lines that show who, what and where."""
    lines = _NOISE.sub("", str(error)).split("\n")
    own = [line for line in lines if not line.startswith(_TOLD_ELSEWHERE) and "<string>" not in line]
    own = own[: next((n for n, line in enumerate(lines) if line.startswith(_TOLD_ELSEWHERE)), len(own))]
    fallback = own[0][0].upper() + own[0][1:].rstrip(".") + "."
    mistake = next((sentence for sign, sentence in _MISTAKES if sign in own[0]), fallback)
    return mistake, [f"    {line.strip()}" for line in own]


def was_not_begun(error: WorkerFailed) -> bool:
    """The stub that raises NotImplementedError, on every rank, before anything else."""
    return "raised NotImplementedError" in str(error).split("\n")[0]


def what_is_stuck(error: WorkersStuck) -> tuple[str, list[str]]:
    """The likely mistake, and where each rank is."""
    events = error.results.events
    between = group_between_trials(events)
    waiting = {rank: _waiting(events.of(rank)) for rank in range(events.world_size)}
    through = [rank for rank, event in waiting.items() if event is not None and is_between(event, between)]
    where = {int(rank): what for rank, what in _WHERE.findall(str(error))}
    lines = [f"    rank {rank}   {'has returned' if rank in through else what}" for rank, what in where.items()]
    busy = [rank for rank, event in waiting.items() if event is None]
    if busy:
        what = where.get(busy[0], "is busy").partition(":   ")[0]
        return f"It does not come to an end: rank {busy[0]} {what}.", lines
    calls = [event for event in waiting.values() if event is not None and not is_between(event, between)]
    return (_wrong_partner(calls, events) or _not_met(calls, through)), lines


def _wrong_partner(calls: Sequence[Event], events: Events) -> str:
    """Something that one of the calls says by itself."""
    first, world_size = calls[0], events.world_size
    if world_size == 1:
        return f"It waits in {first.call} for ever, with nobody to talk to."
    for call in calls:
        if call.peer is not None and call.peer >= world_size:
            return f"Rank {call.rank} waits for a rank that does not exist: rank {call.peer} of {world_size}."
    if first.is_collective:
        latest = [[event for event in events.of(rank) if event.call == first.call] for rank in range(world_size)]
        if all(latest) and len({mine[-1].shape for mine in latest}) > 1:
            return f"The ranks call {first.call} with tensors of different size, which cannot be combined."
    return ""


def _not_met(calls: Sequence[Event], returned: Sequence[int]) -> str:
    first, operations = calls[0], {call.operation for call in calls}
    if not operations & {"send", "recv"}:
        return f"Not every rank calls {first.call}, and those that do wait for the others."
    if returned and operations == {"recv"}:
        source = "another rank" if first.peer is None else f"rank {first.peer}"
        return f"Rank {first.rank} waits in {first.call} for a message from {source} that is never sent."
    if returned and operations == {"send"}:
        return f"Rank {first.rank} waits in {first.call}: nobody receives its message to rank {first.peer}."
    if operations == {"send"}:
        return (
            "Every rank sends first, and a send waits until the other side receives: let one side receive first, or "
            "use isend or irecv."
        )
    if operations == {"recv"}:
        return "Every rank waits to receive first, so nobody is left to send: one rank has to begin."
    return "The ranks wait for each other in a circle: each send needs a rank that receives it at that time."


def _waiting(events: Sequence[Event]) -> Event | None:
    """The call that this rank is in."""
    return next((event for event in reversed(events) if hangs(event)), None)
