"""Curves hold the points that were measured, the lines that were predicted, and no time in their words."""

from __future__ import annotations

import numpy as np
import pytest

from ddp_lessons import show

SIZES = [8, 1000, 100_000, 10_000_000]
MEASURED = [(size, 50e-6 + size / 2e9) for size in SIZES]


def line(picture: show.Picture, gid: str) -> tuple[list[float], list[float]]:
    (found,) = (one for one in picture.axes.lines if one.get_gid() == gid)
    return list(found.get_xdata()), list(found.get_ydata())


def key(picture: show.Picture) -> list[str]:
    return [text.get_text() for text in picture.axes.get_legend().get_texts()]


def test_the_fitted_line_finds_latency_and_bandwidth() -> None:
    latency, bandwidth = show.fit_line(MEASURED)
    assert (latency, bandwidth) == pytest.approx((50e-6, 2e9))


def test_a_fit_never_has_a_negative_latency_or_bandwidth() -> None:
    assert show.fit_line([(100, 1e-6), (1000, 1e-4)]).latency_seconds == 0
    assert show.fit_line([(100, 2e-6), (1000, 1e-6)]).bytes_per_second > 0


def test_one_size_makes_no_line() -> None:
    with pytest.raises(ValueError, match="two sizes"):
        show.fit_line([(8, 1e-6), (8, 2e-6)])


def test_points_and_line_are_drawn_on_axes_that_grow_by_factors() -> None:
    picture = show.latency(MEASURED, model=(50e-6, 2e9))
    assert line(picture, "measured") == ([*SIZES], [seconds for _, seconds in MEASURED])
    sizes, seconds = line(picture, "model")
    np.testing.assert_allclose(seconds, 50e-6 + np.array(sizes) / 2e9)
    assert (picture.axes.get_xscale(), picture.axes.get_yscale()) == ("log", "log")
    assert key(picture) == ["measured", "50 µs + bytes / (2 GB per second)"]


def test_without_a_model_there_are_only_points() -> None:
    assert key(show.latency(MEASURED)) == ["measured"]


def test_words_hold_the_sizes_but_no_time() -> None:
    slower = [(size, 3 * seconds) for size, seconds in MEASURED]
    for one, other in (
        (show.latency(MEASURED, show.fit_line(MEASURED)), show.latency(slower, show.fit_line(slower))),
        (show.cost({"ring": MEASURED}), show.cost({"ring": slower})),
    ):
        assert (one.text, one.alt) == (other.text, other.alt)
        assert "8 B, 1 KB, 100 KB, 10 MB" in one.text


def test_costs_are_points_with_the_predicted_lines_in_the_same_color() -> None:
    measured = {"ring": MEASURED, "star": [(size, 3 * seconds) for size, seconds in MEASURED]}
    picture = show.cost(measured, {"ring": lambda size: size / 1e9, "star": [(8, 1e-4), (1e7, 1e-2)]})
    assert line(picture, "measured star")[1] == [3 * seconds for _, seconds in MEASURED]
    sizes, seconds = line(picture, "predicted ring")
    np.testing.assert_allclose(seconds, np.array(sizes) / 1e9)
    assert line(picture, "predicted star") == ([8, 1e7], [1e-4, 1e-2])
    colors = {str(one.get_gid()): one.get_color() for one in picture.axes.lines}
    assert colors["measured ring"] == colors["predicted ring"] != colors["measured star"]
    markers = {one.get_marker() for one in picture.axes.lines if str(one.get_gid()).startswith("measured")}
    assert len(markers) == 2


def test_ranks_are_drawn_evenly() -> None:
    picture = show.cost({"ring": [(2, 1e-4), (4, 2e-4)]}, x="ranks")
    assert picture.axes.get_xscale() == "linear"
    assert "Seconds by ranks:\n  ring: measured, at 2, 4" in picture.text


def test_times_that_are_not_far_apart_can_be_drawn_from_zero() -> None:
    axes = show.cost({"threads": [(1, 0.029), (2, 0.017)]}, x="ranks or threads", from_zero=True).axes
    assert axes.get_yscale() == "linear"
    assert axes.get_ylim()[0] == 0
    shown = [tick for tick in axes.get_xticks() if axes.get_xlim()[0] <= tick <= axes.get_xlim()[1]]
    assert shown == [1, 2]


def test_wrong_numbers_are_refused() -> None:
    with pytest.raises(ValueError, match="pairs"):
        show.latency([1, 2, 3])  # type: ignore[list-item]
    with pytest.raises(ValueError, match="more than 0 seconds"):
        show.latency([(8, 0.0)])


def test_no_curve_at_all_is_refused_in_words() -> None:
    with pytest.raises(ValueError, match="give at least one curve"):
        show.cost({})
