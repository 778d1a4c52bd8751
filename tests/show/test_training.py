"""Curves of what ranks tell: every number is there, also while they are on their way, and the words stay the same."""

from __future__ import annotations

import math

import numpy as np
import pytest
from looks import check_that_texts_stand_apart, lines_of, words
from matplotlib.axes import Axes

from ddp_lessons import Results, launch, show, tell
from ddp_lessons.record.colors import rank_color
from ddp_lessons.record.rank_record import Told


def results_of(*by_rank: list[dict[str, float]]) -> Results[None]:
    told = tuple(tuple(Told(0.1 * i, "", numbers) for i, numbers in enumerate(mine)) for mine in by_rank)
    return Results((None,) * len(by_rank), ([],) * len(by_rank), 1.0, told=told)


def training_of(ranks: int, steps: int) -> Results[None]:
    """A loss at every step, a speed at every tenth, and on rank 0 an accuracy at every fiftieth."""
    random = np.random.default_rng(0)
    by_rank: list[list[dict[str, float]]] = [[] for _ in range(ranks)]
    for rank, mine in enumerate(by_rank):
        for step in range(steps):
            mine.append({"step": step, "loss": 2.3 * math.exp(-step / steps) + 0.1 * abs(random.normal())})
            if step % 10 == 9:
                mine.append({"step": step, "images_per_second": 5000 + 300 * random.normal()})
            if step % 50 == 49 and rank == 0:
                mine.append({"step": step, "accuracy": 1 - math.exp(-step / steps)})
    return results_of(*by_rank)


def panel(picture: show.Picture, name: str) -> Axes:
    all_axes: list[Axes] = picture.axes
    (found,) = (axes for axes in all_axes if words_in(axes, f"panel {name}"))
    return found


def words_in(axes: Axes, gid: str) -> list[str]:
    return [text.get_text() for text in axes.texts if str(text.get_gid()) == gid]


def test_a_panel_for_each_number_and_a_line_for_each_rank_in_its_color() -> None:
    losses = [[2.0, 1.5, 1.0], [2.1, 1.4, 1.1]]
    given = [[{"step": 10 * i, "loss": loss} for i, loss in enumerate(mine)] for mine in losses]
    given[0].append({"step": 20, "accuracy": 0.5})
    picture = show.training(results_of(*given))
    assert len(picture.axes) == 2
    for rank in range(2):
        assert lines_of(panel(picture, "loss"), f"curve {rank}") == [([0, 10, 20], losses[rank])]
        (line,) = (line for line in panel(picture, "loss").lines if line.get_gid() == f"curve {rank}")
        assert line.get_color() == rank_color(rank)
    assert lines_of(panel(picture, "accuracy"), "curve 0") == [([20], [0.5])]
    assert panel(picture, "loss").get_xlabel() == "step"
    assert words(picture, "name ") == ["rank 0", "rank 1"]
    assert words(picture, "note accuracy") == ["last 0.5"]


@pytest.mark.parametrize(("value", "said"), [(12_530.4, "12,530"), (999.96, "1000"), (0.12345, "0.1235")])
def test_the_last_number_is_said_without_powers_of_ten(value: float, said: str) -> None:
    picture = show.training(results_of([{"images_per_second": 3.0}, {"images_per_second": value}]))
    assert words(picture, "note images_per_second") == [f"last {said}"]


def test_without_steps_they_are_counted_and_epochs_count_as_steps() -> None:
    picture = show.training(results_of([{"loss": 3.0}, {"loss": 2.0}, {"epoch": 4, "accuracy": 0.5}]))
    assert lines_of(panel(picture, "loss"), "curve 0") == [([1, 2], [3.0, 2.0])]
    assert panel(picture, "loss").get_xlabel() == "times told"
    assert lines_of(panel(picture, "accuracy"), "curve 0") == [([4], [0.5])]
    assert panel(picture, "accuracy").get_xlabel() == "epoch"


def test_the_first_point_has_one_tick_below_it() -> None:
    axes = panel(show.training(training_of(2, 1)), "loss")
    axes.figure.canvas.draw()
    low, high = axes.get_xlim()
    ticks = zip(axes.get_xticks(), axes.get_xticklabels(), strict=True)
    assert len([label.get_text() for tick, label in ticks if low <= tick <= high]) == 1


def test_steps_that_begin_anew_in_every_epoch_are_counted_on() -> None:
    picture = show.training(results_of([{"step": step, "loss": 1.0} for step in (0, 1, 0, 1)]))
    assert lines_of(panel(picture, "loss"), "curve 0") == [([1, 2, 3, 4], [1.0] * 4)]


def test_a_rank_that_is_ahead_and_one_that_has_told_nothing() -> None:
    picture = show.training(results_of([{"loss": 1.0}] * 5, [], [{"loss": 1.0}]))
    lengths = [len(lines_of(panel(picture, "loss"), f"curve {rank}")) for rank in range(3)]
    assert lengths == [1, 0, 1]
    assert words(picture, "name ") == ["rank 0", "rank 2"]


@pytest.mark.parametrize("given", [Results((), (), 0.0), results_of([], []), results_of([{"step": 3}], [])])
def test_before_anything_is_told_it_says_how_to_tell(given: Results[None]) -> None:
    picture = show.training(given)
    assert words(picture, "waiting") == [
        "No values logged yet. A rank logs values while it runs: tell(step=3, loss=0.25)"
    ]
    one_panel = show.training(results_of([{"loss": 1.0}]))
    assert picture.figure.get_figheight() == one_panel.figure.get_figheight()  # the page does not jump


def test_the_words_are_the_same_from_the_first_picture_to_the_last() -> None:
    pictures = [show.training(one) for one in (Results((), (), 0.0), training_of(2, 3), training_of(4, 200))]
    assert {(picture.text, picture.alt) for picture in pictures} == {
        ("Training curves.", "Training curves: a panel for each logged value, a line for each rank.")
    }


@pytest.mark.parametrize("odd", [math.nan, math.inf, -math.inf, 1e308])
def test_what_is_no_number_is_marked_said_and_leaves_a_gap(odd: float) -> None:
    losses = [3.0, 2.0, odd, odd, 1.0]
    given = [{"step": step, "loss": loss} for step, loss in enumerate(losses)]
    picture = show.training(results_of([{"step": 0, "loss": 1.0}], given))
    axes = panel(picture, "loss")
    assert [steps for steps, _ in lines_of(axes, "curve 1")] == [[0, 1], [4]]
    assert [steps for steps, _ in lines_of(axes, "no number 1")] == [[2, 3]]
    assert words(picture, "note loss") == [f"rank 1: {'nan' if math.isnan(odd) else 'inf'} from 2"]
    assert axes.get_ylim()[1] < 4
    picture._repr_mimebundle_()


def test_a_training_that_is_nothing_but_nan_is_drawn() -> None:
    picture = show.training(results_of(*[[{"loss": math.nan}] * 200] * 3))
    assert words(picture, "note loss") == ["ranks 0, 1 and 2: nan from 1"]
    check_that_texts_stand_apart(picture)


def test_numbers_far_apart_are_drawn_by_factors() -> None:
    picture = show.training(results_of([{"a": 2.0**step, "b": 1.0 + step} for step in range(30)]))
    assert [panel(picture, name).get_yscale() for name in "ab"] == ["log", "linear"]
    assert "mathdefault" not in picture.svg
    assert ">100</text>" in picture.svg


def test_ranks_that_tell_the_same_are_seen_below_each_other() -> None:
    axes = panel(show.training(results_of(*[[{"accuracy": 0.5}, {"accuracy": 0.6}]] * 3)), "accuracy")
    below, middle, above = (line for line in axes.lines if str(line.get_gid()).startswith("curve"))
    assert [str(line.get_gid()) for line in (below, middle, above)] == ["curve 2", "curve 1", "curve 0"]
    assert below.get_linewidth() > middle.get_linewidth() > above.get_linewidth()


def test_many_points_are_thinned_below_their_running_mean() -> None:
    picture = show.training(training_of(2, 10_000))
    axes = panel(picture, "loss")
    for rank in range(2):
        ((steps, means),) = lines_of(axes, f"mean {rank}")
        assert max(len(steps), len(lines_of(axes, f"curve {rank}")[0][0])) <= 302
        true = [2.3 * math.exp(-step / 10_000) + 0.1 * math.sqrt(2 / math.pi) for step in steps]
        np.testing.assert_allclose(means[5:-5], true[5:-5], atol=0.05)


@pytest.mark.parametrize(("ranks", "steps"), [(1, 1), (1, 50), (4, 500), (8, 120), (16, 5), (40, 120)])
def test_texts_stand_apart(ranks: int, steps: int) -> None:
    check_that_texts_stand_apart(show.training(training_of(ranks, steps), title="MNIST"))


@pytest.mark.parametrize("panels", [2, 4, 5, 9, 12])
def test_texts_of_many_panels_stand_apart(panels: int) -> None:
    numbers = {f"a number with a rather long name {turn}": 10.0**turn for turn in range(panels)}
    numbers["x"] = math.nan
    picture = show.training(results_of([numbers], [numbers]))
    assert len(picture.axes) == min(panels + 1, 9)
    notes = {9: ["1 further number left out"], 12: ["4 further numbers left out"]}
    assert words(picture, "notes") == notes.get(panels, [])
    check_that_texts_stand_apart(picture)


def test_what_a_launch_returned_and_what_it_raised_are_drawn() -> None:
    def train(rank: int, world_size: int) -> None:
        tell("forward")
        for step in range(3):
            tell(step=step, loss=rank + 1 / (step + 1))

    results = launch(train, 2, quiet=True)
    failure = RuntimeError("a rank failed")
    failure.results = results  # type: ignore[attr-defined]
    for given in (results, failure):
        assert lines_of(panel(show.training(given), "loss"), "curve 1") == [([0, 1, 2], [2.0, 1.5, 1 + 1 / 3])]


@pytest.mark.parametrize("given", [None, [1.0, 2.0], {"loss": [1.0]}])
def test_anything_else_is_refused(given: object) -> None:
    with pytest.raises(TypeError, match=r"drawn from what launch\(\) returned, not from a (NoneType|list|dict)"):
        show.training(given)
