"""Equal models have equal colors, and what differs is seen without color too."""

from __future__ import annotations

import hashlib
import json

import pytest
from looks import check_layouts, labels, layouts_of

from ddp_lessons import Results, show
from ddp_lessons.show.figures.drawing import DARK, LIGHT, MOST_DATA, RANKS, Box, Drawing, Line, Words
from ddp_lessons.show.page.picture import contrast
from ddp_lessons.show.trainings.fingerprint_rows import COLORS, HEAD, LEFT, ROW, Color


def print_of(*state: object) -> str:
    return hashlib.blake2b(repr(state).encode(), digest_size=4).hexdigest()


def run(ranks: int, steps: int, apart_from: int = 1000, loner: int | None = None) -> list[list[str]]:
    """All ranks are equal, until one of them, or all, go their own way."""
    return [
        [print_of(step, rank if step >= apart_from and loner in (None, rank) else "all") for step in range(steps)]
        for rank in range(ranks)
    ]


def boxes(drawing: Drawing) -> dict[tuple[int, int], Box]:
    """By rank and step."""
    found = [shape for shape in drawing.shapes if isinstance(shape, Box)]
    steps = sorted({box.x for box in found})
    return {(int((box.y - HEAD) // ROW), steps.index(box.x)): box for box in found}


def colors(drawing: Drawing) -> dict[tuple[int, int], Color]:
    return {place: (box.fill, box.opacity) for place, box in boxes(drawing).items()}


def inside(drawing: Drawing, place: tuple[int, int]) -> tuple[list[Line], list[str]]:
    """The frames and the words in a cell."""
    box = boxes(drawing)[place]

    def is_in(points: list[tuple[float, float]]) -> bool:
        right, bottom = box.x + box.width, box.y + box.height
        return all(box.x < x < right and box.y < y < bottom for x, y in points)

    frames = [shape for shape in drawing.shapes if isinstance(shape, Line) and is_in([*shape.points])]
    return frames, [shape.text for shape in drawing.shapes if isinstance(shape, Words) and is_in([(shape.x, shape.y)])]


def test_equal_states_have_one_color_and_different_ones_of_a_step_have_not() -> None:
    shown = colors(show.fingerprints(run(4, 12, apart_from=3)).still)
    assert len(shown) == 4 * 12
    for step in range(12):
        column = {shown[rank, step] for rank in range(4)}
        assert len(column) == (1 if step < 3 else 4)


def test_a_state_keeps_its_color_at_another_step() -> None:
    a, b, c = print_of("a"), print_of("b"), print_of("c")
    shown = colors(show.fingerprints([[a, b, c], [a, a, b]]).still)
    assert shown[0, 0] == shown[1, 0] == shown[1, 1]
    assert shown[0, 1] == shown[1, 2] != shown[0, 0]


def test_states_whose_hashes_choose_one_color_are_told_apart_at_a_step() -> None:
    same_choice = [f"{number:08x}" for number in range(5, 5 + 4 * len(COLORS), len(COLORS))]
    assert len({*colors(show.fingerprints([[one] for one in same_choice]).still).values()}) == 4


def test_what_differs_has_a_frame_a_sign_and_other_digits_so_that_no_color_is_needed() -> None:
    given = run(3, 6, apart_from=2, loner=1)
    picture = show.fingerprints(given)
    for layout, most in zip(layouts_of(picture), (2, 4), strict=True):
        for rank, step in boxes(layout):
            frames, words = inside(layout, (rank, step))
            is_odd = rank == 1 and step >= 2
            assert [frame.color for frame in frames] == ["ink"] * is_odd
            assert words == [("≠ " + given[rank][step][:most]) if is_odd else given[rank][step][:4]]
        assert labels(layout)[-1] == "framed: differs from the other ranks at that step"


@pytest.mark.parametrize("paper", [LIGHT, LIGHT | DARK], ids=["light", "dark"])
def test_digits_on_every_color_can_be_read_and_no_color_is_one_of_a_rank(paper: dict[str, str]) -> None:
    for name, opacity in COLORS:
        parts = [
            round(opacity * int(RANKS[name][at : at + 2], 16) + (1 - opacity) * int(paper["paper"][at : at + 2], 16))
            for at in (1, 3, 5)
        ]
        assert contrast("#" + "".join(f"{part:02x}" for part in parts), paper["ink"]) >= 4.5
        assert opacity < 1
    assert len({*COLORS}) == len(COLORS)


@pytest.mark.parametrize("steps", [1, 6, 12, 20, 40, 60, 100, 200])
def test_digits_stay_in_their_cells_and_step_numbers_apart(steps: int) -> None:
    picture = show.fingerprints(run(3, steps, apart_from=2), title="All of them")
    check_layouts(picture)
    for layout in layouts_of(picture):
        assert len(boxes(layout)) % 3 == 0
        words = [one for one in layout.shapes if isinstance(one, Words) and one.x > LEFT and one.y > HEAD]
        in_cells = [word for place in boxes(layout) for word in inside(layout, place)[1]]
        assert sorted(in_cells) == sorted(one.text for one in words if one.anchor == "middle")
    assert len(boxes(picture.still)) == 3 * min(steps, 86)


def test_four_digits_give_way_to_two_and_then_to_none_in_all_cells_at_once() -> None:
    def shown(steps: int) -> set[int]:
        still = show.fingerprints(run(2, steps)).still
        return {len(word) for place in boxes(still) for word in inside(still, place)[1]}

    assert [shown(steps) for steps in (8, 26, 60)] == [{4}, {2}, set()]


def test_a_long_title_is_not_cut_off() -> None:
    title = 2 * "Two ranks that were told a long story before they were drawn, in two steps only"
    picture = show.fingerprints(run(2, 2), title=title)
    check_layouts(picture)
    assert labels(picture.still)[0] == title


def test_many_steps_are_drawn_in_time_and_what_is_left_out_is_said() -> None:
    picture = show.fingerprints(run(8, 1000, apart_from=100))
    assert len(json.dumps(picture.document, separators=(",", ":"))) < MOST_DATA
    for layout in layouts_of(picture):
        shown = len(boxes(layout)) // 8
        assert " ".join(labels(layout)).endswith(f"{1000 - shown} further steps left out")
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
    assert (2, 1) in boxes(picture.still)
    assert (2, 2) not in boxes(picture.still)


def test_picture_and_words_are_the_same_in_every_run_and_come_from_results_and_exceptions_too() -> None:
    given = run(2, 4, 2)
    results = Results(tuple(given), ([], []), 1.0)
    failure = RuntimeError("a rank failed")
    failure.results = results  # type: ignore[attr-defined]
    pictures = [show.fingerprints(one) for one in (given, results, failure)]
    assert len({picture.text for picture in pictures}) == 1
    assert len({picture.svg for picture in pictures}) == 1


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
