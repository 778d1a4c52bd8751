"""The calls of all dumps as what `launch` records of its ranks, so that one analysis serves both.

A ring buffer loses the oldest calls, on each rank others. Collectives are aligned by torch's sequence number in their
group. Messages have no common number: once calls are lost, only messages that are under way are compared.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from functools import cached_property

from ddp_lessons.dumps.dumped_calls import HERE, DumpedCall, RankDump
from ddp_lessons.dumps.group_members import GroupMembers
from ddp_lessons.dumps.group_sequences import GroupSequence, points_of, sequences_of
from ddp_lessons.record.event import POINT_TO_POINT, Event
from ddp_lessons.record.rank_record import MeetingPoint, Recorded, Standing

QUIET_SECONDS = 10.0  # a rank that called or completed something this shortly before its dump is not stuck
_CLOCKS_DIFFER_SECONDS = 60.0  # a file that is older than its calls by more than this has a wrong time
MOST_CALLS = 100_000  # of all ranks; of more, only those around the first fault are analyzed
_NEEDS_ALL_RANKS = ("all_reduce", "all_gather", "all_to_all", "reduce_scatter", "barrier")
_CALLS_BEFORE, _LEAST_CALLS = 50, 200  # of one rank


class AlignedCalls:
    """The dumps of one job, aligned."""

    def __init__(self, dumps: Mapping[int, RankDump], members: GroupMembers) -> None:
        self.dumps, self.members = dumps, members
        self._sequences = sequences_of(dumps, members)
        for sequence in self._sequences.values():
            self._reopen_calls_that_ended_alone(sequence)

    def _reopen_calls_that_ended_alone(self, sequence: GroupSequence) -> None:
        """gloo does not tell the end of a call from its timeout. Without another rank, these cannot have completed."""
        dumps = [dump for rank, dump in self.dumps.items() if rank in sequence.point[2]]
        if not any(dump.library == "gloo" for dump in dumps):
            return
        least = min(sequence.made_by(dump.rank, dump.dropped > 0) for dump in dumps)
        written = max(dump.written for dump in dumps if sequence.made_by(dump.rank, dump.dropped > 0) == least)
        for dump in dumps:
            for at in range(len(dump.calls) - 1, -1, -1):
                call = dump.calls[at]
                if call.number < 0 or self._point(dump, call) != sequence.point:
                    continue
                if sequence.places[call.number] < least:
                    break
                is_late = written - call.begin > QUIET_SECONDS
                if call.end is None and call.is_over and is_late and call.kind.operation in _NEEDS_ALL_RANKS:
                    dump.calls[at] = call._replace(is_over=False, timed_out=True)

    @cached_property
    def recorded(self) -> list[Recorded | None]:
        """By rank; None for a rank without a dump."""
        ranks = range(self.members.world_size)
        return [self._of_rank(self.dumps[rank]) if rank in self.dumps else None for rank in ranks]

    def quiet_seconds(self, rank: int, since: float) -> float:
        """From a moment until the rank's dump was written, by the time of its file."""
        seconds = self.dumps[rank].written - since
        return seconds if seconds > -_CLOCKS_DIFFER_SECONDS else float("inf")

    @cached_property
    def stuck_in(self) -> dict[int, DumpedCall]:
        """By rank, the oldest call that is not over. Later ones may only wait for it."""
        found = {}
        for rank, pending in self._pending.items():
            batch = [call for call in pending if call.batch >= 0 and _is_of_one_batch(call, pending[0])]
            found[rank] = next((call for call in batch if not self._has_counterpart(rank, call)), pending[0])
        return found

    @cached_property
    def _pending(self) -> dict[int, list[DumpedCall]]:
        found = {rank: [call for call in dump.calls if not call.is_over] for rank, dump in self.dumps.items()}
        return {rank: pending for rank, pending in found.items() if pending}

    def _has_counterpart(self, rank: int, call: DumpedCall) -> bool:
        """Does the other rank have a message of the opposite direction under way?"""
        other, opposite = self._peer(rank, call), {"send": "recv", "recv": "send"}.get(call.kind.operation)
        if other is None:
            return False
        of_other = [one for one in self._pending.get(other, ()) if one.kind.operation == opposite]
        return any(one.kind.group == call.kind.group and self._peer(other, one) in (rank, None) for one in of_other)

    def _of_rank(self, dump: RankDump) -> Recorded:
        since = {name: self._sequences[point] for name, point in self._points[dump.rank].items()}
        kept = [call for call in self._window(dump) if self._is_kept(dump, call)]
        kept = [c for c in kept if c.number < 0 or c.number >= since[c.kind.group].whole_since[dump.rank]]
        before: dict[MeetingPoint, int] = {}
        for call in reversed(kept):
            if call.number >= 0:
                sequence = since[call.kind.group]
                before[sequence.point] = sequence.places[call.number]
        for point, sequence in self._sequences.items():
            if dump.rank in point[2] and point not in before:
                before[point] = sequence.made_by(dump.rank, dump.dropped > 0)
        dropped = dump.dropped + len(dump.calls) - len(kept)
        events = tuple(self._event(dump, call) for call in kept)
        began = events[0].begin if events else dump.written
        standing = self._standing(dump, kept, dropped)
        return Recorded(began, events, dropped, dump.written, tuple(before.items()), standing)

    def _standing(self, dump: RankDump, kept: list[DumpedCall], dropped: int) -> Standing:
        stuck = self.stuck_in.get(dump.rank)
        if stuck is None:
            last = max((call.end or call.begin for call in dump.calls), default=0.0)
            newest = max(self.dumps, key=lambda rank: self.dumps[rank].written)  # this one may have died since its own
            return Standing(is_free=self._is_young(newest, last))
        if self._is_young(dump.rank, stuck.begin):
            return Standing(is_free=True)
        number = next((number for number, call in enumerate(kept) if call is stuck), None)
        return Standing(False, (-1 if number is None else number + dropped,))

    def _is_young(self, rank: int, since: float) -> bool:
        """Once a call has timed out, on whatever rank, no rank has to show any more that it is not just late."""
        return not self._has_timed_out and self.quiet_seconds(rank, since) < QUIET_SECONDS

    @cached_property
    def _has_timed_out(self) -> bool:
        return any(call.timed_out for call in self.stuck_in.values())

    def _event(self, dump: RankDump, call: DumpedCall) -> Event:
        kind, root, begin, end = call.kind, call.kind.root, call.begin, call.end
        if call.is_over and end is None:
            end = begin
            if call.number >= 0:
                end = self._sequences[self._point(dump, call)].begins[call.number]
        if kind.operation in ("gather", "scatter"):
            roots = self._roots.get((kind.group, call.number))
            root = dump.rank if root == HERE else min(roots) if roots else None
        return dataclasses.replace(
            kind,
            group_ranks=self.members.of[dump.rank][kind.group],
            peer=self._peer(dump.rank, call),
            root=root,
            begin=begin,
            issued=begin,
            waited=begin,
            end=end if call.is_over else None,
            backend="gloo",  # a call under way on a GPU waits for the other ranks, as a call of gloo does
        )

    def _point(self, dump: RankDump, call: DumpedCall) -> MeetingPoint:
        return self._points[dump.rank][call.kind.group]

    def _peer(self, rank: int, call: DumpedCall) -> int | None:
        number, ranks = call.kind.peer, self.members.of[rank][call.kind.group]
        return ranks[number] if number is not None and number < len(ranks) else number

    def _is_kept(self, dump: RankDump, call: DumpedCall) -> bool:
        if call.kind.operation not in POINT_TO_POINT or not call.is_over:
            return True
        peer = self._peer(dump.rank, call)
        others = self.dumps.values() if peer is None else [self.dumps[peer]] if peer in self.dumps else []
        return not (self._is_large or dump.dropped or any(other.dropped for other in others))

    @cached_property
    def _points(self) -> dict[int, dict[str, MeetingPoint]]:
        return {
            rank: {name: point for name, point in points_of(rank, dump, self.members) if point in self._sequences}
            for rank, dump in self.dumps.items()
        }

    @cached_property
    def _roots(self) -> dict[tuple[str, int], set[int]]:
        """By group and sequence number."""
        roots: dict[tuple[str, int], set[int]] = {}
        for rank, dump in self.dumps.items():
            for call in dump.calls:
                if call.kind.root == HERE:
                    roots.setdefault((call.kind.group, call.number), set()).add(rank)
        return roots

    # --- of very many calls, those that matter ------------------------------------------------------------------------

    @cached_property
    def _is_large(self) -> bool:
        return sum(len(dump.calls) for dump in self.dumps.values()) > MOST_CALLS

    def _window(self, dump: RankDump) -> list[DumpedCall]:
        """Around the first mismatch; else around the call in which the rank is stuck, or its last calls."""
        if not self._is_large:
            return dump.calls
        at = self._first_mismatch(dump)
        if at is None:
            stuck = self.stuck_in.get(dump.rank)
            at = next((number for number, call in enumerate(dump.calls) if call is stuck), len(dump.calls))
        first = max(0, at - _CALLS_BEFORE)
        return dump.calls[first : first + max(_LEAST_CALLS, MOST_CALLS // len(self.dumps))]

    def _first_mismatch(self, dump: RankDump) -> int | None:
        points = self._points[dump.rank]
        first = {name: self._sequences[point].mismatched for name, point in points.items()}
        found = (n for n, call in enumerate(dump.calls) if call.number >= 0 and call.number == first[call.kind.group])
        return next(found, None)


def _is_of_one_batch(call: DumpedCall, other: DumpedCall) -> bool:
    return (call.kind.group, call.batch) == (other.kind.group, other.batch)
