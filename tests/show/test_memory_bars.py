"""Bars of bytes: as long as what was counted, told apart without colors, and refused where they are no bytes."""

from __future__ import annotations

from typing import Any

import pytest
from looks import check_layouts, labels, layouts_of

from ddp_lessons import show
from ddp_lessons.show.figures.drawing import Box, Drawing, color_of_rank

HELD = {
    "DDP": [{"parameters": 800, "gradients": 800, "optimizer state": 1600}] * 2,
    "shards": [{"parameters": 800, "gradients": 800, "optimizer state": 800 - 100 * rank} for rank in range(2)],
}


def bars(drawing: Drawing) -> list[list[Box]]:
    """The parts of every rank's bar, from above to below."""
    parts = [one for one in drawing.shapes if isinstance(one, Box) and one.height == 13]
    return [[part for part in parts if part.y == y] for y in sorted({part.y for part in parts})]


def test_every_part_is_as_long_as_it_is_large_and_begins_where_the_one_before_ends() -> None:
    for layout in layouts_of(show.memory(HELD)):
        rows = bars(layout)
        scale = rows[0][0].width / 800
        wanted = [[800, 800, 1600], [800, 800, 1600], [800, 800, 800], [800, 800, 700]]
        assert [[part.width / scale for part in row] for row in rows] == [pytest.approx(row, abs=5) for row in wanted]
        for first, second, third in rows:
            assert [second.x, third.x] == pytest.approx([first.x + first.width, second.x + second.width], abs=0.02)


def test_a_bar_has_the_color_of_its_rank_and_its_parts_differ_without_it() -> None:
    parts = bars(show.memory(HELD).still)[1]
    assert {part.edge for part in parts} == {parts[0].fill} == {color_of_rank(1)}
    assert len({(part.fill != "none", part.opacity, part.is_hatched) for part in parts}) == 3


def test_ways_ranks_and_sums_are_named() -> None:
    picture = show.memory(HELD, title="A training")
    ranks = [["rank 0", "3.2 KB", "rank 1", "3.2 KB"], ["rank 0", "2.4 KB", "rank 1", "2.3 KB"]]
    assert labels(layouts_of(picture)[0]) == [*HELD["DDP"][0], "DDP", *ranks[0], "shards", *ranks[1]]
    assert labels(picture.still)[0] == picture.document["title"] == "A training"


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
    check_layouts(show.memory(held, title="A title"))
    check_layouts(show.memory(held))


def test_a_long_name_is_cut_where_the_page_ends() -> None:
    figure = show.memory({"W" * 42: [{"parameters": 800}]})
    check_layouts(figure)
    names = [labels(layout)[1] for layout in layouts_of(figure)]
    assert names[-1] == "W" * 42
    assert names[0].endswith("W…")


def test_of_very_many_ranks_the_rest_is_counted() -> None:
    figure = show.memory({"all": [{"parameters": 8}] * 20})
    check_layouts(figure)
    for layout in layouts_of(figure):
        assert len(bars(layout)) == 16
        assert labels(layout)[-1] == "4 further ranks left out"


@pytest.mark.parametrize("bytes_held", [1, 999, 1000, 123_456, 999_999, 10**9])
def test_what_stands_beside_the_longest_bar_fits(bytes_held: int) -> None:
    check_layouts(show.memory({"a": [{"parameters": bytes_held}, {"parameters": bytes_held - 1}]}))


def test_nothing_held_is_drawn_as_nothing() -> None:
    picture = show.memory({"empty": [{"parameters": 0}]})
    assert labels(picture.still)[-1] == "0 B"


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
