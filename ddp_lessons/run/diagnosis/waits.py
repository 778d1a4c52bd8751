"""Which ranks can still make progress: wait-for analysis over the calls of every rank and what blocks it.

A rank that is not blocked can make progress. A blocked rank can if its call can complete: a collective that all ranks
have called, a message whose counterpart was called, or one whose missing ranks can still make progress and call it.
All other ranks wait forever. If the calls do not give certainty, a rank counts as able to make progress.
"""

from __future__ import annotations

import itertools
from functools import cached_property

from ddp_lessons.record.event import Event, Meeting
from ddp_lessons.record.events import Events
from ddp_lessons.record.rank_record import NEW_GROUPS, MeetingPoint
from ddp_lessons.run.diagnosis.call_fit import clash_of_meeting

_STILL_ENDS_WELL = "reduce_op"  # gloo goes on if only this differs


def never_ending(events: Events) -> tuple[Event, ...]:
    """The calls that block ranks and can never complete."""
    return Waits(events).never_ending


def number_taken_twice(meeting: Meeting) -> int | None:
    """For ranks that join a group by themselves: a rank number that more than one of them passed."""
    numbers = [event.tag for event in meeting.events if event.operation == "init_process_group" and event.tag >= 0]
    return next((number for number in sorted(set(numbers)) if numbers.count(number) > 1), None)


class Waits:
    """The analysis of one moment."""

    def __init__(self, events: Events) -> None:
        self.events = events
        self.meetings: dict[int, Meeting] = {id(event): m for m in events.meetings for event in m.events}
        self.numbers = {
            id(event): number for rank in range(events.world_size) for event, number in events.numbered(rank)
        }
        self._partners = {id(a): b for d in events.deliveries for a, b in ((d.send, d.recv), (d.recv, d.send))}
        self.movable = self._who_can_move()

    @property
    def never_ending(self) -> tuple[Event, ...]:
        ranks = range(self.events.world_size)
        return tuple(event for rank in ranks for event in self.events.held(rank) if not self.can_end(event))

    def can_end(self, event: Event) -> bool:
        missing = self.waited_for(event)
        return missing is not None and (not missing or bool(self._enough(event, missing)))

    def waited_for(self, event: Event) -> tuple[int, ...] | None:
        """The ranks that have not called it yet. None: it can never complete."""
        if event.is_collective:
            return self._missing_from(self.meetings[id(event)])
        if event.group in self._spoilt_groups:
            return None
        if not event.backend.startswith("gloo") or self._has_partner(event):
            return ()
        if event.peer is not None:
            return (event.peer,)
        return tuple(rank for rank in event.group_ranks if rank != event.rank)

    def _who_can_move(self) -> set[int]:
        """The ranks that are not blocked, and, repeatedly, those that they can unblock."""
        ranks = range(self.events.world_size)
        held = {rank: self.events.held(rank) for rank in ranks}
        self.movable = {rank for rank in ranks if self.events.standing(rank).is_free or self._is_unknown(rank, held)}
        while more := {rank for rank in held if rank not in self.movable and any(map(self.can_end, held[rank]))}:
            self.movable |= more
        return self.movable

    def _is_unknown(self, rank: int, held: dict[int, tuple[Event, ...]]) -> bool:
        """It is blocked in a call that is not among its recorded ones."""
        return len(held[rank]) < len(self.events.standing(rank).held_in)

    def _enough(self, event: Event, missing: tuple[int, ...]) -> bool:
        if event.operation == "init_process_group":  # a rank may still join with any number
            came = self.meetings[id(event)].events
            return sum(rank in self.movable for rank in missing) >= len(event.group_ranks) - len(came)
        takes_anyone = event.operation == "recv" and event.peer is None
        return (any if takes_anyone else all)(rank in self.movable for rank in missing)

    def _missing_from(self, meeting: Meeting) -> tuple[int, ...] | None:
        first = meeting.events[0]
        if first.group in self._spoilt_groups:
            return None
        number, point = self.numbers[id(first)], first.meeting_point
        if number >= self._clashed.get(point, number + 1):  # gloo does not recover after a mismatch
            return None
        if number_taken_twice(meeting) is not None or any(r >= self.events.world_size for r in meeting.expected):
            return None
        if first.operation == "init_process_group" and any(
            event.tag not in (-1, event.rank) for event in meeting.events
        ):
            return self._who_may_join(meeting)
        return tuple(rank for rank in meeting.expected if self.events.made[rank][point] <= number)

    def _who_may_join(self, meeting: Meeting) -> tuple[int, ...] | None:
        """For a world whose ranks have other numbers than in the launch."""
        came = {event.rank for event in meeting.events}
        places = len(meeting.expected) - len(came)
        others = tuple(rank for rank in range(self.events.world_size) if rank not in came)
        return () if places <= 0 else others if places <= len(others) else None

    @cached_property
    def _clashed(self) -> dict[MeetingPoint, int]:
        """At each meeting point, the number of the first mismatched call."""
        clashes = [m.events[0] for m in self.events.meetings if clash_of_meeting(m) not in ("", _STILL_ENDS_WELL)]
        first: dict[MeetingPoint, int] = {}
        for event in clashes:
            number = self.numbers[id(event)]
            first[event.meeting_point] = min(first.get(event.meeting_point, number), number)
        return first

    @cached_property
    def _spoilt_groups(self) -> set[str]:
        """Groups with one name and different ranks: torch mixes them up."""
        return {point[1] for point in self._clashed if point[0] in NEW_GROUPS}

    def _has_partner(self, event: Event) -> bool:
        """Was the counterpart of this message called?"""
        partner = self._partners.get(id(event))
        if partner is not None:
            return partner.remark != "let go"
        if event.operation == "recv" and event.peer is None:
            return self._messages_on_their_way(event) > self._receives_from_anyone(event.rank, event, before=event)
        if event.peer is None:
            return False
        other = "recv" if event.operation == "send" else "send"
        if self.events.made[event.peer][other, event.group, event.rank, event.tag] > self.numbers[id(event)]:
            return True
        if event.operation == "recv":
            return False
        return self._receives_from_anyone(event.peer, event) > self._sent_and_over(event)

    def _messages_on_their_way(self, recv: Event) -> int:
        """The number of messages to this rank that none of its calls is known to have received."""
        made, others = self.events.made, [rank for rank in recv.group_ranks if rank != recv.rank]
        sent = {rank: made[rank]["send", recv.group, recv.rank, recv.tag] for rank in others}
        return sum(max(0, sent[rank] - made[recv.rank]["recv", recv.group, rank, recv.tag]) for rank in others)

    def _receives_from_anyone(self, rank: int, like: Event, before: Event | None = None) -> int:
        """How many earlier recv calls from any rank still have an unknown sender."""
        mine = itertools.takewhile(lambda event: event is not before, self.events.of(rank))
        fitting = [e for e in mine if e.operation == "recv" and e.peer is None and e.took_part and e.remark != "let go"]
        return sum((e.group, e.tag) == (like.group, like.tag) for e in fitting)

    def _sent_and_over(self, send: Event) -> int:
        """Completed sends to the same rank that none of its calls is known to have received."""
        assert send.peer is not None
        over, made = 0, self.events.made[send.peer]
        for rank in (rank for rank in send.group_ranks if rank != send.peer):
            point = ("send", send.group, send.peer, send.tag)
            open_ = sum(e.meeting_point == point and e.end is None for e in self.events.of(rank))
            over += max(0, self.events.made[rank][point] - open_ - made["recv", send.group, rank, send.tag])
        return over
