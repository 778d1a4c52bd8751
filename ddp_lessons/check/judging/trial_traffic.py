"""The communication of one trial, cut out of the events of a launch."""

from __future__ import annotations

import functools
import itertools
import operator
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from ddp_lessons.check.judging.exercise_trials import Trial
from ddp_lessons.record.event import Event
from ddp_lessons.record.events import Events
from ddp_lessons.run.diagnosis.wording import DDP

_CARRIES_NOTHING = ("barrier", "new_group")
_NON_BLOCKING = ("isend", "irecv", "batch_isend_irecv")


@dataclass(frozen=True)
class Traffic:
    """The calls of each rank between two of the barriers that separate trials."""

    by_rank: tuple[tuple[Event, ...], ...]
    returned: tuple[bool, ...]  # by rank

    @cached_property
    def events(self) -> list[Event]:
        return [event for events in self.by_rank for event in events]

    @cached_property
    def sends(self) -> list[Event]:
        return [event for event in self.events if event.operation == "send" and not event.error]

    @cached_property
    def collectives(self) -> list[Event]:
        """Without barrier and new_group, which carry no data."""
        return [event for event in self.events if event.is_collective and event.operation not in _CARRIES_NOTHING]

    @cached_property
    def sent(self) -> list[int]:
        """Bytes sent in messages, by rank."""
        return [sum(event.bytes for event in self.sends if event.rank == rank) for rank in range(len(self.by_rank))]

    @cached_property
    def received(self) -> list[int]:
        """Bytes received in messages, by rank."""
        return [sum(event.bytes for event in self.sends if event.peer == rank) for rank in range(len(self.by_rank))]

    @cached_property
    def brought(self) -> list[int]:
        """Bytes that each rank sends in messages and passes to collectives."""
        giving = [*self.sends, *self.collectives]
        return [sum(event.bytes for event in giving if event.rank == rank) for rank in range(len(self.by_rank))]

    def messages_of(self, rank: int) -> int:
        return sum(event.rank == rank for event in self.sends)

    def destinations(self, rank: int) -> set[int]:
        return {event.peer for event in self.sends if event.rank == rank and event.peer is not None and event.bytes}

    def never_waited_for(self) -> Event | None:
        """A message still in progress when its rank returned, on which wait() was never called."""
        left = [event for event in self.events if event.call in _NON_BLOCKING and self.returned[event.rank]]
        return next((e for e in left if e.waited is None and e.end is None and not e.error), None)

    def given_up(self) -> Event | None:
        """An isend whose message never left although the other side receives: the Work handle was dropped."""
        missed = {(e.peer, e.rank, e.tag) for e in self.events if e.operation == "recv" and hangs(e)}
        for event in self.sends:
            if (
                event.remark == "let go"
                and {(event.rank, event.peer, event.tag), (None, event.peer, event.tag)} & missed
            ):
                return event
        return None

    def collective_never_waited_for(self) -> Event | None:
        """DistributedDataParallel waits in C++ for its own collectives, which is not recorded."""
        learners = (event for event in self.collectives if event.call != DDP)
        return next((event for event in learners if event.waited is None and not event.error), None)

    def never_waited_for_before(self, later: Sequence[Event]) -> Event | None:
        """A collective started before one of these calls, on which wait() is never called."""
        for call in later:
            for event in itertools.takewhile(functools.partial(operator.is_not, call), self.by_rank[call.rank]):
                if event.is_collective and event.call != DDP and event.waited is None and not event.error:
                    return event
        return None

    def makes_different_groups(self) -> bool:
        """torch numbers groups and assumes that all ranks create them alike; otherwise some hang, by chance."""
        made = [event for event in self.events if event.operation == "new_group"]
        named = [event for event in made if event.group]
        differ = _first_that_differ(named, lambda event: event.group, lambda event: event.group_ranks)
        return differ is not None or any(map(hangs, made))

    def first_groups(self) -> list[Event]:
        """The first group that each rank creates."""
        made = [[event for event in events if event.operation == "new_group"] for events in self.by_rank]
        return [events[0] for events in made if events]

    def different_roots(self) -> tuple[Event, Event] | None:
        turns: Counter[object] = Counter()
        rooted = {}
        for event in self.collectives:  # rank by rank
            turns[event.rank, event.group] += 1
            rooted[id(event)] = event.group, turns[event.rank, event.group], event.operation
        return _first_that_differ(self.collectives, lambda event: rooted[id(event)], lambda event: event.root)

    def never_received(self) -> Event | None:
        """A message that is never received."""
        taken: Counter[object] = Counter((e.peer, e.rank) for e in self.events if e.operation == "recv" and not e.error)
        for event in self.sends:
            if not taken[event.rank, event.peer]:
                return event
            taken[event.rank, event.peer] -= 1
        return None


def _first_that_differ(
    events: Sequence[Event], place: Callable[[Event], object], value: Callable[[Event], object]
) -> tuple[Event, Event] | None:
    """Two events with the same place and different values."""
    known: dict[object, Event] = {}
    for event in events:
        first = known.setdefault(place(event), event)
        if value(first) != value(event):
            return first, event
    return None


@dataclass(frozen=True)
class Standstill:
    """Where ranks hang, and which ranks have returned."""

    calls: tuple[Event, ...]
    returned: tuple[int, ...]
    trial: Trial
    made: Mapping[int, int] = field(default_factory=dict)  # how often each returned rank made the first of these calls


def cut_into_trials(events: Events, group_between: str, most: int) -> list[Traffic]:
    """The traffic of each trial that has started. Trial k comes after barrier k of the group between the trials."""
    everybody = range(events.world_size)
    pieces = [_pieces(events.of(rank), group_between) for rank in everybody]
    begun = max(_barriers_passed(events.of(rank), group_between) for rank in everybody)
    return [
        Traffic(
            tuple(tuple(mine[trial + 1]) if len(mine) > trial + 1 else () for mine in pieces),
            tuple(len(mine) > trial + 2 for mine in pieces),
        )
        for trial in range(min(begun, most))
    ]


def group_between_trials(events: Events) -> str:
    """The first group that every rank creates."""
    return next((event.group for event in events if event.operation == "new_group" and event.group), "")


def is_between(event: Event, group_between: str) -> bool:
    return event.operation == "barrier" and event.group == group_between


def hangs(event: Event) -> bool:
    """This call waits for other ranks that never come."""
    return event.end is None and not event.error and (event.waited is not None or event.call not in _NON_BLOCKING)


def _pieces(events: Sequence[Event], group_between: str) -> list[list[Event]]:
    """One rank's events before the first barrier, between it and the second, and so on."""
    pieces: list[list[Event]] = [[]]
    for event in events:
        if is_between(event, group_between):
            pieces.append([])
        else:
            pieces[-1].append(event)
    return pieces


def _barriers_passed(events: Sequence[Event], group_between: str) -> int:
    return sum(is_between(event, group_between) and event.end is not None for event in events)
