"""A scaling curve: points as measured, the ideal line through the first of them, and no number in its words."""

from __future__ import annotations

from typing import Any

import pytest
from looks import all_texts, check_that_texts_stand_apart, lines_of, words
from matplotlib.backends.backend_agg import FigureCanvasAgg
from nights import by_day

from ddp_lessons import show

MEASURED = {1: 5_000.0, 2: 9_000.0, 4: 14_000.0}


def test_points_and_model_are_where_they_were_measured() -> None:
    picture = show.scaling(MEASURED, model={1: 5_000, 4: 15_000})
    assert lines_of(picture.axes, "measured") == [([1, 2, 4], [5_000, 9_000, 14_000])]
    assert lines_of(picture.axes, "model") == [([1, 4], [5_000, 15_000])]
    (model,) = (line for line in picture.axes.lines if line.get_gid() == "model")
    assert model.is_dashed()
    key = {text.get_text() for text in picture.axes.get_legend().get_texts()}
    assert key == {"measured (% of the ideal)", "ideal", "model"}


@pytest.mark.parametrize(
    ("measured", "ideal"), [(MEASURED, [5_000, 20_000]), ({2: 9_000.0, 4: 14_000.0}, [9_000, 18_000])]
)
def test_the_ideal_line_goes_on_as_the_fewest_ranks_began(measured: dict[int, float], ideal: list[float]) -> None:
    ((_, speeds),) = lines_of(show.scaling(measured).axes, "ideal")
    assert speeds == ideal


def test_beside_every_point_stands_its_part_of_the_ideal() -> None:
    picture = show.scaling(MEASURED)
    parts = {ranks: words(picture, f"efficiency measured {ranks}") for ranks in MEASURED}
    assert parts == {1: ["100 %"], 2: ["90 %"], 4: ["70 %"]}


def test_numbers_stand_on_no_line_and_the_cores_are_named_where_there_is_room() -> None:
    falling = {1: 9_000.0, 2: 6_500.0, 3: 3_900.0, 4: 2_800.0}
    picture = show.scaling(falling, model={1: 9_100.0, 2: 8_800.0, 4: 6_000.0}, cores=2)
    assert words(picture, "name of the cores") == ["more ranks than cores (2)"]
    canvas: Any = FigureCanvasAgg(picture.figure)
    canvas.draw()
    lines = [line for line in picture.axes.lines if line.get_gid() in ("ideal", "model", "measured")]
    paths = [line.get_transform().transform_path(line.get_path()) for line in lines]
    for label in picture.axes.texts:
        box = label.get_window_extent(canvas.get_renderer())
        assert not any(path.intersects_bbox(box, filled=False) for path in paths), label.get_text()


def test_where_ranks_share_cores_the_page_says_so() -> None:
    assert words(show.scaling(MEASURED, cores=2), "name of the cores") == ["more ranks than cores (2)"]
    assert not words(show.scaling(MEASURED, cores=16), "name of the cores")
    assert not words(show.scaling(MEASURED), "name of the cores")


def test_many_ranks_are_drawn_by_factors_and_few_from_zero() -> None:
    many, few = show.scaling({2**power: 900.0 * 2**power for power in range(7)}).axes, show.scaling(MEASURED).axes
    assert (many.get_xscale(), many.get_yscale()) == ("log", "log")
    assert (few.get_xscale(), few.get_yscale(), few.get_ylim()[0]) == ("linear", "linear", 0)


def test_words_name_what_was_measured_and_hold_no_speed() -> None:
    picture = show.scaling(MEASURED, model=MEASURED, cores=2)
    again = show.scaling({ranks: 0.7 * speed for ranks, speed in MEASURED.items()}, MEASURED, cores=8)
    assert (picture.text, picture.alt) == (again.text, again.alt)
    assert picture.text.splitlines() == [
        "Throughput (images per second) by number of ranks, compared with the ideal line:",
        "  measured: 1, 2, 4",
        "  model: 1, 2, 4",
    ]


@pytest.mark.parametrize(
    "measured",
    by_day(
        [{1: 1e-3}, {1: 5e3, 2: 5.1e3}, {n: 1e6 * n**0.9 for n in range(1, 9)}, {2**p: 1e3 * 2**p for p in range(9)}], 2
    ),
)
def test_texts_stand_apart(measured: dict[int, float]) -> None:
    slower = {ranks: 0.98 * speed for ranks, speed in measured.items()}
    picture = show.scaling(slower, model=measured, cores=2, title="This machine")
    check_that_texts_stand_apart(picture)
    check_that_texts_stand_apart(show.scaling(measured))
    assert "images per second" in {text.get_text() for text in all_texts(picture)}


@pytest.mark.parametrize(
    ("given", "found"),
    [
        (None, "this is of type NoneType"),
        ([5000.0, 9000.0], "this is of type list"),
        ({"1": 5000.0}, "'1' is no number of ranks"),
        ({1.5: 5000.0}, "1.5 is no number of ranks"),
        ({1: None}, "for 1 it has something of type NoneType"),
        ({1: [5000.0]}, "for 1 it has something of type list"),
    ],
)
def test_anything_else_is_refused_with_what_was_found(given: object, found: str) -> None:
    with pytest.raises(TypeError, match=rf"measured is a dict of ranks to images per second, as in .*, and {found}"):
        show.scaling(given)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="model is a dict"):
        show.scaling(MEASURED, model=[1.0])  # type: ignore[arg-type]


@pytest.mark.parametrize("given", [{1: 0.0}, {1: -1.0}, {1: float("nan")}, {1: float("inf")}, {0: 5.0}, {-1: 5.0}])
def test_impossible_numbers_are_refused(given: dict[int, float]) -> None:
    with pytest.raises(ValueError, match="measured: ranks and images per second are above 0, and this has"):
        show.scaling(given)


def test_nothing_measured_is_refused_in_words() -> None:
    with pytest.raises(ValueError, match="give at least one point"):
        show.scaling({})
