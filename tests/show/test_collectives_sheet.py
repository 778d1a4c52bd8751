"""The sheet of all collectives: it shows what the ranks held, and its arrows go the way that each is defined."""

from __future__ import annotations

import pytest
from looks import check_that_texts_stand_apart, words

from ddp_lessons import show
from ddp_lessons.show.messages.collectives_sheet import SHEET, moves

ALL = [(sender, receiver) for sender in range(3) for receiver in range(3)]
ARROWS = {
    "scatter": [(0, 0), (0, 1), (0, 2)],
    "broadcast": [(0, 0), (0, 1), (0, 2)],
    "gather": [(0, 0), (1, 0), (2, 0)],
    "reduce": [(0, 0), (1, 0), (2, 0)],
} | dict.fromkeys(("all_gather", "all_reduce", "all_to_all_single", "reduce_scatter"), ALL)
AFTER = {
    "scatter": ["0", "1", "2"],
    "gather": ["0 10 20"],
    "all_gather": ["0 10 20"] * 3,
    "all_to_all_single": ["0 10 20", "1 11 21", "2 12 22"],
    "broadcast": ["0 1"] * 3,
    "reduce": ["30 33"],
    "all_reduce": ["30 33"] * 3,
    "reduce_scatter": ["30", "33", "36"],
}


@pytest.fixture(scope="module")
def sheet() -> show.Picture:
    return show.collectives(3)


@pytest.mark.parametrize("name", [name for row in SHEET for name in row])
def test_a_panel_has_the_values_and_the_arrows_of_its_collective(name: str, sheet: show.Picture) -> None:
    assert words(sheet, f"after {name} ") == AFTER[name]
    gids = [str(patch.get_gid()) for patch in sheet.axes.patches]
    assert sorted(gid for gid in gids if gid.startswith(f"arrow {name} ")) == [
        f"arrow {name} {sender} {receiver}" for sender, receiver in ARROWS[name]
    ]


@pytest.mark.parametrize("world_size", [2, 3, 4])
def test_words_stand_apart_on_a_sheet(world_size: int) -> None:
    check_that_texts_stand_apart(show.collectives(world_size))


def test_who_got_nothing_has_no_arrow() -> None:
    held = [([[0]], [[0], [10]]), ([[10]], [])]
    assert moves("gather", held) == [(0, 0), (1, 0)]


def test_more_ranks_than_there_is_room_for_are_refused() -> None:
    with pytest.raises(ValueError, match="room for 2 to 4 ranks on a sheet, not 8"):
        show.collectives(8)
