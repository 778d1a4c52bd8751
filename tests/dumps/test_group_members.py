"""Which ranks belong to which group, where the dumps do not say it of every rank."""

from __future__ import annotations

from ddp_lessons.dumps.aligned_calls import Groups
from ddp_lessons.dumps.dumped_calls import RankDump


def dump(rank: int, groups: dict[str, tuple[int, ...]], *used: str) -> RankDump:
    return RankDump(rank, 0.0, groups, 0, descriptions={"0": "default_pg", **dict.fromkeys(used, "")})


def test_of_a_group_without_members_in_the_dumps_those_that_used_it_are_known_and_others_may_be_missing() -> None:
    """gloo stores the members of one group of each rank, without its name."""
    dumps = {rank: dump(rank, {"": (0, 1, 2, 3)}, *["1"] * (rank < 2)) for rank in range(3)}
    groups = Groups(dumps)
    assert groups.members(0, "1") == (0, 1)
    assert groups.members(0, "0") == (0, 1, 2, 3)
    assert groups.uncertain == {"1"}


def test_a_name_may_mean_another_group_on_another_rank() -> None:
    """torch numbers the groups of each rank, also those that only some ranks make."""
    everyone = (0, 1, 2)
    groups = Groups({0: dump(0, {"0": everyone, "1": (0, 2)}), 1: dump(1, {"0": everyone, "1": everyone})})
    assert (groups.members(0, "1"), groups.members(1, "1")) == ((0, 2), everyone)
