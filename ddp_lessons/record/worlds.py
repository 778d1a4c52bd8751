"""Worlds that ranks join by themselves, in which their numbers may differ from those of the launch.

A function that was launched without a group may join several worlds, one after the other or at the same time. Messages
about its calls use the launch's numbers.
"""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Sequence

from ddp_lessons.record.event import Event
from ddp_lessons.record.rank_record import NEW_GROUPS, MeetingPoint


class Worlds:
    """Made from the worlds that each rank of the launch joined: the name, its number there, the size."""

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
        return dataclasses.replace(event, group_ranks=members, peer=peer, root=root)

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
