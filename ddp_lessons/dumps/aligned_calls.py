"""The calls of all dumps as what `launch` records of its ranks, so that one analysis serves both.

A ring buffer loses the oldest calls, on each rank others. Collectives are aligned by torch's sequence number in their
group. Messages have no common number: once calls are lost, only messages that are under way are compared.
"""

from __future__ import annotations

import dataclasses
import math
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from ddp_lessons.dumps.dumped_calls import DumpedCall, RankDump
from ddp_lessons.record.event import Event, what_must_agree
from ddp_lessons.record.rank_record import MeetingPoint, Recorded, Standing, meeting_point

MOST_CALLS = 100_000  # of all ranks; of more, only those around the first fault are analyzed
_CALLS_BEFORE, _LEAST_CALLS = 50, 200  # of one rank
QUIET_SECONDS = 10.0  # a rank that called or completed something this shortly before its dump is not stuck
_CLOCKS_DIFFER_SECONDS = 60.0  # a file that is older than its calls by more than this has a wrong time
_NEEDS_ALL_RANKS = ("all_reduce", "all_gather", "all_to_all", "reduce_scatter", "barrier")
_OF_ALL = ("0", "default_pg")  # torch's name and description of the group of all ranks
_OPPOSITE = {"send": "recv", "recv": "send"}


class Groups:
    """Which ranks belong to which group. NCCL's dumps say so; gloo's do not, and then the calls show who uses it."""

    def __init__(self, dumps: Mapping[int, RankDump]) -> None:
        self._own = {rank: dump.groups for rank, dump in dumps.items()}
        stored = {name: ranks for dump in dumps.values() for name, ranks in dump.groups.items() if name}
        known = {rank for dump in dumps.values() for ranks in dump.groups.values() for rank in ranks} | set(dumps)
        self.world_size = max(known, default=-1) + 1
        self.descriptions = {name: said for dump in dumps.values() for name, said in dump.descriptions.items()}
        users: defaultdict[str, set[int]] = defaultdict(set)
        for rank, dump in dumps.items():
            for name in dump.descriptions:
                users[name].add(rank)
        self._members = {name: tuple(sorted(ranks)) for name, ranks in users.items()} | stored
        of_all = {name for name, said in self.descriptions.items() if name == _OF_ALL[0] or said == _OF_ALL[1]}
        self._members |= {name: tuple(range(self.world_size)) for name in of_all - stored.keys()}
        self.uncertain = frozenset(users.keys() - stored.keys() - of_all)  # further members may be unknown

    def members(self, rank: int, name: str) -> tuple[int, ...]:
        """torch numbers the groups of each rank, so a name may mean another group on another rank."""
        return self._own[rank].get(name) or self._members[name]

    def point(self, rank: int, name: str) -> MeetingPoint:
        """Where the collectives of the members meet."""
        return meeting_point("", name, self.members(rank, name), None, 0)


@dataclass
class _Sequence:
    """The collectives of one group by torch's sequence number."""

    begins: dict[int, float] = field(default_factory=dict)  # when the last rank called it
    kinds: dict[int, object] = field(default_factory=dict)  # what must agree, as the first rank had it
    mismatched: float = math.inf  # the first at which ranks differ
    made: dict[int, int] = field(default_factory=dict)  # by rank, the newest one
    newest_over: int | None = None  # on any rank

    @cached_property
    def places(self) -> dict[int, int]:
        """How many collectives came before: fewer than the number says, where torch counted one and recorded none."""
        numbers = sorted(self.begins)
        return {number: numbers[0] - 1 + place for place, number in enumerate(numbers)}

    def made_by(self, dump: RankDump) -> int:
        """How many collectives a rank made. What is over on one rank was called on all."""
        newest = self.made.get(dump.rank, self.newest_over if dump.lost else None)
        return 0 if newest is None else self.places[newest] + 1


class AlignedCalls:
    """The dumps of one job, aligned."""

    def __init__(self, dumps: Mapping[int, RankDump]) -> None:
        self.dumps, self.groups = dumps, Groups(dumps)
        self._sequences: defaultdict[MeetingPoint, _Sequence] = defaultdict(_Sequence)
        self._points = {
            rank: {name: self.groups.point(rank, name) for name in dump.descriptions} for rank, dump in dumps.items()
        }
        agreeing: dict[int, object] = {}
        for rank, dump in dumps.items():
            for call in dump.calls:
                if call.kind.is_collective:
                    sequence = self._sequences[self._points[rank][call.kind.group]]
                    if (must_agree := agreeing.get(id(call.kind))) is None:
                        must_agree = agreeing[id(call.kind)] = what_must_agree(call.kind)
                    if sequence.kinds.setdefault(call.number, must_agree) != must_agree:
                        sequence.mismatched = min(call.number, sequence.mismatched)
                    sequence.begins[call.number] = max(call.begin, sequence.begins.get(call.number, 0.0))
                    sequence.made[rank] = max(call.number, sequence.made.get(rank, 0))
                    if call.is_over:
                        sequence.newest_over = max(call.number, sequence.newest_over or 0)
        self._reopen_calls_that_ended_alone()

    def _reopen_calls_that_ended_alone(self) -> None:
        """gloo does not tell the end of a call from its timeout. Without another rank, these cannot have completed."""
        behind = {}
        for point, sequence in self._sequences.items():
            made = {rank: sequence.made_by(dump) for rank, dump in self.dumps.items() if rank in point[2]}
            least = min(made.values())
            behind[point] = least, max(self.dumps[rank].written for rank in made if made[rank] == least)
        for rank, dump in self.dumps.items():
            for at, call in enumerate(dump.calls):
                if call.kind.backend != "gloo" or call.kind.operation not in _NEEDS_ALL_RANKS or not call.is_over:
                    continue
                point = self._points[rank][call.kind.group]
                least, written = behind[point]
                if self._sequences[point].places[call.number] >= least and written - call.begin > QUIET_SECONDS:
                    dump.calls[at] = call._replace(is_over=False, timed_out=True)

    @cached_property
    def recorded(self) -> list[Recorded | None]:
        """By rank; None for a rank without a dump."""
        ranks = range(self.groups.world_size)
        return [self._of_rank(self.dumps[rank]) if rank in self.dumps else None for rank in ranks]

    @cached_property
    def stuck_in(self) -> dict[int, DumpedCall]:
        """By rank, the oldest call that is not over, as later ones may only wait for it.

        Of a batch of messages, it is the first for which the other rank has nothing under way.
        """
        found = {}
        for rank, pending in self._pending.items():
            batch = (call for call in pending if call.batch == pending[0].batch)
            found[rank] = next((call for call in batch if not self._has_counterpart(rank, call)), pending[0])
        return found

    @cached_property
    def _pending(self) -> dict[int, list[DumpedCall]]:
        found = {rank: [call for call in dump.calls if not call.is_over] for rank, dump in self.dumps.items()}
        return {rank: pending for rank, pending in found.items() if pending}

    def _has_counterpart(self, rank: int, call: DumpedCall) -> bool:
        other = self._peer(rank, call.kind)
        return other is not None and any(
            one.kind.operation == _OPPOSITE[call.kind.operation]
            and one.kind.group == call.kind.group
            and self._peer(other, one.kind) in (rank, None)
            for one in self._pending.get(other, ())
        )

    def quiet_seconds(self, rank: int, since: float) -> float:
        """From a moment until the rank's dump was written, by the time of its file."""
        seconds = self.dumps[rank].written - since
        return seconds if seconds > -_CLOCKS_DIFFER_SECONDS else float("inf")

    def last_step(self, rank: int) -> float:
        """When it made the call in which it is stuck, or its last one was over; 0.0: unknown."""
        calls = self.dumps[rank].calls
        stuck = self.stuck_in.get(rank)
        return stuck.begin if stuck is not None else max((call.end or call.begin for call in calls), default=0.0)

    @cached_property
    def _is_large(self) -> bool:
        return sum(len(dump.calls) for dump in self.dumps.values()) > MOST_CALLS

    @cached_property
    def _keeps_messages(self) -> bool:
        return not (self._is_large or any(dump.lost for dump in self.dumps.values()))

    def _window(self, dump: RankDump) -> list[DumpedCall]:
        """Of very many calls, those that matter: around the first that does not match or is not over, or the last."""
        if not self._is_large:
            return dump.calls
        sequences = {name: self._sequences.get(point) for name, point in self._points[dump.rank].items()}
        clash = {name: sequence.mismatched for name, sequence in sequences.items() if sequence is not None}
        calls = enumerate(dump.calls)
        at = next((at for at, call in calls if call.kind.is_collective and call.number == clash[call.kind.group]), None)
        if at is None:
            at = next((at for at, call in enumerate(dump.calls) if not call.is_over), len(dump.calls))
        first = max(0, at - _CALLS_BEFORE)
        return dump.calls[first : first + max(_LEAST_CALLS, MOST_CALLS // len(self.dumps))]

    def _of_rank(self, dump: RankDump) -> Recorded:
        kept = [
            call for call in self._window(dump) if call.kind.is_collective or not call.is_over or self._keeps_messages
        ]
        before = {point: one.made_by(dump) for point, one in self._sequences.items() if dump.rank in point[2]}
        for call in reversed(kept):
            if call.kind.is_collective:
                point = self._points[dump.rank][call.kind.group]
                before[point] = self._sequences[point].places[call.number]
        dropped = dump.lost + len(dump.calls) - len(kept)
        events = tuple(self._event(dump.rank, call) for call in kept)
        began = events[0].begin if events else dump.written
        standing = self._standing(dump, kept, dropped)
        return Recorded(began, events, dropped, dump.written, tuple(before.items()), standing)

    def _standing(self, dump: RankDump, kept: list[DumpedCall], dropped: int) -> Standing:
        stuck = self.stuck_in.get(dump.rank)
        if stuck is not None:
            if self._is_young(dump.rank, stuck.begin):
                return Standing(is_free=True)
            return Standing(False, tuple(dropped + at for at, call in enumerate(kept) if call is stuck) or (-1,))
        newest = max(self.dumps, key=lambda rank: self.dumps[rank].written)  # this one may have died since its own
        return Standing(is_free=self._is_young(newest, self.last_step(dump.rank)))

    def _is_young(self, rank: int, since: float) -> bool:
        """Once a call has timed out, on whatever rank, no rank has to show any more that it is not just late."""
        return not self._has_timed_out and self.quiet_seconds(rank, since) < QUIET_SECONDS

    @cached_property
    def _has_timed_out(self) -> bool:
        return any(call.timed_out for call in self.stuck_in.values())

    def _event(self, rank: int, call: DumpedCall) -> Event:
        kind, begin, end = call.kind, call.begin, call.end
        if call.is_over and end is None:
            end = begin
            if kind.is_collective:
                end = self._sequences[self._points[rank][kind.group]].begins[call.number]
        return dataclasses.replace(
            kind,
            group_ranks=self.groups.members(rank, kind.group),
            peer=self._peer(rank, kind),
            begin=begin,
            issued=begin,
            waited=begin,
            end=end if call.is_over else None,
            backend="gloo",  # a call under way on a GPU waits for the other ranks, as a call of gloo does
        )

    def _peer(self, rank: int, kind: Event) -> int | None:
        number, ranks = kind.peer, self.groups.members(rank, kind.group)
        return ranks[number] if number is not None and number < len(ranks) else number
