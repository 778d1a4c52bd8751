"""A chart is matplotlib's SVG: small, in the colors of a light or a dark page, and it can be read without eyes."""

from __future__ import annotations

import itertools
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import matplotlib.style
import numpy as np
import pytest
import torch
from charted import CHARTS, SVG, check_that_texts_stand_apart, line, words
from figure_catalog import svg_in
from nights import nightly
from PIL import Image

from ddp_lessons import show
from ddp_lessons.show.figures.palette import DARK, LIGHT
from ddp_lessons.train.digits import Digits
from ddp_lessons.train.mnist import mnist_folder

every_chart = pytest.mark.parametrize("name", CHARTS)
MEASURED = [(size, 50e-6 + size / 2e9) for size in (8, 1000, 100_000, 10_000_000)]


@every_chart
def test_a_chart_is_small_and_has_its_words(name: str) -> None:
    chart = CHARTS[name]()
    data, metadata = chart._repr_mimebundle_()
    root = ElementTree.fromstring(data["image/svg+xml"])
    assert data["text/plain"] == chart.text == repr(chart)
    assert metadata["image/svg+xml"]["alt"] == root.findtext(f"{SVG}title") == chart.alt
    assert svg_in(data["text/html"]) == data["image/svg+xml"]
    assert len(data["image/svg+xml"]) < 44_000
    assert float(root.get("width", "").removesuffix("pt")) / 72 * 96 <= 720


@every_chart
def test_words_stand_apart_and_are_at_least_twelve_pixels_high(name: str) -> None:
    chart = CHARTS[name]()
    check_that_texts_stand_apart(chart)
    sizes = re.findall(r"<text style=\"[^\"]*?(\d+)px", chart.svg)
    assert len(sizes) == chart.svg.count("<text ")
    assert {int(size) / 72 * 96 >= 12 for size in sizes} == {True}


@every_chart
def test_each_color_that_a_dark_page_has_otherwise_has_a_rule(name: str) -> None:
    _, rules, drawn = re.split("<style|</style>", CHARTS[name]().svg)
    for (color, light), paint in itertools.product(LIGHT.items(), ("fill", "stroke")):
        is_used = color in DARK and f"{paint}: {light.lower()}" in drawn
        assert is_used == (f"{{{paint}:var(--ddp-{color},{light})!important}}" in rules)


@nightly
@every_chart
def test_a_chart_is_the_same_in_every_run_and_in_every_style_of_the_notebook(name: str) -> None:
    one = CHARTS[name]()
    with matplotlib.style.context("dark_background"):
        other = CHARTS[name]()
    assert (one.text, one.alt, one.svg, one.png()) == (other.text, other.alt, other.svg, other.png())


def test_in_a_page_equal_names_are_equal_things() -> None:
    """Of what others point to: clip paths and markers."""
    things: dict[str, set[str]] = {}
    for make in CHARTS.values():
        for about, content in re.findall(r'<(?:clipPath|path) id="(\w+)"([^/]*/)', make().svg):
            things.setdefault(about, set()).add(content)
    assert len(things) > 10
    assert {len(contents) for contents in things.values()} == {1}


def test_words_of_a_learner_stay_words(tmp_path: Path) -> None:
    chart = show.distance({'a "b" & $c$': [1e-9]}, title="<title>")
    assert {'a "b" & $c$', "<title>"} <= words(chart)
    chart.save(tmp_path / "one.png")
    assert Image.open(tmp_path / "one.png").width == 160 * chart.figure.get_figwidth()


@nightly
def test_show_loads_matplotlib_only_when_a_chart_is_drawn() -> None:
    code = "import sys; from ddp_lessons import show; dir(show); sys.exit('matplotlib' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_digits_are_images_on_paper_with_their_labels() -> None:
    from torchvision import transforms
    from torchvision.datasets import MNIST

    chart = show.digits(MNIST(mnist_folder(), train=False, transform=transforms.ToTensor()), 5)
    assert words(chart) == set("72104")
    assert chart.svg.count("<image ") == len(chart.axes.images) == 5
    blank = show.digits(Digits(torch.zeros(30, 1, 28, 28), torch.zeros(30, dtype=torch.int64)))
    assert {one.to_rgba(one.get_array()).min() for one in blank.axes.images} == {1.0}


def test_measured_times_are_points_and_the_fitted_line_goes_through_them() -> None:
    fitted = show.fit_line(MEASURED)
    assert fitted == pytest.approx((50e-6, 2e9))
    axes = show.latency(MEASURED, fitted).axes
    assert list(zip(*line(axes, "measured"), strict=True)) == MEASURED
    sizes, seconds = line(axes, "50 µs + bytes / (2 GB per second)")
    np.testing.assert_allclose(seconds, 50e-6 + np.array(sizes) / 2e9)
    assert show.fit_line([(100, 1e-6), (1000, 1e-4)]).latency_seconds == 0
    assert show.fit_line([(100, 2e-6), (1000, 1e-6)]).bytes_per_second > 0


def test_costs_are_points_with_the_predicted_lines_in_the_same_color() -> None:
    tripled = [(size, 3 * seconds) for size, seconds in MEASURED]
    given: Any = {"ring": lambda size: size / 1e9, "star": [(8, 1e-4), (1e7, 1e-2)]}
    axes = show.cost({"ring": MEASURED, "star": tripled}, given).axes
    assert list(zip(*line(axes, "star"), strict=True)) == tripled
    assert line(axes, "star, predicted") == ([8, 1e7], [1e-4, 1e-2])
    sizes, seconds = line(axes, "ring, predicted")
    np.testing.assert_allclose(seconds, np.array(sizes) / 1e9)
    colors = {str(one.get_label()): one.get_color() for one in axes.lines}
    assert colors["ring"] == colors["ring, predicted"] != colors["star"]
    from_zero = show.cost({"threads": [(1, 0.029), (2, 0.017)]}, x="ranks or threads", from_zero=True)
    assert from_zero.axes.get_ylim()[0] == 0
    assert {"1", "2", "ranks or threads"} <= words(from_zero)


WRONG: list[tuple[Callable[[], object], type[Exception], str]] = [
    (lambda: show.fit_line([(8, 1e-6), (8, 2e-6)]), ValueError, "at least two message sizes, but there is only 1 size"),
    (lambda: show.latency([1, 2, 3]), ValueError, "pairs"),  # type: ignore[list-item]
    (lambda: show.latency([(8, 0.0)]), ValueError, "more than 0 seconds"),
    (lambda: show.cost({}), ValueError, "pass at least one curve"),
    (lambda: show.digits([], 0), ValueError, "at least 1"),
    (lambda: show.training({"loss": [1.0]}), TypeError, r"need the results of launch\(\), not a value of type dict"),
    (lambda: show.distance(None), TypeError, "takes a dict from names to lists of numbers"),  # type: ignore[arg-type]
    (lambda: show.distance({"a": 0.5}), TypeError, "'a' has a value of type float"),  # type: ignore[dict-item]
    (lambda: show.distance({"a": [1.0, -0.5]}), ValueError, r"can't be negative, but 'a' has -0\.5"),
    (lambda: show.distance({}), ValueError, "pass at least one list"),
    (lambda: show.distance({"a": [1.0]}, limit=0), ValueError, "limit must be a number above 0"),
    (lambda: show.scaling([5000.0]), TypeError, "this is of type list"),  # type: ignore[arg-type]
    (lambda: show.scaling({1.5: 5000.0}), TypeError, "1.5 is not a number of ranks"),  # type: ignore[dict-item]
    (lambda: show.scaling({1: None}), TypeError, "its value for 1 is of type NoneType"),  # type: ignore[dict-item]
    (lambda: show.scaling({1: 5e3}, model={0: 5.0}), ValueError, "model: ranks and images per second must be above 0"),
    (lambda: show.scaling({}), ValueError, "pass at least one point"),
    (lambda: show.explore_scaling(max, cores=0, latency=0.0, bandwidth=1.0), ValueError, "above 0"),
]


@pytest.mark.parametrize(("draw", "error", "told"), WRONG)
def test_what_cannot_be_drawn_is_refused_in_words(
    draw: Callable[[], object], error: type[Exception], told: str
) -> None:
    with pytest.raises(error, match=told):
        draw()
