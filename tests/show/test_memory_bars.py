"""Bars of bytes: as long as what was counted, told apart without colours, and refused where they are no bytes."""

from __future__ import annotations

from typing import Any

import pytest
from looks import check_that_texts_stand_apart, words
from matplotlib.colors import to_hex
from matplotlib.patches import Rectangle

from ddp_lessons import show
from ddp_lessons.record.colors import rank_color

HELD = {
    "DDP": [{"parameters": 800, "gradients": 800, "optimizer state": 1600}] * 2,
    "shards": [{"parameters": 800, "gradients": 800, "optimizer state": 800 - 100 * rank} for rank in range(2)],
}


def bars(picture: show.Picture, gid: str) -> list[tuple[float, float]]:
    """Where every bar of this name begins, and how long it is."""
    found = [one for one in picture.axes.patches if isinstance(one, Rectangle) and one.get_gid() == gid]
    return [(bar.get_x(), bar.get_width()) for bar in found]


def test_every_part_begins_where_the_one_before_ends() -> None:
    picture = show.memory(HELD)
    assert bars(picture, "parameters 0 0") == [(0, 800)]
    assert bars(picture, "gradients 0 0") == [(800, 800)]
    assert bars(picture, "optimizer state 0 0") == [(1600, 1600)]
    assert bars(picture, "optimizer state 1 1") == [(1600, 700)]


def test_a_bar_has_the_colour_of_its_rank_and_its_parts_differ_without_it() -> None:
    parts = [one for one in show.memory(HELD).axes.patches if str(one.get_gid()).endswith("0 1")]
    assert {to_hex(part.get_edgecolor()).upper() for part in parts} == {rank_color(1)}
    looks = {(to_hex(part.get_facecolor()), part.get_hatch()) for part in parts}
    assert len(looks) == 3
    assert to_hex(parts[0].get_facecolor()).upper() == rank_color(1)


def test_ways_ranks_and_sums_are_named() -> None:
    picture = show.memory(HELD, title="A training")
    assert words(picture, "way") == ["DDP", "shards"]
    assert words(picture, "name 1") == ["rank 0", "rank 1"]
    assert words(picture, "bytes 1") == ["2.4 KB", "2.3 KB"]
    assert [text.get_text() for text in picture.figure.legends[0].get_texts()] == [*HELD["DDP"][0]]


def test_words_have_every_number() -> None:
    picture = show.memory(HELD)
    assert picture.text.splitlines() == [
        "bytes held       parameters   gradients   optimizer state   in all",
        "DDP, rank 0             800         800             1,600    3,200",
        "DDP, rank 1             800         800             1,600    3,200",
        "shards, rank 0          800         800               800    2,400",
        "shards, rank 1          800         800               700    2,300",
    ]
    assert "DDP: 3.2 KB on each of 2 ranks; shards: 2.3 KB to 2.4 KB on each of 2 ranks." in picture.alt


@pytest.mark.parametrize("ranks", [1, 2, 4, 8])
@pytest.mark.parametrize("ways", [1, 3, 6])
def test_texts_stand_apart(ranks: int, ways: int) -> None:
    held = {
        f"a way to train {n}": [{"parameters": 10**n + rank, "other": n} for rank in range(ranks)] for n in range(ways)
    }
    check_that_texts_stand_apart(show.memory(held, title="A title"))
    check_that_texts_stand_apart(show.memory(held))


def test_a_long_name_keeps_off_the_ranks() -> None:
    check_that_texts_stand_apart(show.memory({"W" * 42: [{"parameters": 800}]}))


def test_ranks_of_other_ways_take_no_room_from_the_bars() -> None:
    ten = {"ab": [{"parameters": 8}] * 10}
    alone, beside = (show.memory(held).axes.get_position().width for held in (ten, {**ten, "ba": ten["ab"]}))
    assert beside == pytest.approx(alone, abs=0.002)  # a digit more is 0.008


@pytest.mark.parametrize("bytes_held", [1, 999, 1000, 123_456, 999_999, 10**9])
def test_what_stands_beside_the_longest_bar_fits(bytes_held: int) -> None:
    check_that_texts_stand_apart(show.memory({"a": [{"parameters": bytes_held}, {"parameters": bytes_held - 1}]}))


def test_nothing_held_is_drawn_as_nothing() -> None:
    picture = show.memory({"empty": [{"parameters": 0}]})
    assert words(picture, "bytes 0") == ["0 B"]


@pytest.mark.parametrize(
    ("given", "found"),
    [
        (None, "not something of type NoneType"),
        ([{"parameters": 1}], "not something of type list"),
        ({"DDP": {"parameters": 1}}, "for 'DDP' there is no list by rank, but a dict"),
        ({"DDP": [800]}, "for 'DDP', rank 0 has something of type int"),
        ({"DDP": [{"parameters": 1.5}]}, "bytes are whole numbers, and parameters is 1.5"),
        ({"DDP": [{"parameters": True}]}, "bytes are whole numbers, and parameters is True"),
    ],
)
def test_anything_else_is_refused_with_what_was_found(given: Any, found: str) -> None:
    with pytest.raises(TypeError, match=found):
        show.memory(given)


@pytest.mark.parametrize(
    ("given", "found"),
    [
        ({}, "there is nothing to draw"),
        ({"DDP": []}, "there is nothing to draw for 'DDP', which has no ranks"),
        ({"DDP": [{"parameters": 1}], "shards": []}, "there is nothing to draw for 'shards', which has no ranks"),
        ({"DDP": [{"parameters": -1}]}, "bytes are not below 0, and parameters is -1"),
        ({"DDP": [dict.fromkeys("abcde", 1)]}, "a bar has at most 4 parts, and these are 5: a, b, c, d, e"),
    ],
)
def test_impossible_bytes_are_refused(given: Any, found: str) -> None:
    with pytest.raises(ValueError, match=found):
        show.memory(given)
