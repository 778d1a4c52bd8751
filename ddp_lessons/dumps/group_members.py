"""Which ranks belong to which group. NCCL's dumps say so; gloo's do not, and then the calls show what can be known."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ddp_lessons.dumps.dumped_calls import RankDump

_OF_ALL = ("0", "default_pg")  # torch's name and description of the group of all ranks


@dataclass(frozen=True)
class GroupMembers:
    """`of[rank][name]` are the members of a group. Of the uncertain groups, some members may be unknown."""

    world_size: int
    of: Mapping[int, Mapping[str, tuple[int, ...]]]
    uncertain: frozenset[str]


def find_members(dumps: Mapping[int, RankDump]) -> GroupMembers:
    stored = {name: ranks for dump in dumps.values() for name, ranks in dump.groups.items()}
    users: dict[str, set[int]] = {}
    sizes: dict[str, int] = {}
    for rank, dump in dumps.items():
        sizes.update(dump.sizes)
        for name in dump.descriptions:
            users.setdefault(name, set()).add(rank)
    known = {rank for ranks in stored.values() for rank in ranks} | set(dumps)
    of_all = {name for dump in dumps.values() for name, said in dump.descriptions.items() if _is_of_all(name, said)}
    world_size = max([max(known, default=-1) + 1, *(sizes.get(name, 0) for name in of_all)])
    inferred = {name: tuple(sorted(ranks)) for name, ranks in users.items() if name not in stored}
    for name in of_all & inferred.keys():
        inferred[name] = tuple(range(world_size))
    uncertain = {name for name in inferred.keys() - of_all if sizes.get(name) != len(inferred[name])}
    members = {rank: {**inferred, **stored, **dump.groups} for rank, dump in dumps.items()}
    return GroupMembers(world_size, members, frozenset(uncertain))


def _is_of_all(name: str, description: str) -> bool:
    return name == _OF_ALL[0] or description == _OF_ALL[1]
