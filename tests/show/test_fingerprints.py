"""Equal models have equal colours, and what differs is seen without colour too."""

from __future__ import annotations

import base64
import hashlib
import io
import itertools
import time
from typing import Any

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_hex
from PIL import Image
from recorded import gids

from ddp_lessons import Results, show
from ddp_lessons.record.colors import RANK_COLORS
from ddp_lessons.show.page.picture import INK, contrast, ink_on
from ddp_lessons.show.trainings.fingerprint_rows import COLORS


def print_of(*state: object) -> str:
    return hashlib.blake2b(repr(state).encode(), digest_size=4).hexdigest()


def run(ranks: int, steps: int, apart_from: int = 1000, loner: int | None = None) -> list[list[str]]:
    """All ranks are equal, until one of them, or all, go their own way."""
    return [
        [print_of(step, rank if step >= apart_from and loner in (None, rank) else "all") for step in range(steps)]
        for rank in range(ranks)
    ]


def cells(picture: show.Picture) -> dict[str, Any]:
    """By "rank step"."""
    shapes = [shape for shape in picture.axes.patches if str(shape.get_gid()).startswith(("state", "differs"))]
    return {str(shape.get_gid()).partition(" ")[2]: shape for shape in shapes}


def digits(picture: show.Picture) -> dict[str, str]:
    words = [text for text in picture.axes.texts if str(text.get_gid()).startswith("digits")]
    return {str(text.get_gid()).removeprefix("digits "): text.get_text() for text in words}


def test_equal_states_have_one_colour_and_different_ones_of_a_step_have_not() -> None:
    given = run(4, 12, apart_from=3)
    colors = {name: to_hex(shape.get_facecolor()) for name, shape in cells(show.fingerprints(given)).items()}
    assert len(colors) == 4 * 12
    for step in range(12):
        column = {colors[f"{rank} {step}"] for rank in range(4)}
        assert len(column) == (1 if step < 3 else 4)


def test_a_state_keeps_its_colour_at_another_step() -> None:
    a, b, c = print_of("a"), print_of("b"), print_of("c")
    colors = {
        name: to_hex(shape.get_facecolor()) for name, shape in cells(show.fingerprints([[a, b, c], [a, a, b]])).items()
    }
    assert colors["0 0"] == colors["1 0"] == colors["1 1"]
    assert colors["0 1"] == colors["1 2"] != colors["0 0"]


def test_states_whose_hashes_choose_one_colour_are_told_apart_at_a_step() -> None:
    same_choice = [f"{number:08x}" for number in range(5, 5 + 4 * len(COLORS), len(COLORS))]
    shapes = cells(show.fingerprints([[one] for one in same_choice]))
    assert len({to_hex(shape.get_facecolor()) for shape in shapes.values()}) == 4


def test_what_differs_has_a_dark_frame_a_sign_and_other_digits_so_that_no_colour_is_needed() -> None:
    given = run(3, 6, apart_from=2, loner=1)
    picture = show.fingerprints(given)
    differ = {f"1 {step}" for step in range(2, 6)}
    assert {gid.removeprefix("differs ") for gid in gids(picture.axes, "differs")} == differ
    for name, shape in cells(picture).items():
        rank, step = map(int, name.split())
        assert (shape.get_linewidth() > 0) == (name in differ)
        assert digits(picture)[name] == ("≠ " if name in differ else "") + given[rank][step][:4]
    assert {to_hex(cells(picture)[name].get_edgecolor()).upper() for name in differ} == {INK}
    key = [text.get_text() for text in picture.axes.texts if text.get_gid() == "key"]
    assert key == ["framed: differs from the other ranks at that step"]


@pytest.mark.parametrize("color", COLORS)
def test_digits_on_every_colour_can_be_read_and_no_colour_is_one_of_a_rank(color: str) -> None:
    assert contrast(color, ink_on(color)) >= 4.5
    assert color.upper() not in RANK_COLORS


def test_a_saved_cell_has_its_colour_although_a_saved_picture_has_few() -> None:
    given = [[f"{number:08x}" for number in range(12)]]
    data, _ = show.fingerprints(given)._repr_mimebundle_()
    image = Image.open(io.BytesIO(base64.b64decode(data["image/png"]))).convert("RGB")
    there = np.unique(np.asarray(image).reshape(-1, 3).astype(int), axis=0)
    for color in COLORS[:12]:
        wanted = np.array([int(color[place : place + 2], 16) for place in (1, 3, 5)])
        assert abs(there - wanted).max(axis=1).min() <= 1  # for rounding


@pytest.mark.parametrize("steps", [1, 6, 12, 20, 40, 60, 100, 200])
def test_digits_stay_in_their_cells_and_step_numbers_apart(steps: int) -> None:
    picture = show.fingerprints(run(3, steps, apart_from=2), title="All of them")
    canvas: Any = FigureCanvasAgg(picture.figure)
    canvas.draw()
    renderer, boxes = canvas.get_renderer(), cells(picture)
    assert len(boxes) == 3 * steps
    for text in picture.axes.texts:
        extent, gid = text.get_window_extent(renderer), str(text.get_gid())
        assert extent.x0 >= 0
        assert extent.x1 <= picture.figure.bbox.x1
        if gid.startswith("digits "):
            around = boxes[gid.removeprefix("digits ")].get_window_extent(renderer)
            assert around.x0 < extent.x0 < extent.x1 < around.x1
    numbers = [
        text.get_window_extent(renderer) for text in picture.axes.texts if str(text.get_gid()).startswith("step ")
    ]
    assert all(one.x1 < other.x0 for one, other in itertools.pairwise(sorted(numbers, key=lambda box: box.x0)))


def test_four_digits_give_way_to_two_and_then_to_none() -> None:
    lengths = {
        steps: {len(word) for word in digits(show.fingerprints(run(2, steps))).values()} for steps in (8, 30, 90)
    }
    assert lengths == {8: {4}, 30: {2}, 90: set()}


def test_a_long_title_is_not_cut_off() -> None:
    title = "Two ranks that were told a long story before they were drawn, in two steps only"
    picture = show.fingerprints(run(2, 2), title=title)
    canvas: Any = FigureCanvasAgg(picture.figure)
    canvas.draw()
    (text,) = (text for text in picture.axes.texts if text.get_gid() == "title")
    assert text.get_text() == title
    assert text.get_window_extent(canvas.get_renderer()).x1 <= picture.figure.bbox.x1


def test_many_steps_are_drawn_in_time_and_what_is_left_out_is_said() -> None:
    begin = time.perf_counter()
    picture = show.fingerprints(run(8, 1000, apart_from=100))
    data, _ = picture._repr_mimebundle_()
    assert time.perf_counter() - begin < 20
    assert len(data["image/png"]) < 60_000
    left_out = [text.get_text() for text in picture.axes.texts if "left out" in text.get_text()]
    shown = len(cells(picture)) // 8
    assert left_out == [f"framed: differs from the other ranks at that step; {1000 - shown} further steps left out"]
    assert "... 984 further steps left out" in picture.text
    assert all(len(line) < 120 for line in picture.text.split("\n"))


def test_the_text_has_a_row_per_rank_and_a_star_behind_what_differs() -> None:
    given = run(3, 4, apart_from=2, loner=2)
    (a, b, c, d), (x, y) = (one[:4] for one in given[0]), (one[:4] for one in given[2][2:])
    assert show.fingerprints(given).text.split("\n") == [
        "Fingerprints of 3 ranks at 4 steps: not equal at 2 of them, first at step 2, where rank 2 differs from ranks 0"
        " and 1.",
        "",
        "step   | 0     1     2     3",
        f"rank 0 | {a}  {b}  {c}  {d}",
        f"rank 1 | {a}  {b}  {c}  {d}",
        f"rank 2 | {a}  {b}  {x}* {y}*",
        "* differs from the other ranks at that step",
    ]


@pytest.mark.parametrize(
    ("given", "alt"),
    [
        (run(2, 3), "Fingerprints of 2 ranks at 3 steps: equal at every step."),
        (run(1, 1), "Fingerprints of 1 rank at 1 step: equal at every step."),
        (run(2, 3, 1), "not equal at 2 of them, first at step 1, where rank 1 differs from rank 0."),
        (run(3, 3, 1), "not equal at 2 of them, first at step 1, where no two ranks are equal."),
        (run(4, 9, 5, 0), "not equal at 4 of them, first at step 5, where rank 0 differs from ranks 1, 2 and 3."),
        ([*run(2, 3), *run(1, 2)], "equal at every step. Rank 2 stopped before the last step."),
    ],
)
def test_the_alt_text_says_what_is_to_be_seen(given: list[list[str]], alt: str) -> None:
    picture = show.fingerprints(given)
    assert picture.alt.endswith(alt)
    assert picture.text.startswith(picture.alt)


def test_a_rank_that_stopped_early_has_empty_cells() -> None:
    picture = show.fingerprints([*run(2, 3), *run(1, 2)])
    assert "2 1" in cells(picture)
    assert "2 2" not in cells(picture)


def test_picture_and_words_are_the_same_in_every_run_and_come_from_results_and_exceptions_too() -> None:
    given = run(2, 4, 2)
    results = Results(tuple(given), ([], []), 1.0)
    failure = RuntimeError("a rank failed")
    failure.results = results  # type: ignore[attr-defined]
    pictures = [show.fingerprints(one) for one in (given, results, failure)]
    assert len({picture.text for picture in pictures}) == 1
    assert len({picture._repr_mimebundle_()[0]["image/png"] for picture in pictures}) == 1


@pytest.mark.parametrize(
    ("given", "found"),
    [
        (None, "this is None"),
        ([], "this is []"),
        ([0.5, 0.25], "rank 0 returned 0.5"),
        ([["00ff"], []], "rank 1 returned []"),
        (["00ff", "00ff"], "rank 0 returned '00ff'"),
        ([["00ff"], ["00ff", None]], "the list of rank 1 holds None"),
        ([["hello"]], "the list of rank 0 holds 'hello'"),
        ([["00ff"], [[0.0] * 100]], "the list of rank 1 holds something of type list"),
    ],
)
def test_anything_else_is_refused_with_what_was_found(given: object, found: str) -> None:
    with pytest.raises(TypeError) as refused:
        show.fingerprints(given)
    wanted = "every rank has to return a list with one fingerprint(model) for each step"
    assert str(refused.value) == f"{wanted}, and {found}"
