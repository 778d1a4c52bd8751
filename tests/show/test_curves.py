"""Curves of what ranks log, also while they run; and distances of weights, by their powers of ten."""

from __future__ import annotations

import math

import numpy as np
import pytest
from charted import check_that_texts_stand_apart, line, words
from matplotlib.axes import Axes
from nights import by_day

from ddp_lessons import Results, show
from ddp_lessons.record.colors import rank_color
from ddp_lessons.record.rank_record import Told


def results_of(*by_rank: list[dict[str, float]]) -> Results[None]:
    told = tuple(tuple(Told(0.1 * i, "", numbers) for i, numbers in enumerate(mine)) for mine in by_rank)
    return Results((None,) * len(by_rank), ([],) * len(by_rank), 1.0, told=told)


def training_of(ranks: int, steps: int) -> Results[None]:
    """A loss at every step, and on rank 0 an accuracy at every fiftieth."""
    noise = np.abs(np.random.default_rng(0).normal(size=(ranks, steps)))
    by_rank: list[list[dict[str, float]]] = [
        [{"step": step, "loss": 2.3 * math.exp(-step / steps) + 0.1 * noise[rank, step]} for step in range(steps)]
        for rank in range(ranks)
    ]
    return results_of(by_rank[0] + [{"step": 50.0 * i, "accuracy": 0.1 * i} for i in range(steps // 50)], *by_rank[1:])


def panel(chart: show.Chart, name: str = "loss") -> Axes:
    all_axes: list[Axes] = chart.axes
    (found,) = (axes for axes in all_axes if axes.texts[0].get_text() == name)
    return found


def test_a_panel_for_each_number_and_a_line_for_each_rank_in_its_color() -> None:
    losses = [[2.0, 1.5, 1.0], [2.1, 1.4, 1.1]]
    given = [[{"step": 10 * i, "loss": loss} for i, loss in enumerate(mine)] for mine in losses]
    given[0].append({"epoch": 2, "accuracy": 0.5})
    chart = show.training(results_of(*given, []))
    assert [line(panel(chart), rank) for rank in range(2)] == [([0, 10, 20], mine) for mine in losses]
    assert line(panel(chart, "accuracy"), 0) == ([2], [0.5])
    assert [axes.get_xlabel() for axes in chart.axes] == ["step", "epoch"]
    assert {"rank 0", "rank 1", "last 0.5"} <= words(chart)
    assert "rank 2" not in words(chart)


@pytest.mark.parametrize("given", [[{"loss": 1.0}] * 4, [{"step": step, "loss": 1.0} for step in (0, 1, 0, 1)]])
def test_without_steps_and_where_steps_restart_they_are_counted(given: list[dict[str, float]]) -> None:
    axes = panel(show.training(results_of(given)))
    assert line(axes, 0) == ([1, 2, 3, 4], [1.0] * 4)
    assert axes.get_xlabel() == "values logged"


def test_the_page_does_not_jump_and_the_words_are_the_same_from_the_first_picture_to_the_last() -> None:
    charts = [show.training(one) for one in (results_of([{"step": 3}], []), training_of(2, 3), training_of(4, 49))]
    assert len({(chart.text, chart.alt, chart.figure.get_figheight()) for chart in charts}) == 1
    assert words(charts[0]) == {"No values yet. To log some, call tell(step=3, loss=0.25) in a rank."}


@pytest.mark.parametrize("odd", [math.nan, math.inf, -math.inf, 1e308])
@pytest.mark.parametrize("steps", [6, 200])
def test_what_is_no_number_is_marked_said_and_leaves_a_gap(odd: float, steps: int) -> None:
    losses = [3.0, 2.0, odd, odd, *[1.0] * (steps - 4)]
    given = [{"step": step, "loss": loss} for step, loss in enumerate(losses)]
    chart = show.training(results_of([{"step": 0, "loss": 1.0}], given))
    *drawn, signs = (one for one in panel(chart).lines if one.get_color() == rank_color(1))
    assert np.asarray(signs.get_xdata()).tolist() == [2, 3]
    assert all(np.isnan(one.get_ydata()).any() and np.nanmax(one.get_ydata()) <= 3 for one in drawn)
    assert f"rank 1: {'nan' if math.isnan(odd) else 'inf'} from 2" in words(chart)
    assert panel(chart).get_ylim()[1] < 4


def test_numbers_far_apart_are_drawn_by_factors_and_equal_ones_below_each_other() -> None:
    chart = show.training(results_of(*[[{"a": 2.0**step, "b": 1.0 + step} for step in range(30)]] * 3))
    assert [panel(chart, name).get_yscale() for name in "ab"] == ["log", "linear"]
    assert "100" in words(chart)
    widths = [one.get_linewidth() for one in panel(chart, "a").lines]
    assert widths == sorted(set(widths), reverse=True)


def test_many_points_are_thinned_below_their_moving_average() -> None:
    axes = panel(show.training(training_of(2, 10_000)))
    for rank in range(2):
        steps, means = line(axes, rank)
        assert len(steps) <= 140
        true = [2.3 * math.exp(-step / 10_000) + 0.1 * math.sqrt(2 / math.pi) for step in steps]
        np.testing.assert_allclose(means[2:-2], true[2:-2], atol=0.05)


NAMES = {f"a number with a rather long name {turn}": 10.0**turn for turn in range(12)} | {"x": math.nan}
GIVEN = [training_of(40, 120), results_of([NAMES], [NAMES]), training_of(4, 500), training_of(1, 1), training_of(16, 5)]


@pytest.mark.parametrize("given", by_day(GIVEN, 2))
def test_texts_of_curves_stand_apart(given: Results[None]) -> None:
    chart = show.training(given, title="MNIST")
    check_that_texts_stand_apart(chart)
    assert ("4 more values not shown" in words(chart)) == (len(chart.axes) == 9)


def test_numbers_are_drawn_by_their_powers_of_ten_and_the_limit_is_named() -> None:
    axes = show.distance({"by hand": [1e-9, 1e-8, 1e-3]}).axes
    heights = [axes.transData.transform((0, number))[1] for number in line(axes, "by hand")[1]]
    assert (heights[2] - heights[1]) == pytest.approx(5 * (heights[1] - heights[0]))
    assert axes.get_ylabel() == "largest difference in weights"
    for limit, name in ((2.5e-7, "limit 2.5e-7"), (1e-4, "limit 1e-4"), (0.25, "limit 0.25")):
        assert name in words(show.distance({"a": [1.0]}, limit=limit))


def test_zero_is_drawn_below_all_numbers_and_what_is_no_number_above_as_a_gap() -> None:
    chart = show.distance({"a": [0.0, 1e-12, math.nan, 1e-3, math.inf]})
    _, heights = line(chart.axes, "a")
    assert chart.axes.get_ylim()[0] < heights[0] == 0
    assert np.isnan(heights).tolist() == [False, False, True, False, True]
    odd = chart.axes.lines[-1]
    assert (list(odd.get_xdata()), odd.get_marker()) == ([2, 4], "X")
    assert 0.9 < odd.get_ydata()[0] < 1  # of the axes
    assert {"0", "exactly equal", "nan or inf"} <= words(chart)
    assert "exactly equal" not in words(show.distance({"a": [1e-12]}))


def test_lines_that_lie_on_each_other_leave_rims_and_many_points_keep_their_peak() -> None:
    numbers = np.full(10_000, 1e-9)
    numbers[7_123] = 1e-2
    axes = show.distance({"rank 3": numbers.tolist(), "rank 1": numbers.tolist()}).axes
    below, above = (one for one in axes.lines if str(one.get_label()).startswith("rank"))
    assert below.get_linewidth() > above.get_linewidth()
    assert [below.get_color(), above.get_color()] == [rank_color(3), rank_color(1)]
    steps, heights = line(axes, "rank 1")
    assert len(steps) < 500
    assert dict(zip(steps, heights, strict=True))[7_123] == max(heights) == 1e-2


@pytest.mark.parametrize("steps", by_day([50, 1, 10_000], 1))
def test_texts_of_distances_stand_apart(steps: int) -> None:
    names = ["by hand", "in buckets", "our own DDP", "DistributedDataParallel", "forgotten"]
    curves = {name: (np.arange(steps) * 10.0 ** (-3 * turn)).tolist() for turn, name in enumerate(names)}
    chart = show.distance({**curves, "odd": [math.nan]}, limit=1e-9, title="Ranks against one process")
    check_that_texts_stand_apart(chart)
    assert set(names) <= words(chart)
