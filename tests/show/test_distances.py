"""Distances of weights lie where their powers of ten are, zero below all of them, and no number is lost."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from looks import all_texts, check_that_texts_stand_apart, lines_of, words

from ddp_lessons import show
from ddp_lessons.record.colors import rank_color
from ddp_lessons.show.page.lines import thinned


def test_numbers_are_drawn_by_their_powers_of_ten_and_the_limit_across() -> None:
    picture = show.distance({"by hand": [1e-9, 1e-8, 1e-3]})
    assert lines_of(picture.axes, "curve by hand") == [([0, 1, 2], pytest.approx([-9, -8, -3]))]
    ((_, heights),) = lines_of(picture.axes, "limit")
    assert heights == pytest.approx([-6, -6])
    assert words(picture, "name of the limit") == ["limit 1e-6"]
    for limit, name in ((2.5e-7, "limit 2.5e-7"), (1e-4, "limit 1e-4"), (0.25, "limit 0.25")):
        assert words(show.distance({"a": [1.0]}, limit=limit), "name of the limit") == [name]
    assert picture.axes.get_ylabel() == "largest difference of the weights"


def test_zero_is_drawn_below_all_numbers_and_named() -> None:
    picture = show.distance({"DDP": [0.0, 1e-12, 0.0]})
    ((_, heights),) = lines_of(picture.axes, "curve DDP")
    low = picture.axes.get_ylim()[0]
    assert low < heights[0] == heights[2] < -12
    ticks = dict(zip(picture.axes.get_yticks(), (t.get_text() for t in picture.axes.get_yticklabels()), strict=True))
    assert ticks[heights[0]] == "0"
    assert words(picture, "name of zero") == ["exactly equal"]
    assert not words(show.distance({"DDP": [1e-12]}), "name of zero")


def test_what_is_no_number_is_marked_above_and_breaks_the_line() -> None:
    picture = show.distance({"a": [1e-8, math.nan, 1e-3, math.inf, math.inf, 1e-2]})
    assert [steps for steps, _ in lines_of(picture.axes, "curve a")] == [[0], [2], [5]]
    ((steps, heights),) = lines_of(picture.axes, "no number a")
    assert steps == [1, 3, 4]
    assert min(heights) > -2
    assert "nan/inf" in [label.get_text() for label in picture.axes.get_yticklabels()]
    assert "a: 6 steps, not all of them are numbers" in picture.text


def test_the_text_says_what_stays_below_the_limit_and_no_measured_number() -> None:
    picture = show.distance({"by hand": [0.0, 1e-8], "forgotten": [0.0, 1e-6], "later": []})
    assert picture.text.splitlines() == [
        "Largest difference of the weights, step by step; the limit is 1e-6:",
        "  by hand: 2 steps, below the limit at every step",
        "  forgotten: 2 steps, not below the limit at every step",
        "  later: no step",
    ]
    losses = show.distance({"by hand": [0.0]}, what="losses")
    assert all(
        words.startswith("Largest difference of the losses, step by step") for words in (losses.text, losses.alt)
    )
    again = show.distance({"by hand": [1e-9, 2e-8], "forgotten": [1e-3, 1e-2], "later": []})
    assert (again.text, again.alt) == (picture.text, picture.alt)


def test_lines_that_lie_on_each_other_leave_rims_and_ranks_keep_their_colors() -> None:
    axes = show.distance({"rank 3": [0, 0], "rank 1": [0, 0]}).axes
    below, above = (line for line in axes.lines if str(line.get_gid()).startswith("curve"))
    assert below.get_linewidth() > above.get_linewidth()
    assert below.get_markersize() > above.get_markersize()
    assert below.get_marker() != above.get_marker()
    assert [below.get_color(), above.get_color()] == [rank_color(3), rank_color(1)]


def test_many_steps_are_thinned_and_keep_their_peaks() -> None:
    numbers = np.full(10_000, 1e-9)
    numbers[7_123] = 1e-2
    ((steps, heights),) = lines_of(show.distance({"a": numbers.tolist()}).axes, "curve a")
    assert len(steps) <= 602
    assert (steps[0], steps[-1], max(heights)) == (0, 9_999, pytest.approx(-2))
    assert steps[int(np.argmax(heights))] == 7_123


def test_thinning_keeps_the_extremes_of_every_stretch() -> None:
    y = np.random.default_rng(0).normal(size=5_000)
    x, kept = thinned(np.arange(5_000), y, most=100)
    assert len(x) <= 102
    assert (np.diff(x) > 0).all()
    for begin in range(0, 5_000, 100):
        inside = kept[(x >= begin) & (x < begin + 100)]
        assert {y[begin : begin + 100].min(), y[begin : begin + 100].max()} <= set(inside)


@pytest.mark.parametrize("steps", [1, 2, 50, 10_000])
@pytest.mark.parametrize(
    "names", [["a"], ["by hand", "in buckets", "our own DDP", "DistributedDataParallel", "forgotten"]]
)
def test_texts_stand_apart(steps: int, names: list[str]) -> None:
    curves = {name: (np.arange(steps) * 10.0 ** (-3 * turn)).tolist() for turn, name in enumerate(names)}
    check_that_texts_stand_apart(show.distance(curves, title="Ranks against one process"))
    check_that_texts_stand_apart(show.distance({**curves, "odd": [math.nan]}, limit=1e-9))
    key = {text.get_text() for text in all_texts(show.distance(curves))}
    assert set(names) <= key


def test_tensors_and_arrays_are_welcome() -> None:
    texts = {show.distance({"a": one}).text for one in ([0.0, 1e-3], torch.tensor([0, 1e-3]), np.array([0, 1e-3]))}  # type: ignore[dict-item]
    assert len(texts) == 1


@pytest.mark.parametrize("given", [None, [0.0, 1e-9], {"a": 0.5}, {"a": ["low"]}, {"a": None}, {"a": [[1.0, 2.0]]}])
def test_anything_else_is_refused(given: object) -> None:
    with pytest.raises(TypeError, match="takes a dict of names to lists of numbers, one for each step, as in"):
        show.distance(given)  # type: ignore[arg-type]


def test_impossible_numbers_are_refused() -> None:
    with pytest.raises(ValueError, match=r"at least 0, and 'a' has -0\.5"):
        show.distance({"a": [1.0, -0.5]})
    with pytest.raises(ValueError, match="give at least one list"):
        show.distance({})
    with pytest.raises(ValueError, match="limit is a number above 0"):
        show.distance({"a": [1.0]}, limit=0)
