"""Why ranks hang: the rule that was broken, and what to look for.

Mismatched calls explain everything after them. If there are none, follow the waits from rank to rank until they end at
a rank that has returned, or form a circle.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from ddp_lessons.record.event import POINT_TO_POINT, Event
from ddp_lessons.record.events import Events
from ddp_lessons.record.rank_record import NEW_GROUPS
from ddp_lessons.run.diagnosis.advice import Reason
from ddp_lessons.run.diagnosis.call_fit import first_difference, first_disagreement
from ddp_lessons.run.diagnosis.waits import Waits, number_taken_twice
from ddp_lessons.run.diagnosis.wording import (
    DDP,
    called,
    listed,
    name_of,
    ranks_named,
    told_by_rank,
)

_NEW_GROUP = (
    "new_group completes only when every member of the new group has made the same new_group calls in the same order."
)


@dataclass(frozen=True)
class Absence:
    """How to say that ranks do not make the call that others wait for. For one, `{have}` is "has" and `{they}` "it"."""

    call: str = "returned without calling it"
    message: str = "returned without the"  # ... send that rank 1 waits for

    def of(self, ranks: Sequence[int], what: str) -> str:
        have, they = ("has", "it") if len(ranks) == 1 else ("have", "they")
        return f"{ranks_named(ranks)} {what.format(have=have, they=they)}"


RETURNED = Absence()


def why_nobody_moves(events: Events, absence: Absence = RETURNED) -> Reason | None:
    """None: as far as the calls show, none of these waits is endless. Absent are ranks that wait in no call."""
    waits = Waits(events)
    stuck = {event.rank: event for event in waits.never_ending}
    if not stuck:
        return None
    reason = _of_world_sizes(events, stuck) or first_disagreement(events)
    if reason is not None:
        return reason
    if reason := next((found for event in stuck.values() if (found := _of_message(event, stuck, events))), None):
        return reason
    return _at_the_end_of(waits, stuck, absence)


def why_connection_was_lost(events: Events, rank: int) -> Reason | None:
    """The other rank left its group, or exited, while this rank waited for it."""
    failed = [event for event in events.of(rank) if event.error and event.took_part]
    waits = Waits(events)
    missing = waits.waited_for(failed[-1]) if failed else ()
    return _of_those_gone(failed[-1], missing, waits, RETURNED) if missing else None


def why_a_message_is_not_taken(event: Event, events: Events) -> Reason | None:
    """For a wait that timed out: another call could have been its counterpart, but does not match it."""
    return _of_message(event, {event.rank: event}, events)


def why_without_calls(waits_in: Mapping[int, str], returned: Collection[int]) -> Reason | None:
    """For ranks without recorded calls: only the names of the calls are known."""
    names = {name for name in waits_in.values() if name}
    if not returned or not names:
        return None
    gone = sorted(returned)
    if names & {*POINT_TO_POINT, "isend", "irecv"}:
        return Reason("no-counterpart", [f"A message needs a send and a recv, but {ranks_named(gone)} returned."])
    what = "init_process_group" if names == {"init_process_group"} else "A collective"
    rule = f"{what} completes only when every rank calls it."
    return Reason("never-called", [f"{rule} {_subject(gone)} returned, possibly without calling it."])


def _of_world_sizes(events: Events, stuck: Mapping[int, Event]) -> Reason | None:
    for meeting in events.meetings:
        if (number := number_taken_twice(meeting)) is not None:
            ranks = [event.rank for event in meeting.events if event.tag == number]
            sentence = f"Duplicate rank: {ranks_named(ranks)} join as rank {number}."
            return Reason("duplicate-rank", [sentence], ranks[0])
    joining = {event.rank: event for event in stuck.values() if event.operation == "init_process_group"}
    if len({event.group for event in joining.values()}) > 1:
        told = told_by_rank({rank: f"tried to join at {one.group} ({one.place})" for rank, one in joining.items()})
        sentence = f"Rendezvous mismatch in init_process_group: {told}."
        return Reason("rendezvous-mismatch", [sentence])
    for event in joining.values():
        if len(event.group_ranks) > events.world_size:
            expected, running = len(event.group_ranks), events.world_size
            sentence = f"World size mismatch: rank {event.rank} joins with world_size={expected}, but only {running} "
            sentence += f"{'rank is' if running == 1 else 'ranks are'} running."
            return Reason("world-size-too-large", [sentence])
    return None


def _of_message(event: Event, stuck: Mapping[int, Event], events: Events) -> Reason | None:
    """A message with a counterpart that does not match it."""
    if event.is_collective:
        return None
    taken = {id(one): delivery for delivery in events.deliveries for one in (delivery.send, delivery.recv)}
    if (delivery := taken.get(id(event))) is not None and delivery.send.remark == "let go":
        return _of_a_send_let_go(delivery.send)

    def meant_for(one: Event) -> list[Event]:
        others = (other for other in events.by_rank if id(other) not in taken)
        return [other for other in others if _could_be_meant(one, other, is_held=stuck.get(other.rank) is other)]

    if meant := meant_for(event):
        other = meant[0]
        if other.tag == event.tag:
            return _of_groups(event, other)
        send, recv = (event, other) if event.operation == "send" else (other, event)
        if recv.peer is not None:
            return _of_tags(recv, [send])
        return _of_tags(recv, [one for one in meant_for(recv) if one.tag != recv.tag])
    strayed = next((other for other in stuck.values() if _has_strayed(event, other)), None)
    return None if strayed is None else _of_a_wrong_peer(event, strayed)


def _could_be_meant(event: Event, other: Event, is_held: bool) -> bool:
    """It would be the counterpart, a message between the same two ranks, if its tag and group were the same."""
    if other.is_collective or other.operation == event.operation or not other.took_part or other.rank == event.rank:
        return False
    if (event.group, event.tag) == (other.group, other.tag):
        return False
    fits = (event.dtype, event.bytes) == (other.dtype, other.bytes)
    return (fits or is_held) and event.peer in (None, other.rank) and other.peer in (None, event.rank)


def _has_strayed(event: Event, other: Event) -> bool:
    """The other call waits for this rank, while this one waits for a third rank."""
    is_opposite = not other.is_collective and other.operation != event.operation
    return is_opposite and other.peer == event.rank and event.peer not in (None, other.rank)


def _of_a_send_let_go(send: Event) -> Reason:
    what = f"the Work handle of its {send.call} ({send.place})"
    sentence = f"Missing wait(): rank {send.rank} dropped {what} before the send completed."
    return Reason("dropped-handle", [sentence], send.rank)


def _of_tags(recv: Event, sends: Sequence[Event]) -> Reason:
    """Where any rank may send it, nobody knows whose tag is wrong, so the first message of each is named."""
    first = {send.rank: send for send in reversed(sends)}
    sent = [f"rank {n} sends to rank {recv.rank} with tag {first[n].tag} ({first[n].place})" for n in sorted(first)]
    received = f"rank {recv.rank} receives with tag {recv.tag} ({recv.place})"
    return Reason("tag-mismatch", [f"Tag mismatch: {', '.join(sent)}, but {received}."], recv.rank)


def _of_groups(event: Event, other: Event) -> Reason:
    sentence = f"Group mismatch: ranks {event.rank} and {other.rank} send and receive in different groups."
    return Reason("message-group-mismatch", [sentence], event.rank)


def _of_a_wrong_peer(event: Event, strayed: Event) -> Reason:
    first = f"Rank {event.rank} waits in {called(event)} ({event.place}), but rank {event.peer} makes no matching call."
    second = f"Rank {strayed.rank} waits in {called(strayed)} ({strayed.place})."
    third = "One of the two calls names the wrong rank."
    return Reason("wrong-peer", [first, second, third], event.rank)


def _at_the_end_of(waits: Waits, stuck: Mapping[int, Event], absence: Absence) -> Reason:
    path = [next(iter(stuck.values()))]
    while True:
        missing = [rank for rank in waits.waited_for(path[-1]) or () if rank not in waits.movable]
        gone = [rank for rank in missing if rank not in stuck]
        if gone:
            return _of_those_gone(path[-1], gone, waits, absence)
        if not missing:
            sentence = f"No rank is left to make the call that would complete {called(path[-1])}."
            return Reason("no-counterpart", [sentence])
        if path[-1].operation == "recv" and path[-1].peer is None:
            return _of_no_sender(path[-1], [stuck[rank] for rank in missing])
        following = stuck[missing[0]]
        if following in path:
            return _of_circle(path[path.index(following) :], waits)
        path.append(following)


def _of_those_gone(event: Event, gone: Sequence[int], waits: Waits, absence: Absence) -> Reason:
    who = _first_letter_up(absence.of(gone, absence.call))
    if not event.is_collective:
        wanted = "send" if event.operation == "recv" else "recv"
        missing = f"{absence.of(gone, absence.message)} {wanted} that rank {event.rank} waits for"
        missing = missing if event.peer is not None else f"no rank is left to send one to rank {event.rank}"
        return Reason("no-counterpart", [f"A message needs a send and a recv, but {missing}."])
    if event.operation in (*NEW_GROUPS, "init_process_group"):
        rule = "init_process_group completes only when every rank calls it."
        rule = _NEW_GROUP if event.operation in NEW_GROUPS else rule
        return Reason("never-called", [f"{rule} {who}."])
    rule = "A collective completes only when every rank in its group calls it."
    sentences = [f"{rule} {who}."]
    made = {rank: waits.events.made[rank][event.meeting_point] for rank in gone}
    if any(made.values()) and event.call != DDP:  # a learner does not see the calls that DDP makes
        told = told_by_rank({rank: f"called {f'only {count}' if count else 'none'}" for rank, count in made.items()})
        sentences.append(f"Rank {event.rank} is in collective {waits.numbers[id(event)] + 1}, but {told}.")
        if difference := first_difference(waits.events, event.group):
            return Reason("skipped-earlier", [*sentences, difference.sentence], event.rank)
    places = {(one.file, one.line) for rank in gone for one in waits.events.of(rank)}
    key = "fewer-steps" if (event.file, event.line) in places else "never-called"
    if event.call == DDP:
        key = "uneven-batches" if event.operation == "all_reduce" else "ddp-left-alone"
    return Reason(key, sentences)


def _subject(ranks: Sequence[int]) -> str:
    return ranks_named(ranks).capitalize()


def _first_letter_up(sentence: str) -> str:
    return sentence[:1].upper() + sentence[1:]


def _of_no_sender(recv: Event, others: Sequence[Event]) -> Reason:
    waits = told_by_rank({event.rank: f"in {name_of(event)}" for event in others})
    sentence = f"Rank {recv.rank} waits for a message from any rank, but every possible sender is waiting: {waits}."
    return Reason("no-sender", [sentence], recv.rank)


def _of_circle(circle: Sequence[Event], waits: Waits) -> Reason:
    ranks = [event.rank for event in circle]
    operations = {event.operation for event in circle}
    if len(circle) == 2 and len(operations) == 1 and operations <= set(POINT_TO_POINT):
        wanted = "receive" if operations == {"send"} else "send"
        cure = "receive first, or use isend" if wanted == "receive" else "send first"
        sentence = f"Deadlock: ranks {listed(sorted(ranks))} each wait for the other to {wanted}."
        return Reason("deadlock-of-two", [sentence], blanks={"cure": cure})
    pairs = zip(circle, [*circle[1:], circle[0]], strict=True)
    if len({event.call for event in circle}) == 1:
        told = ", ".join(f"{one.rank} for {other.rank}" for one, other in pairs)
    else:
        told = ", ".join(f"rank {one.rank} in {name_of(one)} for rank {other.rank}" for one, other in pairs)
    sentences = [f"Deadlock: the ranks wait for each other in a circle ({told})."]
    if operations & set(NEW_GROUPS):
        return Reason("deadlock-of-new-groups", [*sentences, _NEW_GROUP])
    if all(event.is_collective for event in circle):
        sentences.append("All ranks must call their collectives in the same order, even on different groups.")
        return Reason("deadlock-of-collectives", sentences)
    if operations == {"recv"} and (strayed := _sent_past(circle, waits)) is not None:
        receiver = next(event for event in circle if event.rank == strayed.peer)
        sentences.append(
            f"Rank {strayed.rank} sent to rank {strayed.peer} ({strayed.place}), but rank {receiver.rank} receives "
            f"from rank {receiver.peer} ({receiver.place})."
        )
        return Reason("deadlock-of-a-stray-send", sentences, strayed.rank)
    if operations <= set(POINT_TO_POINT):
        return Reason("deadlock-of-messages", sentences)
    sentences.append("While a rank is blocked in one of these calls, it cannot reach its next one.")
    return Reason("deadlock", sentences)


def _sent_past(circle: Sequence[Event], waits: Waits) -> Event | None:
    """A message to one of these ranks that it does not receive."""
    ranks, taken = {event.rank for event in circle}, {id(delivery.send) for delivery in waits.events.deliveries}
    sent = (event for event in waits.events.by_rank if event.operation == "send" and id(event) not in taken)
    return next((event for event in sent if event.peer in ranks and event.took_part), None)
