"""The widget of the scaling curve: the model as it is, the points only where they belong, and no jump."""

from __future__ import annotations

import pytest
from looks import check_that_texts_stand_apart, lines_of, words

from ddp_lessons import show

STRONG = {256: {1: 8000.0, 2: 15_000.0, 4: 14_000.0}, 32: {1: 6000.0, 2: 6600.0}}
WEAK = {64: {1: 7000.0, 2: 13_300.0}}


def speed(ranks: int, batch_size: int, cores: int, latency: float, bandwidth: float) -> float:
    """Images that need 1/8000 second each, and a step 1 ms, on as many ranks as there are cores."""
    seconds = (0.001 + batch_size / ranks / 8000) * max(1, ranks / cores)
    return batch_size / (seconds + 2 * (ranks - 1) * (latency + 400_000 / ranks / bandwidth))


def explorer(cores: int = 2, latency: float = 1.34e-4, bandwidth: float = 3.1e9) -> show.Explorer[show.Chart]:
    return show.explore_scaling(speed, STRONG, WEAK, cores=cores, latency=latency, bandwidth=bandwidth)


def test_the_model_is_drawn_as_a_multiple_of_one_rank() -> None:
    widget = explorer()
    widget.set(batch_size=1024, cores=16, latency=0.001, bandwidth=1e9)
    ((ranks, times),) = lines_of(widget.picture.axes, "model")
    one = speed(1, 1024, 16, 0.001, 1e9)
    assert times == pytest.approx([speed(n, 1024, 16, 0.001, 1e9) / one for n in ranks])
    assert {1, 2, 3, 4, 64} <= set(ranks)


def test_in_weak_scaling_every_rank_brings_its_batch() -> None:
    widget = explorer()
    widget.set(is_for_each=True, batch_size=64)
    ((ranks, times),) = lines_of(widget.picture.axes, "model")
    machine = (2, 1.34e-4, 3.1e9)
    assert times == pytest.approx([speed(n, 64 * n, *machine) / speed(1, 64, *machine) for n in ranks])
    assert lines_of(widget.picture.axes, "measured") == [([1, 2], [1.0, 1.9])]


def test_points_stand_only_where_such_a_batch_was_measured() -> None:
    widget = explorer()
    assert lines_of(widget.picture.axes, "measured") == [([1, 2, 4], [1.0, 1.875, 1.75])]
    assert words(widget.picture, "part measured 4") == ["44 %"]
    widget.set(batch_size=32)
    assert lines_of(widget.picture.axes, "measured") == [([1, 2], [1.0, 1.1])]
    widget.set(batch_size=64)
    assert lines_of(widget.picture.axes, "measured") == []
    assert [name for name in widget.options["batch_size"] if "measured" in name] == ["32, measured", "256, measured"]
    widget.set(is_for_each=True)
    assert [name for name in widget.options["batch_size"] if "measured" in name] == ["64, measured"]


def test_points_that_begin_at_two_ranks_begin_at_the_ideal() -> None:
    widget = show.explore_scaling(speed, {256: {4: 14_000.0, 2: 10_000.0}}, cores=2, latency=1e-4, bandwidth=1e9)
    assert lines_of(widget.picture.axes, "measured") == [([2, 4], [2.0, 2.8])]


def test_the_axes_stay_and_the_cores_are_marked() -> None:
    widget = explorer()
    before = widget.picture.axes.get_xlim(), widget.picture.axes.get_ylim(), widget.picture.axes.get_position().bounds
    assert words(widget.picture, "name of the cores") == ["more ranks than cores (2)"]
    widget.set(batch_size=16_384, cores=64, latency=1e-6, bandwidth=1e11)
    after = widget.picture.axes.get_xlim(), widget.picture.axes.get_ylim(), widget.picture.axes.get_position().bounds
    assert before == after
    assert not words(widget.picture, "name of the cores")


def test_the_first_words_are_the_same_on_every_machine_and_later_ones_have_the_numbers() -> None:
    widget, other = explorer(), explorer(16, 5e-5, 9e9)
    assert (widget.picture.text, widget.picture.alt) == (other.picture.text, other.picture.alt)
    widget.set(latency=0.001)
    lines = widget.picture.text.splitlines()
    assert lines[0] == "256 images for all ranks together, 2 cores, a latency of 1 ms, 3.1 GB per second; by the model:"
    machine = (2, 0.001, 3.1e9)
    for line in lines[2:-1]:
        ranks, images, times, part = line.split("|")[:4]
        model = speed(int(ranks), 256, *machine)
        assert int(images.replace(",", "")) == round(model)
        assert float(times) == pytest.approx(model / speed(1, 256, *machine), rel=0.01)
        assert int(part) == round(100 * model / speed(1, 256, *machine) / int(ranks))
    assert [line.split("|")[4].strip() for line in lines[2:5]] == ["1", "1.88", "1.75"]
    fastest = max(lines_of(widget.picture.axes, "model")[0][0], key=lambda n: speed(n, 256, *machine))
    assert lines[-1] == f"Fastest with {fastest} ranks."
    assert lines[-1] in widget.picture.alt


def test_words_tell_whether_more_ranks_help() -> None:
    widget = show.explore_scaling(speed, cores=64, latency=1e-6, bandwidth=1e11)
    widget.set(is_for_each=True)
    assert widget.picture.text.endswith("Each step to more ranks, up to 64, makes it faster.")
    widget.set(latency=0.1)
    assert widget.picture.text.endswith("No number of ranks is faster than one.")


def test_texts_stand_apart() -> None:
    widget = explorer()
    check_that_texts_stand_apart(widget.picture)
    for values in ({"cores": 1}, {"cores": 48, "batch_size": 16_384}, {"latency": 0.1}, {"cores": 4, "latency": 1e-6}):
        widget.set(**values)
        check_that_texts_stand_apart(widget.picture)


def test_it_begins_on_a_machine_that_can_be() -> None:
    with pytest.raises(ValueError, match="above 0"):
        explorer(cores=0)
    # a line that fits best may have no slope, or begin at 0
    assert explorer(latency=0.0, bandwidth=float("inf")).failure == explorer().failure == ""
    assert not show.explore_scaling(speed, cores=3, latency=0.0, bandwidth=float("inf")).picture.text.startswith(
        "Error"
    )
