"""The collectives of each group by torch's sequence number: what each dump still holds, and what differs."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from ddp_lessons.dumps.dumped_calls import RankDump
from ddp_lessons.dumps.group_members import GroupMembers
from ddp_lessons.record.event import Event, what_must_agree
from ddp_lessons.record.rank_record import MeetingPoint, meeting_point


@dataclass
class GroupSequence:
    """The collectives of one group."""

    point: MeetingPoint
    begins: dict[int, float] = field(default_factory=dict)  # by sequence number, when the last rank called it
    kinds: dict[int, object] = field(default_factory=dict)  # what must agree, as the first rank had it
    mismatched: int | None = None  # the first sequence number at which ranks differ
    made: dict[int, list[int]] = field(default_factory=dict)  # by rank, in order
    newest_over: int | None = None  # on any rank

    @cached_property
    def places(self) -> dict[int, int]:
        """By sequence number, how many collectives came before: fewer, where torch counted one and recorded none."""
        numbers = sorted(self.kinds)
        return dict(zip(numbers, itertools.count(numbers[0] - 1), strict=False))

    @cached_property
    def whole_since(self) -> dict[int, int]:
        """From which sequence number on a rank's dump has every collective."""
        return {rank: self._whole_since(numbers) for rank, numbers in self.made.items()}

    def _whole_since(self, numbers: list[int]) -> int:
        at, places = len(numbers) - 1, self.places
        while at > 0 and places[numbers[at]] == places[numbers[at - 1]] + 1:
            at -= 1
        return numbers[at]

    def made_by(self, rank: int, has_lost_calls: bool) -> int:
        """How many collectives a rank made. What is over on one rank was called on all."""
        if rank in self.made:
            return self.places[self.made[rank][-1]] + 1
        return self.places[self.newest_over] + 1 if has_lost_calls and self.newest_over is not None else 0


def sequences_of(dumps: Mapping[int, RankDump], members: GroupMembers) -> dict[MeetingPoint, GroupSequence]:
    sequences: dict[MeetingPoint, GroupSequence] = {}
    agreeing: dict[int, object] = {}
    for rank, dump in dumps.items():
        of_rank: dict[str, GroupSequence] = {}
        for name, point in points_of(rank, dump, members):
            of_rank[name] = sequences.setdefault(point, GroupSequence(point))
            of_rank[name].made[rank] = []
        for call in dump.calls:
            number = call.number
            if number < 0:
                continue
            sequence, kind = of_rank[call.kind.group], agreeing.get(id(call.kind))
            if kind is None:
                kind = agreeing[id(call.kind)] = tuple(what_must_agree(_without_root(call.kind)).items())
            sequence.made[rank].append(number)
            if sequence.kinds.setdefault(number, kind) != kind:
                sequence.mismatched = number if sequence.mismatched is None else min(number, sequence.mismatched)
            if call.begin > sequence.begins.get(number, 0.0):
                sequence.begins[number] = call.begin
            if call.is_over:
                sequence.newest_over = max(number, sequence.newest_over or 0)
    for sequence in sequences.values():
        sequence.made = {rank: numbers for rank, numbers in sequence.made.items() if numbers}
    return {point: sequence for point, sequence in sequences.items() if sequence.kinds}


def points_of(rank: int, dump: RankDump, members: GroupMembers) -> Iterator[tuple[str, MeetingPoint]]:
    """Of the groups that a rank called on: where the collectives of its members meet."""
    for name in dump.descriptions:
        yield name, meeting_point("", name, members.of[rank][name], None, 0)


def _without_root(kind: Event) -> Event:
    """Only one rank's dump shows the root."""
    return dataclasses.replace(kind, root=None)
