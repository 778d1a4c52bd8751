"""Do the calls of the ranks match? If not, gloo may hang, abort, or return wrong results without an error."""

from __future__ import annotations

import dataclasses
import functools
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from ddp_lessons.record.event import POINT_TO_POINT, Delivery, Event, Meeting, what_must_agree
from ddp_lessons.record.events import Events
from ddp_lessons.record.rank_record import NEW_GROUPS, MeetingPoint, Recorded
from ddp_lessons.run.diagnosis.advice import Reason
from ddp_lessons.run.diagnosis.misused_calls import first_misuse, places_of
from ddp_lessons.run.diagnosis.wording import DDP, called, name_of, told_by_rank

_SAME_EVERYWHERE = "All ranks of a group must call the same collectives in the same order."
_DDP_TALKS = "A DistributedDataParallel model communicates with all ranks in its forward and backward passes."
_GROUPS = (
    "Every rank must call new_group for every group, in the same order, even for groups that it does not belong to."
)


def first_fault(events: Events) -> Reason | None:
    """Why the results of these calls cannot be trusted."""
    return first_disagreement(events) or first_misuse(events)


def first_disagreement(events: Events) -> Reason | None:
    """The first mismatch in the order of the program, even if torch did not notice it."""
    if events.is_out_of_sight:
        return None
    place = places_of(events)
    clashes = [(min(place[id(event)] for event in calls), word) for calls, word in _clashes(events)]
    return min(clashes, key=lambda clash: clash[0])[1]() if clashes else None


def clash_of_meeting(meeting: Meeting) -> str:
    """What differs between its ranks, or "parts"; "" if nothing does."""
    first, *others = map(what_must_agree, meeting.events)
    what = next((what for what in first if any(other[what] != first[what] for other in others)), "")
    return what or ("parts" if _parts_that_differ(meeting) else "")


def _parts_that_differ(meeting: Meeting) -> tuple[Event, Event] | None:
    """In an all_to_all: a rank that sends another rank more or less than that one expects."""
    told = [event for event in meeting.events if event.parts[0]]
    place = {rank: number for number, rank in enumerate(meeting.expected)}
    pairs = ((sender, receiver) for sender in told for receiver in told)
    return next((pair for pair in pairs if len(set(_bytes_of_part(*pair, place))) > 1), None)


def _bytes_of_part(sender: Event, receiver: Event, place: Mapping[int, int]) -> tuple[int, int]:
    """The number of bytes that one sends, and that the other expects."""
    return sender.parts[0][place[receiver.rank]], receiver.parts[1][place[sender.rank]]


def clash_of_delivery(delivery: Delivery) -> str:
    """What differs between send and recv: "dtype", "bytes"; "" if nothing does."""
    send, recv = what_must_agree(delivery.send), what_must_agree(delivery.recv)
    return next((what for what in send if send[what] != recv[what]), "")


def _clashes(events: Events) -> Iterator[tuple[Sequence[Event], Callable[[], Reason]]]:
    """Calls that do not fit, each with what puts it into words."""
    for meeting in events.meetings:
        is_real = meeting.events[0].backend != "fake"
        if is_real and (what := clash_of_meeting(meeting)):
            yield meeting.events, functools.partial(_of_meeting, meeting, what, events)
    for delivery in events.deliveries:
        if clash_of_delivery(delivery) and delivery.send.backend.startswith("gloo"):
            yield (delivery.send, delivery.recv), functools.partial(_of_delivery, delivery)


def _of_meeting(meeting: Meeting, what: str, events: Events) -> Reason:
    calls, operation = meeting.events, meeting.operation
    difference = first_difference(events, calls[0].group, until=meeting)
    skipped = [difference.sentence] if difference is not None and difference.calls is not calls else []
    is_of_ddp = [event.call == DDP for event in calls]
    mixes_objects = len({event.call for event in calls}) > 1 and any("object" in event.call for event in calls)
    if what == "operation" or mixes_objects or len(set(is_of_ddp)) > 1:
        told = told_by_rank({event.rank: f"called {name_of(event)} ({event.place})" for event in calls}, "; ")
        if {*NEW_GROUPS, "init_process_group"} & {event.operation for event in calls}:
            return Reason("order-mismatch", [f"Mismatched calls: {told}.", _GROUPS])
        told = f"Mismatched collectives: {told}."
        is_repeated = difference is not None and difference.is_repeated
        if any(is_of_ddp):
            is_step = is_repeated and all(event.operation == "all_reduce" for event in calls if event.call == DDP)
            return Reason("ddp-skipped-call" if is_step else "ddp-alone", [told, *skipped, _DDP_TALKS])
        return Reason("skipped-call" if is_repeated else "order-mismatch", [told, *skipped, _SAME_EVERYWHERE])
    if difference is not None and what != "group":
        told = told_by_rank({event.rank: f"called {called(event)} ({event.place})" for event in calls}, "; ")
        return Reason("skipped-call", [f"Mismatched collectives: {told}.", *skipped, _SAME_EVERYWHERE])
    if operation == "init_process_group":
        told = told_by_rank({event.rank: f"passed world_size={len(event.group_ranks)}" for event in calls})
        return Reason("world-size-mismatch", [f"World size mismatch: {told}."])
    if what == "group":
        told = _told_with_places(calls, lambda event: str(sorted(event.group_ranks)))
        return Reason("group-mismatch", [f"Group mismatch in new_group: {told}.", _GROUPS])
    if what == "root":
        name = {"broadcast": "src", "scatter": "src"}.get(operation, "dst")
        told = _told_with_places(calls, lambda event: f"{name}={event.root}")
        return Reason("root-mismatch", [f"Root mismatch in this {operation}: {told}."], blanks={"name": name})
    if what == "reduce_op":
        told = _told_with_places(calls, lambda event: str(event.reduce_op))
        return Reason("op-mismatch", [f"Reduce op mismatch in this {operation}: {told}."])
    if what == "parts" and (pair := _parts_that_differ(meeting)) is not None:
        sender, receiver = pair
        sent, expected = _bytes_of_part(sender, receiver, {rank: n for n, rank in enumerate(meeting.expected)})
        told = f"rank {sender.rank} sends {sent:,} bytes to rank {receiver.rank}, which expects {expected:,}"
        return Reason("size-mismatch", [f"Size mismatch in this {operation}: {told} ({sender.place})."], sender.rank)
    told = _told_with_places(calls, _tensor)
    kind = "Dtype" if what == "dtype" else "Shape"
    key = "tensor-mismatch" if len({event.place for event in calls}) == 1 else "tensor-mismatch-of-lines"
    return Reason(key, [f"{kind} mismatch in this {operation}: {told}."])


def _of_delivery(delivery: Delivery) -> Reason:
    send, recv = delivery.send, delivery.recv
    what = f"rank {send.rank} sends {_tensor(send)} ({send.place}), "
    what += f"but rank {recv.rank} receives into {_tensor(recv)} ({recv.place})"
    kind = "Dtype" if clash_of_delivery(delivery) == "dtype" else "Shape"
    return Reason("message-mismatch", [f"{kind} mismatch between send and recv: {what}."], recv.rank)


def _told_with_places(calls: Sequence[Event], what: Callable[[Event], str]) -> str:
    """What each rank passed, and on which line: the line only once if it is the same for all."""
    places = {event.place for event in calls}
    if len(places) == 1:
        return f"{told_by_rank({event.rank: f'passed {what(event)}' for event in calls})} ({places.pop()})"
    return told_by_rank({event.rank: f"passed {what(event)} ({event.place})" for event in calls})


def _tensor(event: Event) -> str:
    if event.operation == "all_reduce" and event.tensors > 1:
        return f"{event.tensors} tensors of {event.bytes:,} bytes"
    return f"{list(event.shape)} {event.dtype}"


def may_disagree(recorded: Sequence[Recorded | None]) -> bool:
    """A quick check of raw calls, since a launch may have made very many. False: all calls match."""
    if None in recorded:
        return True
    met: dict[object, dict[object, _Told]] = defaultdict(lambda: defaultdict(_Told))
    for rank, one in enumerate(filter(None, recorded)):
        for point, count in one.before:
            meeting, side = _side(rank, point)
            met[meeting][side].before = count
        for call in one.calls:
            if not call.took_part:
                continue
            if call.remark or call.error:
                return True
            meeting, side = _side(rank, call.meeting_point)
            told = met[meeting][side]
            told.calls.append((what_must_agree(call), call.parts))
            told.needs = len(call.group_ranks) if call.is_collective else 2
    return not all(map(_is_whole, met.values()))


@dataclasses.dataclass
class _Told:
    """What one side called at one meeting point."""

    before: int = 0  # calls that are no longer kept
    calls: list[object] = dataclasses.field(default_factory=list)
    needs: int = 0  # sides


def _is_whole(sides: Mapping[object, _Told]) -> bool:
    """All sides called it equally often, and their recorded calls match."""
    if len({told.before + len(told.calls) for told in sides.values()}) > 1:
        return False
    known = min(len(told.calls) for told in sides.values())
    first, *others = (told.calls[len(told.calls) - known :] for told in sides.values())
    return len(sides) >= max(told.needs for told in sides.values()) and all(calls == first for calls in others)


def _side(rank: int, point: MeetingPoint) -> tuple[object, object]:
    """A meeting point as both sides of a message know it, and which side this is."""
    kind, *where = point
    if kind not in POINT_TO_POINT:
        return point, rank
    group, peer, tag = where
    return (group, tag, *((rank, peer) if kind == "send" else (peer, rank))), kind


@dataclass(frozen=True)
class Difference:
    calls: Sequence[Event]
    number: int  # of the collective, counted from 1
    is_repeated: bool  # a rank had made the call of another one before

    @property
    def sentence(self) -> str:
        told = told_by_rank({event.rank: f"at {event.place}" for event in self.calls})
        return f"The ranks call collective {self.number} on different lines: {told}."


def first_difference(events: Events, group: str, until: Meeting | None = None) -> Difference | None:
    """The first in the calls of this group. If no other rank ever calls a rank's line, the code has a branch there, and
    its calls are meant to meet."""
    if any(events.dropped):
        return None
    meetings = [meeting for meeting in events.meetings if meeting.events[0].group == group]
    callers, before = _callers(meetings), _callers([])
    for number, meeting in enumerate(meetings, start=1):
        lines = {event.rank: (event.file, event.line) for event in meeting.events}
        strangers = [(line, rank) for line in {*lines.values()} for rank in lines if lines[rank] != line]
        if any(rank in callers[line] for line, rank in strangers):
            is_repeated = any(rank in before[line] for line, rank in strangers)
            return Difference(meeting.events, number, is_repeated)
        if meeting is until:
            return None
        for rank, line in lines.items():
            before[line].add(rank)
    return None


def _callers(meetings: Sequence[Meeting]) -> defaultdict[tuple[str, int], set[int]]:
    """The ranks that called each line."""
    callers: defaultdict[tuple[str, int], set[int]] = defaultdict(set)
    for meeting in meetings:
        for event in meeting.events:
            callers[event.file, event.line].add(event.rank)
    return callers
