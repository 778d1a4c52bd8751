"""Why ranks that wait can wait for ever: the rule that was broken, and what to look for.

What did not fit together explains all that comes after it. Else the waits are followed, from rank to rank, until they
end at one that has returned, or come round in a circle.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from ddp_lessons.record.event import POINT_TO_POINT, Event
from ddp_lessons.record.events import Events
from ddp_lessons.record.rank_record import NEW_GROUPS
from ddp_lessons.run.diagnosis.call_fit import NEXT_ALONE, first_disagreement
from ddp_lessons.run.diagnosis.parted_ranks import NEXT_SKIPPED, first_parting
from ddp_lessons.run.diagnosis.waits import Waits, number_taken_twice
from ddp_lessons.run.diagnosis.wording import DDP, Reason, called, listed, name_of, ranks_named, told_by_rank

_NEW_GROUP = (
    "new_group ends only when every rank of the group has called it, each after the same number of other groups"
)
_NEXT_NEVER_CAME = "look for an `if rank == 0`, an early return, or an exception that was swallowed, before that call."
_NEXT_FEWER = "look for a loop with fewer steps on some ranks: uneven batches, a break, or a swallowed exception."
_NEXT_UNEVEN = (
    "where a rank has fewer batches, train inside `with model.join():`; where it leaves a parameter out of the loss, "
    "DistributedDataParallel(..., find_unused_parameters=True)."
)
_NEXT_WHO_TALKS = "look at who sends and who receives, and whether each message has both sides."


def why_nobody_moves(events: Events) -> Reason | None:
    """None: no wait of these is one for ever, as far as the calls tell."""
    waits = Waits(events)
    stuck = {event.rank: event for event in waits.never_ending}
    if not stuck:
        return None
    reason = _of_world_sizes(events, stuck) or first_disagreement(events)
    if reason is not None:
        return reason
    if reason := next((found for event in stuck.values() if (found := _of_message(event, stuck, events))), None):
        return reason
    return _at_the_end_of(waits, stuck)


def why_connection_was_lost(events: Events, rank: int) -> Reason | None:
    """The other side ended its group, or itself, while this rank waited for it."""
    failed = [event for event in events.of(rank) if event.error and event.took_part]
    waits = Waits(events)
    missing = waits.waited_for(failed[-1]) if failed else ()
    return _of_those_gone(failed[-1], missing, waits) if missing else None


def why_a_message_is_not_taken(event: Event, events: Events) -> Reason | None:
    """Of a wait that was given up: another call is there that could have been its other side, but does not fit."""
    return _of_message(event, {event.rank: event}, events)


def why_without_calls(waits_in: Mapping[int, str], returned: Collection[int]) -> Reason | None:
    """Where nothing was recorded, the names of the calls have to do."""
    names = {name for name in waits_in.values() if name}
    if not returned or not names:
        return None
    gone = sorted(returned)
    if names & {*POINT_TO_POINT, "isend", "irecv"}:
        return Reason([f"A message needs both sides, and {ranks_named(gone)} returned."], _NEXT_WHO_TALKS)
    what = "init_process_group" if names == {"init_process_group"} else "A collective"
    sentence = f"{what} ends only when every rank has called it; {ranks_named(gone)} returned, perhaps without."
    return Reason([sentence], _NEXT_NEVER_CAME)


def _of_world_sizes(events: Events, stuck: Mapping[int, Event]) -> Reason | None:
    for meeting in events.meetings:
        if (number := number_taken_twice(meeting)) is not None:
            ranks = [event.rank for event in meeting.events if event.tag == number]
            sentence = f"{ranks_named(ranks).capitalize()} join as rank {number}: a number belongs to one rank."
            return Reason([sentence], "let each rank join with its own number.", ranks[0])
    joining = {event.rank: event for event in stuck.values() if event.operation == "init_process_group"}
    if len({event.group for event in joining.values()}) > 1:
        told = told_by_rank({rank: f"at {event.group} ({event.place})" for rank, event in joining.items()})
        sentence = f"The ranks wait for each other at different places: {told}."
        return Reason([sentence], "give all the same init_method, or the same MASTER_ADDR and MASTER_PORT.")
    for event in joining.values():
        if len(event.group_ranks) > events.world_size:
            told = f"Rank {event.rank} was told of {len(event.group_ranks)} ranks, but only {events.world_size} run"
            return Reason([f"{told}: init_process_group waits for the others for ever."], "correct world_size.")
    return None


def _of_message(event: Event, stuck: Mapping[int, Event], events: Events) -> Reason | None:
    """A message whose other side is there, but does not fit."""
    if event.is_collective:
        return None
    taken = {id(one): delivery for delivery in events.deliveries for one in (delivery.send, delivery.recv)}
    if (delivery := taken.get(id(event))) is not None and delivery.send.remark == "let go":
        return _of_a_send_let_go(delivery.send)
    for other in events.by_rank:
        if id(other) not in taken and _could_be_meant(event, other, is_held=stuck.get(other.rank) is other):
            return _of_tags(event, other) if other.tag != event.tag else _of_groups(event, other)
    strayed = next((other for other in stuck.values() if _has_strayed(event, other)), None)
    return None if strayed is None else _of_a_wrong_peer(event, strayed)


def _could_be_meant(event: Event, other: Event, is_held: bool) -> bool:
    """The other side of a message between the same two ranks, but for its tag or group."""
    if other.is_collective or other.operation == event.operation or not other.took_part or other.rank == event.rank:
        return False
    if (event.group, event.tag) == (other.group, other.tag):
        return False
    fits = (event.dtype, event.bytes) == (other.dtype, other.bytes)
    return (fits or is_held) and event.peer in (None, other.rank) and other.peer in (None, event.rank)


def _has_strayed(event: Event, other: Event) -> bool:
    """The other waits for this rank, while this one waits for somebody else."""
    is_opposite = not other.is_collective and other.operation != event.operation
    return is_opposite and other.peer == event.rank and event.peer not in (None, other.rank)


def _of_a_send_let_go(send: Event) -> Reason:
    what = f"{send.call} of rank {send.rank} ({send.place})"
    sentence = f"The {what} was given up before the message was gone: nobody kept what it gave, nor waited for it."
    return Reason([sentence], "keep it, and wait: work = dist.isend(...), and later work.wait().", send.rank)


def _of_tags(event: Event, other: Event) -> Reason:
    send, recv = (event, other) if event.operation == "send" else (other, event)
    sent = f"rank {send.rank} sends to rank {send.peer} with tag {send.tag} ({send.place})"
    received = f"rank {recv.rank} receives with tag {recv.tag} ({recv.place})"
    return Reason([f"The tags differ: {sent}, and {received}."], "use the same tag on both sides.", recv.rank)


def _of_groups(event: Event, other: Event) -> Reason:
    sentence = f"Ranks {event.rank} and {other.rank} send and receive in different groups."
    return Reason([sentence], "give both the same group.", event.rank)


def _of_a_wrong_peer(event: Event, strayed: Event) -> Reason:
    first = f"Rank {event.rank} waits in {called(event)} ({event.place}), which has no call that fits."
    second = f"Rank {strayed.rank} waits in {called(strayed)} ({strayed.place}): one of the two names the wrong rank."
    return Reason([first, second], "look at the rank that is given to send and recv on these lines.", event.rank)


def _at_the_end_of(waits: Waits, stuck: Mapping[int, Event]) -> Reason:
    path = [next(iter(stuck.values()))]
    while True:
        missing = [rank for rank in waits.waited_for(path[-1]) or () if rank not in waits.movable]
        gone = [rank for rank in missing if rank not in stuck]
        if gone:
            return _of_those_gone(path[-1], gone, waits)
        if not missing:
            return Reason([f"Nothing that is still to come can end {called(path[-1])}."], _NEXT_WHO_TALKS)
        if path[-1].operation == "recv" and path[-1].peer is None:
            return _of_nobody_who_sends(path[-1], [stuck[rank] for rank in missing])
        following = stuck[missing[0]]
        if following in path:
            return _of_circle(path[path.index(following) :], waits)
        path.append(following)


def _of_those_gone(event: Event, gone: Sequence[int], waits: Waits) -> Reason:
    who = ranks_named(gone)
    if not event.is_collective:
        wanted = "send" if event.operation == "recv" else "recv"
        missing = f"{who} returned without the {wanted} that rank {event.rank} waits for"
        missing = missing if event.peer is not None else f"nobody is left to send one to rank {event.rank}"
        return Reason([f"A message needs both sides, but {missing}."], _NEXT_WHO_TALKS)
    if event.operation in (*NEW_GROUPS, "init_process_group"):
        rule = "init_process_group ends only when every rank has called it"
        rule = _NEW_GROUP if event.operation in NEW_GROUPS else rule
        return Reason([f"{rule}, but {who} returned without."], _NEXT_NEVER_CAME)
    sentences = [f"A collective ends only when every rank of its group has called it, but {who} returned without."]
    made = {rank: waits.events.made[rank][event.meeting_point] for rank in gone}
    if any(made.values()) and event.call != DDP:  # of whose calls a learner sees none
        told = told_by_rank({rank: f"made {count}" for rank, count in made.items()})
        sentences.append(f"Rank {event.rank} is in its collective call number {waits.numbers[id(event)] + 1}; {told}.")
        if parting := first_parting(waits.events, event.group):
            return Reason([*sentences, parting.sentence], NEXT_SKIPPED, event.rank)
    places = {(one.file, one.line) for rank in gone for one in waits.events.of(rank)}
    advice = _NEXT_FEWER if (event.file, event.line) in places else _NEXT_NEVER_CAME
    if event.call == DDP:
        advice = _NEXT_UNEVEN if event.operation == "all_reduce" else NEXT_ALONE
    return Reason(sentences, advice)


def _of_nobody_who_sends(recv: Event, others: Sequence[Event]) -> Reason:
    waits = told_by_rank({event.rank: f"in {name_of(event)}" for event in others})
    sentence = f"Rank {recv.rank} waits for a message from anyone, and all who could send one wait themselves: {waits}."
    return Reason([sentence], "look for the send that is missing, or that comes too late.", recv.rank)


def _of_circle(circle: Sequence[Event], waits: Waits) -> Reason:
    ranks = [event.rank for event in circle]
    operations = {event.operation for event in circle}
    if len(circle) == 2 and len(operations) == 1 and operations <= set(POINT_TO_POINT):
        wanted = "receive" if operations == {"send"} else "send"
        cure = "receive first, or use isend" if wanted == "receive" else "send first"
        sentence = f"Ranks {listed(sorted(ranks))} each wait for the other to {wanted}: a deadlock."
        return Reason([sentence], f"let one of them {cure}.")
    pairs = zip(circle, [*circle[1:], circle[0]], strict=True)
    if len({event.call for event in circle}) == 1:
        told = ", ".join(f"{one.rank} for {other.rank}" for one, other in pairs)
    else:
        told = ", ".join(f"rank {one.rank} in {name_of(one)} for rank {other.rank}" for one, other in pairs)
    sentences = [f"They wait for each other in a circle ({told}): a deadlock."]
    if operations & set(NEW_GROUPS):
        return Reason([*sentences, f"{_NEW_GROUP}."], "call new_group on every rank, in the same order.")
    if all(event.is_collective for event in circle):
        sentences.append("Collectives come in one order on all ranks, also those of different groups.")
        return Reason(sentences, "make these calls in the same order on every rank.")
    if operations == {"recv"} and (strayed := _sent_past(circle, waits)) is not None:
        receiver = next(event for event in circle if event.rank == strayed.peer)
        sentences.append(
            f"Rank {strayed.rank} has sent to rank {strayed.peer} ({strayed.place}), but that receives from rank "
            f"{receiver.peer} ({receiver.place})."
        )
        return Reason(sentences, "look at who sends to whom, and who receives from whom.", strayed.rank)
    if operations <= set(POINT_TO_POINT):
        return Reason(sentences, "let one of them call the other side first, or use isend and irecv.")
    sentences.append("A rank that waits in one call cannot come to the other.")
    return Reason(sentences, "make these calls in an order in which each can end.")


def _sent_past(circle: Sequence[Event], waits: Waits) -> Event | None:
    """A message to one of them that it does not take."""
    ranks, taken = {event.rank for event in circle}, {id(delivery.send) for delivery in waits.events.deliveries}
    sent = (event for event in waits.events.by_rank if event.operation == "send" and id(event) not in taken)
    return next((event for event in sent if event.peer in ranks and event.took_part), None)
