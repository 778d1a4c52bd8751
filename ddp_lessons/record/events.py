"""The communication of the ranks: every call of torch.distributed in a launch, as plain data.

`Events` holds the calls of all ranks in the order in which they began, and finds the ones that belong together: a send
and the matching recv are a `Delivery`, the calls of one collective are a `Meeting`.
"""

from __future__ import annotations

import itertools
import os
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, fields, replace
from functools import cached_property
from typing import Any, overload

from ddp_lessons.record.event import Delivery, Event, Meeting, of_rank
from ddp_lessons.record.rank_record import NEW_GROUPS, Gap, MeetingPoint, Recorded, Standing
from ddp_lessons.record.trace import write_chrome_trace


class Events(Sequence[Event]):
    """All events of a launch, in order of their start. `dropped[rank]` is the number of older ones missing."""

    def __init__(self, recorded: Sequence[Recorded | None] = ()) -> None:
        self._recorded: tuple[Recorded, ...] = tuple(one or Recorded(0.0) for one in recorded)

    @property
    def world_size(self) -> int:
        return len(self._recorded)

    @property
    def records(self) -> tuple[Recorded, ...]:
        """What each rank sent, from which equal events can be made."""
        return self._recorded

    @property
    def nodes(self) -> tuple[str, ...]:
        """The other machine on which each rank ran; "" for this one."""
        return tuple(one.node for one in self._recorded)

    @property
    def dropped(self) -> tuple[int, ...]:
        return tuple(one.dropped for one in self._recorded)

    @property
    def is_out_of_sight(self) -> bool:
        """Whether a rank made calls that were not recorded (compiled ones), or communicates with an unknown process."""
        return any(one.is_out_of_sight for one in self._recorded) or self._worlds.have_strangers

    @property
    def until(self) -> float:
        """When the last rank sent its calls. Calls that were not complete then lasted at least until then."""
        return max((one.until for one in self._recorded if one.until), default=self.origin) - self.origin

    def of(self, rank: int) -> tuple[Event, ...]:
        """The events of one rank, in order."""
        if not 0 <= rank < self.world_size:
            raise IndexError(f"there is no rank {rank} in a world of {self.world_size}")
        return self._by_rank[rank]

    @cached_property
    def deliveries(self) -> tuple[Delivery, ...]:
        """Every send with the matching recv: messages between two ranks do not overtake each other."""
        takers: dict[object, Event] = {
            (event.peer, rank, event.group, event.tag, number): event
            for rank in range(self.world_size)
            for event, number in self.numbered(rank)
            if event.operation == "recv" and event.peer is not None
        }
        sends = (
            (event, takers.get((rank, event.peer, event.group, event.tag, number)))
            for rank in range(self.world_size)
            for event, number in self.numbered(rank)
            if event.operation == "send"
        )
        pairs = [Delivery(send, recv) for send, recv in sends if recv is not None]
        return tuple(sorted(pairs, key=lambda delivery: delivery.send.begin))

    @cached_property
    def meetings(self) -> tuple[Meeting, ...]:
        """Every collective: the first call of each rank on a group matches the first of the others, and so on."""
        met: dict[object, list[Event]] = defaultdict(list)
        for rank in range(self.world_size):
            for event, number in self.numbered(rank):
                if event.is_collective:
                    met[event.meeting_point, number].append(event)
        meetings = itertools.chain.from_iterable(map(_meetings_of, met.values()))
        return tuple(sorted(meetings, key=lambda meeting: max(event.begin for event in meeting.events)))

    def numbered(self, rank: int) -> Iterator[tuple[Event, int]]:
        """The events of a rank, each with the number of its earlier calls at the same meeting point."""
        count = self._before(rank)
        for event in self.of(rank):
            if event.took_part:
                yield event, count[event.meeting_point]
                count[event.meeting_point] += 1

    def _before(self, rank: int) -> Counter[MeetingPoint]:
        return Counter({self._worlds.point_at_home(point): n for point, n in self._recorded[rank].before})

    @cached_property
    def _worlds(self) -> _Worlds:
        return _Worlds([one.worlds for one in self._recorded])

    @property
    def by_rank(self) -> Iterator[Event]:
        """Rank by rank, each in order. This order is the same in every run of a program."""
        return itertools.chain.from_iterable(self._by_rank)

    @cached_property
    def made(self) -> tuple[Counter[MeetingPoint], ...]:
        """The number of calls that each rank made at each meeting point."""
        return tuple(
            self._before(rank) + Counter(event.meeting_point for event in self.of(rank) if event.took_part)
            for rank in range(self.world_size)
        )

    def standing(self, rank: int) -> Standing:
        """What a rank was waiting for when it sent its calls."""
        return self._recorded[rank].standing or Standing(is_free=True)

    def variables(self, rank: int) -> dict[str, str]:
        """RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT, if they were set in a rank when its function began."""
        return dict(self._recorded[rank].variables)

    def held(self, rank: int) -> tuple[Event, ...]:
        """The calls that a rank was waiting for when it sent its calls."""
        one = self._recorded[rank]
        numbers = (number - one.dropped for number in self.standing(rank).held_in)
        return tuple(self._as_told[rank][number] for number in numbers if 0 <= number < len(one.calls))

    def newest(self, number: int) -> Events:
        """Only about this many of the last calls; of the earlier ones, only their number is kept."""
        if len(self) <= number:
            return self
        since = self[-number].begin
        return Events([_since(since, *told) for told in zip(self._recorded, self._as_told, strict=True)])

    def to_chrome_trace(self, path: str | os.PathLike[str]) -> None:
        """Write a file for Perfetto (ui.perfetto.dev) and chrome://tracing."""
        write_chrome_trace(path, self.world_size, self, self.deliveries)

    def bytes_sent(self, rank: int) -> int:
        """The bytes of point-to-point messages. What a collective moves does not count."""
        return sum(event.bytes for event in self.of(rank) if event.operation == "send" and not event.error)

    @cached_property
    def _as_told(self) -> tuple[tuple[Event, ...], ...]:
        return tuple(
            tuple(self._worlds.at_home(of_rank(rank, call, self.origin)) for call in one.calls)
            for rank, one in enumerate(self._recorded)
        )

    @cached_property
    def _by_rank(self) -> tuple[tuple[Event, ...], ...]:
        return tuple(tuple(sorted(events, key=lambda event: event.begin)) for events in self._as_told)

    @cached_property
    def origin(self) -> float:
        """When the function began on the first rank, by `time.perf_counter()`."""
        return min((one.began for one in self._recorded if one.began), default=0.0)

    @property
    def common_begin(self) -> float:
        """When the function had begun on every rank, because processes do not start at the same moment."""
        return max((one.began for one in self._recorded), default=self.origin) - self.origin

    @property
    def clock_errors(self) -> dict[str, float]:
        """For each node, by how many seconds the times of its ranks may be off."""
        return {one.node: one.clock_error for one in self._recorded if one.node}

    def gaps(self, rank: int) -> list[Gap]:
        """The gaps between the calls of a rank."""
        return [(begin - self.origin, end - self.origin, on_cpu) for begin, end, on_cpu in self._recorded[rank].gaps]

    @cached_property
    def _in_order(self) -> tuple[Event, ...]:
        return tuple(sorted(itertools.chain.from_iterable(self._by_rank), key=lambda event: event.begin))

    @overload
    def __getitem__(self, index: int) -> Event: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Event]: ...
    def __getitem__(self, index: int | slice) -> Event | Sequence[Event]:
        return self._in_order[index]

    def __len__(self) -> int:
        return sum(len(one.calls) for one in self._recorded)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Events) and self._recorded == other._recorded

    __hash__ = None  # type: ignore[assignment]  # equal by what they hold, as lists are

    def __repr__(self) -> str:
        dropped = f", {sum(self.dropped):,} older ones dropped" if any(self.dropped) else ""
        return f"<{len(self):,} events of {self.world_size} ranks{dropped}>"


class _Worlds:
    """The worlds that ranks joined by themselves, in which their numbers may differ from those of the launch.

    A function that was launched without a group may join several, one after the other or at the same time. Messages
    about its calls use the launch's numbers. Made from each rank's worlds: the name, its number there, the size.
    """

    def __init__(self, joined: Sequence[Sequence[tuple[str, int, int]]]) -> None:
        self._numbers: dict[str, dict[int, int]] = defaultdict(dict)  # numbers in the launch, by the numbers in a world
        sizes: dict[str, int] = {}
        for rank, worlds in enumerate(joined):
            for name, number, size in worlds:
                self._numbers[name][number] = rank
                sizes[name] = size
        for name in [name for name, ranks in self._numbers.items() if all(a == b for a, b in ranks.items())]:
            del self._numbers[name]  # they are numbers of the launch already
        self.have_strangers = any(len(ranks) < sizes[name] for name, ranks in self._numbers.items())

    def at_home(self, event: Event) -> Event:
        ranks = self._of(event.group) if event.operation != "init_process_group" else None
        if ranks is None:
            return event
        members = tuple(ranks.get(rank, rank) for rank in event.group_ranks)
        peer, root = (None if number is None else ranks.get(number, number) for number in (event.peer, event.root))
        return replace(event, group_ranks=members, peer=peer, root=root)

    def point_at_home(self, point: MeetingPoint) -> MeetingPoint:
        ranks = self._of(point[1])
        if ranks is None or point[0] in (*NEW_GROUPS, "init_process_group"):
            return point
        kind, group, where, *tag = point
        if isinstance(where, tuple):
            return kind, group, tuple(ranks.get(rank, rank) for rank in where)
        return kind, group, ranks.get(where, where), *tag

    def _of(self, group: str) -> dict[int, int] | None:
        return self._numbers.get(group.partition(", world ")[2]) if self._numbers else None


def as_plain(recorded: Recorded) -> dict[str, Any]:
    """What a rank recorded, as dicts, tuples, text and numbers."""
    return asdict(recorded)


def from_plain(told: Mapping[str, Any]) -> Recorded:
    """Raises KeyError or TypeError if it is not what `as_plain` returned."""
    known = [field.name for field in fields(Standing)]  # older files have more
    standing = None if told["standing"] is None else Standing(**{name: told["standing"][name] for name in known})
    return Recorded(**{**told, "calls": tuple(Event(**call) for call in told["calls"]), "standing": standing})


def _meetings_of(events: Sequence[Event]) -> Iterator[Meeting]:
    """The meetings of calls at one point. One name of a new group may mean several disjoint groups.

    Only members meet in a group. For other ranks the call returns at once, and a group of one waits for no other rank.
    """
    first = events[0]
    if first.operation not in NEW_GROUPS:
        yield Meeting(tuple(events), first.group_ranks)
        return
    makers = [event for event in events if event.rank in event.group_ranks]
    if all(len(event.group_ranks) == 1 for event in makers):
        makers = makers[:1]
    members = {rank for event in makers for rank in event.group_ranks}
    groups = {event.group_ranks for event in makers}
    shared = tuple(event for event in events if event.rank in members or event.group_ranks in groups)
    if shared:
        yield Meeting(shared, tuple(sorted(members | {event.rank for event in shared})))
    for event in (event for event in events if event not in shared):
        yield Meeting((event,), (event.rank,))


def _since(moment: float, one: Recorded, events: Sequence[Event]) -> Recorded:
    older = tuple(itertools.takewhile(lambda event: event.begin < moment, events))
    before = Counter(dict(one.before)) + Counter(event.meeting_point for event in older if event.took_part)
    calls, dropped = one.calls[len(older) :], one.dropped + len(older)
    return replace(one, calls=calls, dropped=dropped, before=tuple(before.items()))
