"""Why ranks that wait can wait for ever, as far as their events show it: one sentence and what to look for."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from ddp_lessons.run.events import POINT_TO_POINT, Event, Events, Meeting
from ddp_lessons.run.wording import ranks_named

_LOOK = "  look for an `if rank == 0`, an early return, or a loop with fewer steps on some ranks."


def what_keeps_them(events: Events, returned: Collection[int], waits_in: Mapping[int, str]) -> list[str]:
    """Lines for the message; none where the events do not tell. `waits_in` names the call that each rank waits in."""
    pending = {rank: call for rank in sorted(waits_in) if (call := _pending(events.of(rank))) is not None}
    for meeting in events.meetings:
        if any(event in meeting.events for event in pending.values()) and (lines := _of_meeting(meeting, returned)):
            return lines
    under_way = {id(event) for delivery in events.deliveries for event in (delivery.send, delivery.recv)}
    messages = {rank: e for rank, e in pending.items() if not e.is_collective and id(e) not in under_way}
    for rank, event in messages.items():
        if lines := _of_message(rank, event, messages, returned):
            return lines
    return [] if pending else _of_names(waits_in, returned)


def _pending(events: Sequence[Event]) -> Event | None:
    """The call in which a rank waits: begun or waited for last, and not over."""
    open_ = [event for event in events if event.end is None and not event.error and event.waited is not None]
    return open_[-1] if open_ else None


def _of_meeting(meeting: Meeting, returned: Collection[int]) -> list[str]:
    kinds = {event.rank: event.call for event in meeting.events}
    if len({event.operation for event in meeting.events}) > 1:
        told = ", ".join(f"rank {rank} {call}" for rank, call in sorted(kinds.items()))
        return [
            f"  The ranks have come to different collectives: {told}.",
            "  All ranks of a group have to call the same collectives in the same order.",
        ]
    if gone := sorted(set(meeting.missing) & set(returned)):
        return _returned_without("A collective", gone)
    brought = {event.rank: f"{list(event.shape)} {event.dtype}" for event in meeting.events}
    if meeting.operation in ("all_reduce", "reduce", "broadcast") and len(set(brought.values())) > 1:
        told = ", ".join(f"rank {rank} {what}" for rank, what in sorted(brought.items()))
        return [f"  The tensors of this {meeting.operation} do not fit together: {told}."]
    return []


def _of_message(rank: int, event: Event, messages: Mapping[int, Event], returned: Collection[int]) -> list[str]:
    peer, other = event.peer, "send" if event.operation == "recv" else "recv"
    if peer in returned:
        return [
            f"  A message needs both sides, but rank {peer} returned without the {other} that rank {rank} waits for."
        ]
    theirs = messages.get(-1 if peer is None else peer)
    if theirs is None:
        return []
    if theirs.peer == rank and theirs.operation == event.operation:
        wanted = "receive" if event.operation == "send" else "send"
        cure = "let one of them receive first, or use isend" if wanted == "receive" else "let one of them send first"
        return [f"  Ranks {rank} and {peer} each wait for the other to {wanted}: a deadlock. One cure: {cure}."]
    if theirs.peer == rank and theirs.tag != event.tag:
        tags = {event.operation: event.tag, theirs.operation: theirs.tag}
        return [
            f"  The tags differ: the message is sent with tag {tags['send']}, and received with tag {tags['recv']}."
        ]
    if circle := _circle(rank, messages):
        told = ", ".join(f"{one} for {messages[one].peer}" for one in circle)
        return [
            f"  They wait for each other in a circle ({told}): a deadlock. Let one of them call the other side first."
        ]
    return []


def _circle(start: int, messages: Mapping[int, Event]) -> list[int]:
    path, rank = [start], messages[start].peer
    while rank is not None and rank in messages and rank not in path:
        path.append(rank)
        rank = messages[rank].peer
    return path if rank == start else []


def _of_names(waits_in: Mapping[int, str], returned: Collection[int]) -> list[str]:
    """Without events (nothing recorded, or still joining) the names of the calls have to do."""
    names = {name for name in waits_in.values() if name}
    if not returned or not names:
        return []
    gone = sorted(returned)
    if names & {*POINT_TO_POINT, "isend", "irecv"}:
        return [f"  A message needs both sides, and {ranks_named(gone)} returned."]
    return _returned_without("init_process_group" if names == {"init_process_group"} else "A collective", gone)


def _returned_without(what: str, gone: Sequence[int]) -> list[str]:
    return [f"  {what} ends only when every rank has called it, but {ranks_named(gone)} returned without:", _LOOK]
