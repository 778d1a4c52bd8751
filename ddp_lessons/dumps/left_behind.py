"""Everything that a job's dumps tell: the calls of each rank, where each one stood, and what could not be read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ddp_lessons.dumps.aligned_calls import AlignedCalls
from ddp_lessons.dumps.dump_files import Unreadable, find_dumps, read_dump
from ddp_lessons.dumps.dumped_calls import CallReader, RankDump
from ddp_lessons.record.events import from_plain
from ddp_lessons.record.garbage import nothing_collected
from ddp_lessons.record.rank_record import Recorded

_MOST_RANKS = 1_000_000
_OWN = "ddp_lessons"  # the key of what `ddp_lessons record` adds to torch's format


@dataclass(frozen=True)
class LeftBehind:
    """What the dumps tell, by rank."""

    recorded: list[Recorded | None]  # None: this rank left no dump
    left_out: list[str]  # a sentence about each file that was not read
    endings: Mapping[int, str] = field(default_factory=dict)  # "returned", or the exception; only of our own recorder
    waits: Mapping[int, float] = field(default_factory=dict)  # seconds from its last step until its dump
    timed_out: frozenset[int] = frozenset()  # torch gave up the call that the rank waits in
    descriptions: Mapping[str, str] = field(default_factory=dict)  # of groups
    uncertain_groups: frozenset[str] = frozenset()
    lost: int = 0  # older calls that the ring buffers have lost
    is_of_gloo: bool = False  # written by torch
    is_own: bool = False  # written by `ddp_lessons record`

    @property
    def missing(self) -> list[int]:
        return [rank for rank, one in enumerate(self.recorded) if one is None]

    @property
    def number_of_calls(self) -> int:
        return sum(len(one.calls) + one.dropped for one in self.recorded if one is not None)


def read_left_behind(place: str) -> LeftBehind:
    """Read all dumps at a place (see `find_dumps`).

    Raises:
        Unreadable: there is none, or none that can be read.
    """
    files, left_out = find_dumps(place)
    reader = CallReader()
    dumps: dict[int, RankDump] = {}
    own: dict[int, Mapping[str, Any]] = {}
    with nothing_collected():  # millions of small objects, which all stay: searching them takes longer than reading
        for rank, path in files.items():
            try:
                content = read_dump(path)
                dumps[rank] = _calls_of(reader, rank, path, content)
                if _OWN in content:
                    own[rank] = content[_OWN]
            except Unreadable as reason:
                left_out.append(str(reason))
    if not dumps:
        raise Unreadable(" ".join(left_out) or f"{place} contains no dump, which is a file whose name ends in a rank.")
    return _of_own(own, left_out) if own.keys() == dumps.keys() else _of_torch(dumps, left_out)


def _calls_of(reader: CallReader, rank: int, path: Path, content: Mapping[str, Any]) -> RankDump:
    try:
        return reader.read(rank, content, path.stat().st_mtime)
    except (KeyError, TypeError, ValueError, AttributeError, IndexError, OverflowError, RecursionError) as error:
        raise Unreadable(f"{path.name} is damaged: an entry is missing or invalid ({error!r}).") from error


def _of_torch(dumps: Mapping[int, RankDump], left_out: list[str]) -> LeftBehind:
    aligned = AlignedCalls(dumps)
    since = {rank: aligned.last_step(rank) for rank in dumps}
    return LeftBehind(
        aligned.recorded,
        left_out,
        waits={rank: aligned.quiet_seconds(rank, moment) for rank, moment in since.items() if moment},
        timed_out=frozenset(rank for rank, call in aligned.stuck_in.items() if call.timed_out),
        descriptions=aligned.groups.descriptions,
        uncertain_groups=aligned.groups.uncertain,
        lost=sum(dump.lost for dump in dumps.values()),
        is_of_gloo=any(dump.calls and dump.calls[0].kind.backend == "gloo" for dump in dumps.values()),
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
        raise Unreadable(f"The dumps are damaged: an entry is missing or invalid ({error!r}).") from error
    return LeftBehind(recorded, left_out, endings, waits, is_own=True)
