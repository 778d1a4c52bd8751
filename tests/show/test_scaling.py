"""Throughput by the number of ranks: as measured, as a model predicts, and a model with controls."""

from __future__ import annotations

from typing import Any

import pytest
from charted import check_that_texts_stand_apart, line, words
from matplotlib.backends.backend_agg import FigureCanvasAgg
from nights import by_day, nightly
from notebook_session import NotebookSession

from ddp_lessons import show
from ddp_lessons.show.charts.speed_ups import Machine, speed_ups

MEASURED = {1: 5_000.0, 2: 9_000.0, 4: 14_000.0}
KEY, ON_THIS = "measured (% of ideal)", "measured on this machine"
CORES = "more ranks than cores (2)"
IN_A_KERNEL = """
from ddp_lessons import show
explored = show.explore_scaling(lambda ranks, *_: 1e3 * ranks, {256: {1: 5e3}}, cores=4, latency=1e-4, bandwidth=1e9)
explored
"""


def speed(ranks: int, batch_size: int, cores: int, latency: float, bandwidth: float) -> float:
    """Images that need 1/8000 second each, and a step 1 ms, on as many ranks as there are cores."""
    seconds = (0.001 + batch_size / ranks / 8000) * max(1, ranks / cores)
    return batch_size / (seconds + 2 * (ranks - 1) * (latency + 400_000 / ranks / bandwidth))


def test_points_and_model_are_where_they_were_measured_and_each_has_its_part_of_the_ideal() -> None:
    chart = show.scaling(MEASURED, model={1: 5_000, 4: 15_000}, cores=2)
    assert line(chart.axes, KEY) == ([1, 2, 4], [5_000, 9_000, 14_000])
    assert line(chart.axes, "model") == ([1, 4], [5_000, 15_000])
    assert line(chart.axes, "ideal") == ([1, 4], [5_000, 20_000])
    assert {"100%", "90%", "70%", CORES} <= words(chart)
    assert line(show.scaling({2: 9_000.0, 4: 14_000.0}).axes, "ideal") == ([2, 4], [9_000, 18_000])
    assert "more ranks than cores (16)" not in words(show.scaling(MEASURED, cores=16))


@pytest.mark.parametrize(
    "measured",
    by_day([{1: 1e-3}, {1: 9e3, 2: 6.5e3, 3: 3.9e3, 4: 2.8e3}, {2**p: 1e3 * 2**p for p in range(9)}], 2),
)
def test_texts_stand_apart_and_on_no_curve(measured: dict[int, float]) -> None:
    chart = show.scaling({ranks: 0.98 * fast for ranks, fast in measured.items()}, measured, cores=2, title="Here")
    check_that_texts_stand_apart(chart)
    canvas: Any = FigureCanvasAgg(chart.figure)
    canvas.draw()
    curves = [one for one in chart.axes.lines if one.get_label() in ("ideal", "model", KEY)]
    paths = [one.get_transform().transform_path(one.get_path()) for one in curves]
    boxes = [one.get_window_extent(canvas.get_renderer()) for one in chart.axes.texts]
    assert not [box for box in boxes for path in paths if path.intersects_bbox(box, filled=False)]


@pytest.mark.parametrize("is_for_each", [False, True])
def test_the_model_is_drawn_as_a_multiple_of_one_rank_over_what_was_measured(is_for_each: bool) -> None:
    machine = (2, 1.34e-4, 3.1e9)
    chart = speed_ups(speed, Machine(is_for_each, 64, *machine), {4: 14_000.0, 2: 10_000.0})
    ranks, times = line(chart.axes, "model")
    batches = {one: 64 * one if is_for_each else 64 for one in ranks}
    assert times == pytest.approx([speed(int(n), int(batches[n]), *machine) / speed(1, 64, *machine) for n in ranks])
    assert line(chart.axes, ON_THIS) == ([2, 4], [2.0, 2.8])
    assert {"100%", "70%", CORES} <= words(chart)
    *_, row, best = chart.text.splitlines()
    assert int(row.split("|")[1].replace(",", "")) == round(speed(64, int(batches[64]), *machine))
    assert f"{best} Measured: 2x with 2 ranks, 2.8x with 4 ranks." in chart.alt


@pytest.mark.parametrize("values", [(256, 1, 1e-4), (16_384, 48, 1e-4), (256, 2, 0.1), (256, 4, 1e-6)])
def test_the_axes_stay_and_texts_stand_apart(values: tuple[int, int, float]) -> None:
    chart = speed_ups(speed, Machine(False, *values, 3.1e9), {1: 8000.0, 2: 15_000.0})
    check_that_texts_stand_apart(chart)
    other = speed_ups(speed, Machine(True, 8, 64, 1e-6, 1e11))
    limits = [(*axes.get_xlim(), *axes.get_ylim(), *axes.get_position().bounds) for axes in (chart.axes, other.axes)]
    assert limits[0] == limits[1]


def test_each_control_has_a_label_and_redraws_and_measured_points_are_those_of_its_batch() -> None:
    explored: Any = show.explore_scaling(
        speed, {256: MEASURED}, {64: {1: 7000.0, 2: 13_300.0}}, cores=2, latency=1.34e-4, bandwidth=float("inf")
    )
    assert explored.text == explored.alt
    assert line(explored.axes, ON_THIS) == ([1, 2, 4], [1.0, 1.8, 2.8])
    *controls, picture = explored.controls().children
    assert [one.description for one in controls] == ["images for", "images", "cores", "latency", "bandwidth"]
    assert explored.text in picture.value
    whose, images, cores, latency, _ = controls
    for turned, value, told in (
        (images, 64, "a global batch of 64 images, 2 cores, a latency of 134 µs, inf GB per second"),
        (whose, True, "64 images per rank, 2 cores"),
        (cores, 16, "64 images per rank, 16 cores"),
        (latency, 0.001, "a latency of 1 ms"),
    ):
        turned.value = value
        assert told in picture.value
        assert ("Measured: 1.9x with 2 ranks." in picture.value) == whose.value


@nightly
def test_a_notebook_keeps_one_output_with_controls_picture_and_text() -> None:
    with NotebookSession() as session:
        (shown,) = session.run(IN_A_KERNEL).displays
        assert set(shown) == {"application/vnd.jupyter.widget-view+json", "image/svg+xml", "text/plain"}
        hidden = session.run("import sys; sys.modules['ipywidgets'] = None; explored")
        assert "text/html" in hidden.displays[0]
