"""What the ranks communicate in one run, cut out of the events of a launch."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from ddp_lessons.record.event import Event
from ddp_lessons.record.events import Events
from ddp_lessons.run.diagnosis.wording import DDP

_CARRIES_NOTHING = ("barrier", "new_group")
_NON_BLOCKING = ("isend", "irecv", "batch_isend_irecv")


@dataclass(frozen=True)
class Traffic:
    """The calls of each rank between two of the barriers that separate runs."""

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
    def brought(self) -> list[int]:
        """Bytes that each rank sends in messages and passes to collectives."""
        giving = [*self.sends, *self.collectives]
        return [sum(event.bytes for event in giving if event.rank == rank) for rank in range(len(self.by_rank))]

    @cached_property
    def pattern(self) -> Counter[object]:
        """Which rank sends how much to which, and which ranks take part in which collective."""
        giving = [*self.sends, *self.collectives]
        return Counter((event.operation, event.rank, event.peer, event.bytes) for event in giving)

    def messages_of(self, rank: int) -> int:
        return sum(event.rank == rank for event in self.sends)

    def destinations(self, rank: int) -> set[int]:
        return {event.peer for event in self.sends if event.rank == rank and event.peer is not None and event.bytes}

    def never_waited_for(self) -> Event | None:
        """A message on which wait() was never called: in progress when its rank returned, or dropped meanwhile."""
        left = [event for event in self.events if event.call in _NON_BLOCKING and self.returned[event.rank]]
        missed = {(e.peer, e.rank, e.tag) for e in self.events if e.operation == "recv" and _hangs(e)}
        dropped = [
            event
            for event in self.sends
            if event.remark == "let go"
            and {(event.rank, event.peer, event.tag), (None, event.peer, event.tag)} & missed
        ]
        return next((e for e in (*left, *dropped) if e in dropped or not (e.waited or e.end or e.error)), None)

    def collective_never_waited_for(self) -> Event | None:
        """DistributedDataParallel waits in C++ for its own collectives, which is not recorded."""
        learners = (event for event in self.collectives if event.call != DDP)
        return next((event for event in learners if event.waited is None and not event.error), None)

    def never_received(self) -> Event | None:
        """A message that is never received."""
        taken: Counter[object] = Counter((e.peer, e.rank) for e in self.events if e.operation == "recv" and not e.error)
        for event in self.sends:
            if not taken[event.rank, event.peer]:
                return event
            taken[event.rank, event.peer] -= 1
        return None


def cut_into_runs(events: Events, group_between: str = "") -> list[Traffic]:
    """The traffic of each run that has started. Run k comes after barrier k of the group between the runs."""
    everybody = range(events.world_size)
    # the first group that every rank creates
    between = group_between or next((one.group for one in events if one.operation == "new_group" and one.group), "")
    pieces = [_pieces(events.of(rank), between) for rank in everybody]
    begun = max(sum(_is_between(one, between) and one.end is not None for one in events.of(rank)) for rank in everybody)
    return [
        Traffic(
            tuple(tuple(mine[run + 1]) if len(mine) > run + 1 else () for mine in pieces),
            tuple(len(mine) > run + 2 for mine in pieces),
        )
        for run in range(begun)
    ]


def _is_between(event: Event, group_between: str) -> bool:
    return event.operation == "barrier" and event.group == group_between


def _hangs(event: Event) -> bool:
    """This call waits for calls that other ranks never make."""
    return event.end is None and not event.error and (event.waited is not None or event.call not in _NON_BLOCKING)


def _pieces(events: Sequence[Event], group_between: str) -> list[list[Event]]:
    """One rank's events before the first barrier, between it and the second, and so on."""
    pieces: list[list[Event]] = [[]]
    for event in events:
        if _is_between(event, group_between):
            pieces.append([])
        else:
            pieces[-1].append(event)
    return pieces
