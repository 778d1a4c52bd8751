"""Which ranks belong to which group, where the dumps do not say it of every rank."""

from __future__ import annotations

from ddp_lessons.dumps.dumped_calls import RankDump
from ddp_lessons.dumps.group_members import find_members


def dump(rank: int, groups: dict[str, tuple[int, ...]] | None = None, used: tuple[str, ...] = ()) -> RankDump:
    return RankDump(rank, 0.0, [], 0, groups or {}, {"0": "default_pg", **dict.fromkeys(used, "")})


def test_of_a_group_without_members_in_the_dumps_those_that_used_it_are_known_and_others_may_be_missing() -> None:
    dumps = {rank: dump(rank, used=("1",) * (rank < 2)) for rank in range(4)}
    members = find_members(dumps)
    assert members.of[0]["1"] == (0, 1)
    assert members.of[0]["0"] == (0, 1, 2, 3)
    assert members.uncertain == {"1"}
    dumps[0].sizes["1"] = 2
    assert find_members(dumps).uncertain == set()


def test_a_name_may_mean_another_group_on_another_rank() -> None:
    """torch numbers the groups of each rank, also those that only some ranks make."""
    everyone = (0, 1, 2)
    dumps = {0: dump(0, {"0": everyone, "1": (0, 2)}), 1: dump(1, {"0": everyone, "1": everyone})}
    members = find_members(dumps)
    assert (members.of[0]["1"], members.of[1]["1"]) == ((0, 2), everyone)
