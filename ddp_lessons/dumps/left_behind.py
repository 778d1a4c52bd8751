"""Everything that a job's dumps tell: the calls of each rank, where each one stood, and what could not be read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from ddp_lessons.dumps.aligned_calls import AlignedCalls
from ddp_lessons.dumps.dump_files import Unreadable, find_dumps, read_dump
from ddp_lessons.dumps.dumped_calls import CallReader, RankDump
from ddp_lessons.dumps.group_members import find_members
from ddp_lessons.record.events import from_plain
from ddp_lessons.record.garbage import nothing_collected
from ddp_lessons.record.rank_record import Recorded

_MOST_RANKS = 1_000_000
OWN = "ddp_lessons"  # the key of what `ddp_lessons record` adds to torch's format


@dataclass(frozen=True)
class LeftBehind:
    """What the dumps tell, by rank."""

    recorded: list[Recorded | None]  # None: this rank left no dump
    endings: Mapping[int, str] = field(default_factory=dict)  # "returned", or the exception; only of our own recorder
    waits: Mapping[int, float] = field(default_factory=dict)  # seconds from its last step until its dump
    timed_out: frozenset[int] = frozenset()  # torch gave up the call that the rank waits in
    descriptions: Mapping[str, str] = field(default_factory=dict)  # of groups
    uncertain_groups: frozenset[str] = frozenset()
    left_out: list[str] = field(default_factory=list)  # a sentence about each file that was not read
    libraries: frozenset[str] = frozenset()
    is_own: bool = False  # recorded by this package

    @property
    def missing(self) -> list[int]:
        return [rank for rank, one in enumerate(self.recorded) if one is None]

    @cached_property
    def number_of_calls(self) -> int:
        return sum(len(one.calls) + one.dropped for one in self.recorded if one is not None)


def read_left_behind(place: str) -> LeftBehind:
    """Read all dumps at a place (see `find_dumps`).

    Raises:
        Unreadable: there is none, or none that can be read.
    """
    files = find_dumps(place)
    reader, left_out = CallReader(), files.left_out
    dumps: dict[int, RankDump] = {}
    own: dict[int, Mapping[str, Any]] = {}
    with nothing_collected():  # millions of small objects, which all stay: searching them takes longer than reading
        for rank, path in files.by_rank.items():
            try:
                content = read_dump(path)
                dumps[rank] = _calls_of(reader, rank, path, content)
                if OWN in content:
                    own[rank] = content[OWN]
            except Unreadable as reason:
                left_out.append(str(reason))
    if not dumps:
        raise Unreadable(" ".join(left_out) or f"{place} contains no dump: no file whose name ends in a rank.")
    if own.keys() == dumps.keys():
        return _of_own(own, left_out)
    return _of_torch(dumps, left_out)


def _calls_of(reader: CallReader, rank: int, path: Path, content: Mapping[str, Any]) -> RankDump:
    try:
        return reader.read(rank, content, path.stat().st_mtime)
    except (KeyError, TypeError, ValueError, AttributeError, IndexError, OverflowError, RecursionError) as error:
        raise Unreadable(f"{path.name} is damaged: an entry is not as torch writes it ({error!r}).") from error


def _of_torch(dumps: Mapping[int, RankDump], left_out: list[str]) -> LeftBehind:
    members = find_members(dumps)
    aligned = AlignedCalls(dumps, members)
    stuck = aligned.stuck_in
    last = {rank: max((call.end or call.begin for call in dump.calls), default=0.0) for rank, dump in dumps.items()}
    since = {rank: stuck[rank].begin if rank in stuck else last[rank] for rank in dumps}
    return LeftBehind(
        aligned.recorded,
        waits={rank: aligned.quiet_seconds(rank, moment) for rank, moment in since.items() if moment},
        timed_out=frozenset(rank for rank, call in stuck.items() if call.timed_out),
        descriptions={name: said for dump in dumps.values() for name, said in dump.descriptions.items()},
        uncertain_groups=members.uncertain,
        left_out=left_out,
        libraries=frozenset(dump.library for dump in dumps.values() if dump.library),
    )


def _of_own(own: Mapping[int, Mapping[str, Any]], left_out: list[str]) -> LeftBehind:
    try:
        world_size = max([int(told["world_size"]) for told in own.values()] + [rank + 1 for rank in own])
        if world_size > _MOST_RANKS:
            raise ValueError(f"world_size {world_size}")
        recorded = [from_plain(own[rank]["recorded"]) if rank in own else None for rank in range(world_size)]
        endings = {rank: str(told["ended"]) for rank, told in own.items() if told["ended"]}
        waits = {rank: float(told["quiet_seconds"]) for rank, told in own.items()}
    except (KeyError, TypeError, ValueError) as error:
        raise Unreadable(f"The dumps are damaged: they are not as this package writes them ({error!r}).") from error
    return LeftBehind(recorded, endings, waits, left_out=left_out, is_own=True)
