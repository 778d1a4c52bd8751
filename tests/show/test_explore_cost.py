"""The cost model's widget: its lines are the formulas, its words are true, and nothing but the lines moves."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from looks import check_that_texts_stand_apart, lines_of, words
from matplotlib.colors import to_hex
from nights import by_day, nightly

from ddp_lessons import show
from ddp_lessons.show.controls.slider_scales import by_factors, by_two
from ddp_lessons.show.page.picture import PAPER, show_seconds
from ddp_lessons.train.costs import ring_seconds, star_seconds, tree_seconds

FORMULAS = {"star": star_seconds, "tree": tree_seconds, "ring": ring_seconds}
CABLE = (0.002, 100e6)


def measured_at(factor: float) -> tuple[dict[str, Any], dict[str, Any]]:
    """So many times what the model says: by bytes with 4 ranks, by ranks with 2 MB."""
    sizes, ranks = (2**14, 2**18, 2**22), (2, 4, 8)
    by_bytes = {name: [(n, factor * seconds(4, n, *CABLE)) for n in sizes] for name, seconds in FORMULAS.items()}
    by_ranks = {name: [(n, factor * seconds(n, 2e6, *CABLE)) for n in ranks] for name, seconds in FORMULAS.items()}
    return by_bytes, by_ranks


def explorer(factor: float = 1.2) -> show.Explorer[show.Chart]:
    return show.explore_cost(FORMULAS, *measured_at(factor))


@pytest.mark.parametrize(
    "values",
    by_day([{}, {"ranks": 64}, {"size": 1e8, "latency": 0.05}, {"ranks": 2, "bandwidth": 1e9, "latency": 1e-6}], 2),
)
def test_lines_are_what_the_formulas_say(values: Mapping[str, Any]) -> None:
    widget = explorer()
    widget.set(**values)
    now = widget.values
    by_bytes, by_ranks = widget.picture.axes
    cable = now["latency"], now["bandwidth"]
    for name, seconds in FORMULAS.items():
        ((sizes, of_sizes),) = lines_of(by_bytes, f"model bytes {name}")
        np.testing.assert_allclose(of_sizes, [seconds(now["ranks"], size, *cable) for size in sizes])
        ((ranks, of_ranks),) = lines_of(by_ranks, f"model ranks {name}")
        np.testing.assert_allclose(of_ranks, [seconds(int(n), now["size"], *cable) for n in ranks])
        assert words(widget.picture, f"key {name}") == [
            f"{name}: {show_seconds(seconds(now['ranks'], now['size'], *cable))}"
        ]
    assert lines_of(by_bytes, "chosen bytes")[0][0][0] == now["size"]
    assert lines_of(by_ranks, "chosen ranks")[0][0][0] == now["ranks"]


def test_only_the_lines_move() -> None:
    widget = explorer()
    before = [(axes.get_xlim(), axes.get_ylim(), axes.get_position().bounds) for axes in widget.picture.axes]
    points = [
        lines_of(axes, f"measured {side} ring")
        for axes, side in zip(widget.picture.axes, ("bytes", "ranks"), strict=True)
    ]
    widget.set(ranks=1024, size=1e8, latency=0.1, bandwidth=1e6)
    after = [(axes.get_xlim(), axes.get_ylim(), axes.get_position().bounds) for axes in widget.picture.axes]
    assert before == after
    assert points == [
        lines_of(axes, f"measured {side} ring")
        for axes, side in zip(widget.picture.axes, ("bytes", "ranks"), strict=True)
    ]
    assert points[0] == [tuple(map(list, zip(*measured_at(1.2)[0]["ring"], strict=True)))]


def test_points_of_another_setting_are_hollow_and_said_to_be() -> None:
    widget = explorer()
    for ranks, color, title in (
        (4, "#009E73", "4 ranks, by bytes"),
        (8, PAPER, "8 ranks, by bytes (points: measured with 4 ranks)"),
    ):
        widget.set(ranks=ranks)
        (line,) = (one for one in widget.picture.axes[0].lines if one.get_gid() == "measured bytes ring")
        assert to_hex(line.get_markerfacecolor()).upper() == color
        assert words(widget.picture, "title bytes") == [title]


def test_words_tell_where_another_way_becomes_the_fastest() -> None:
    # 4 ranks: 4 (latency + bytes / bandwidth) = 6 (latency + bytes / 4 / bandwidth) at bytes = 0.8 latency bandwidth
    assert "Fastest with 4 ranks: tree up to 160 KB, ring beyond." in explorer().picture.text.splitlines()
    widget = explorer()
    widget.set(latency=0.02, ranks=8)
    cable = (0.02, 100e6)
    sizes = np.geomspace(1e3, 1e8, 100_000)
    by_tree, by_ring = (
        np.array([seconds(8, size, *cable) for size in sizes]) for seconds in (tree_seconds, ring_seconds)
    )
    (crossing,) = sizes[1:][np.diff(by_tree < by_ring)]
    assert f"tree up to {crossing / 1e6:.2g} MB, ring beyond" in widget.picture.text


@pytest.mark.parametrize("latency", [1e-6, 0.002, 0.1])
def test_words_tell_which_is_fastest_for_so_many_ranks(latency: float) -> None:
    widget = explorer()
    widget.set(latency=latency)
    (line,) = (line for line in widget.picture.text.splitlines() if line.startswith("Fastest with 2 MB: "))
    for part in line.removeprefix("Fastest with 2 MB: ").replace(", ...", "").removesuffix(" ranks.").split(", "):
        names, _, span = part.partition(" for ")
        for ranks in (int(number) for number in span.split(" to ")):
            seconds = {name: formula(ranks, 2e6, latency, 100e6) for name, formula in FORMULAS.items()}
            fastest = [name for name, time in seconds.items() if time <= min(seconds.values()) * (1 + 1e-9)]
            assert names.split(" and ") == fastest


def test_the_first_words_hold_nothing_measured_and_later_ones_do() -> None:
    slow, fast = explorer(3.0), explorer(1.2)
    assert (slow.picture.text, slow.picture.alt) == (fast.picture.text, fast.picture.alt)
    slow.set(size=1e6)
    assert (
        "Measured with 4 ranks, as a multiple of the model (the middle one): star 3, tree 3, ring 3."
        in slow.picture.text
    )
    assert slow.picture.alt.endswith("star 3, tree 3, ring 3.")
    slow.set(ranks=8)  # no point is of 8 ranks and of this size
    assert "Measured" not in slow.picture.text


@nightly
def test_texts_stand_apart_and_without_points_too() -> None:
    for widget in (explorer(), show.explore_cost({"ring": ring_seconds}, world_size=3, size=5e4)):
        check_that_texts_stand_apart(widget.picture)
        widget.set(ranks=1024, size=1e8, bandwidth=1e6)
        check_that_texts_stand_apart(widget.picture)


def test_what_cannot_be_drawn_is_said() -> None:
    with pytest.raises(ValueError, match="give at least one formula"):
        show.explore_cost({})
    with pytest.raises(ValueError, match="from 2 to 1024 ranks and from 1 KB to 100 MB, and begins with 1 ranks"):
        show.explore_cost(FORMULAS, world_size=1)
    with pytest.raises(ValueError, match="a bandwidth is above 0"):
        show.explore_cost(FORMULAS, bandwidth=0)
    broken = show.explore_cost({"broken": lambda ranks, size, latency, bandwidth: 1 / 0})
    assert "ZeroDivisionError" in broken.picture.text


def test_sliders_grow_by_factors_and_hold_the_given_number() -> None:
    latencies = by_factors(1e-6, 1e-4, show_seconds, 1.34e-5)
    assert list(latencies) == ["1 µs", "2 µs", "5 µs", "10 µs", "13.4 µs", "20 µs", "50 µs", "100 µs"]
    assert latencies["13.4 µs"] == 1.34e-5
    assert by_factors(1e-6, 1e-5, show_seconds, 2.001e-6)["2 µs"] == 2.001e-6
    assert by_two(8, 2048, 100) == {
        "8": 8,
        "16": 16,
        "32": 32,
        "64": 64,
        "100": 100,
        "128": 128,
        "256": 256,
        "512": 512,
        "1,024": 1024,
        "2,048": 2048,
    }
