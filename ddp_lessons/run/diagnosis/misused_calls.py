"""Non-blocking calls without a wait(), or with a tensor that was changed before it."""

from __future__ import annotations

from collections.abc import Sequence

from ddp_lessons.record.event import Event
from ddp_lessons.record.events import Events
from ddp_lessons.run.diagnosis.advice import Reason
from ddp_lessons.run.diagnosis.wording import ranks_named


def places_of(events: Events) -> dict[int, tuple[int, int]]:
    """The position of each event among the calls of its rank: this order is the same in every run of a program."""
    ranks = range(events.world_size)
    return {id(event): (number, rank) for rank in ranks for number, event in enumerate(events.of(rank))}


def first_misuse(events: Events) -> Reason | None:
    """The first non-blocking call that was misused. It counts only where it can have done harm."""
    if events.is_out_of_sight:
        return None
    sides = _other_sides(events)
    received = {id(delivery.send) for delivery in events.deliveries} | _received_long_ago(events)
    misused = [event for event in events if _is_misused(event, sides.get(id(event), ()), id(event) in received)]
    if not misused:
        return None
    places = places_of(events)
    first = min(misused, key=lambda event: places[id(event)])
    ranks = sorted({event.rank for event in misused if (event.call, event.place) == (first.call, first.place)})
    who, its = ranks_named(ranks).capitalize(), "its" if len(ranks) == 1 else "their"
    what = f"{its} {first.call} ({first.place})"
    could_be_left = first.operation == "send" or _gets_nothing(first)  # needs no wait(), but must not change
    if first.remark == "changed" and (first.waited is not None or could_be_left):
        before = "before calling wait()" if first.waited is not None else "and never called wait()"
        sentence = f"{who} changed the tensor of {what} {before}."
        return Reason("changed-before-wait", [sentence], first.rank)
    if first.operation == "send":
        sentence = f"{who} never called wait() for {what}, and no rank received the message."
    else:
        harm = "the tensor may be incomplete" if first.bytes else "no rank waited"
        sentence = f"{who} never called wait() for {what}, so {harm}."
    return Reason("missing-wait", [sentence], first.rank)


def _other_sides(events: Events) -> dict[int, Sequence[Event]]:
    """By the id of a call, its counterparts on the other ranks."""
    sides: dict[int, Sequence[Event]] = {}
    for met in (*(meeting.events for meeting in events.meetings), *((d.send, d.recv) for d in events.deliveries)):
        for event in met:
            sides[id(event)] = [other for other in met if other is not event]
    return sides


def _received_long_ago(events: Events) -> set[int]:
    """Sends whose recv is no longer among the recorded calls."""
    sends = ((e, n) for rank in range(events.world_size) for e, n in events.numbered(rank) if e.operation == "send")
    return {
        id(send)
        for send, number in sends
        if send.peer is not None
        and send.peer < events.world_size
        and events.made[send.peer]["recv", send.group, send.rank, send.tag] > number
    }


def _is_misused(event: Event, others: Sequence[Event], was_received: bool) -> bool:
    if not event.remark or event.error or not event.backend.startswith("gloo"):
        return False
    if event.remark == "changed":
        return not (_was_over([event], event.untouched) or _was_over(others, event.untouched))
    if event.operation == "send":
        return not was_received
    if event.operation == "barrier":  # a rank may only announce itself, if another one waits
        return all(other.remark for other in others)
    return not _gets_nothing(event)


def _was_over(calls: Sequence[Event], moment: float | None) -> bool:
    """All of these had ended by that moment: after it, their counterparts may change their tensors."""
    return moment is not None and bool(calls) and all(one.end is not None and one.end <= moment for one in calls)


def _gets_nothing(event: Event) -> bool:
    """The root of a broadcast only sends, and so does every rank but the root of a reduce or gather."""
    is_root = event.root == event.rank
    return is_root if event.operation == "broadcast" else event.operation in ("reduce", "gather") and not is_root
