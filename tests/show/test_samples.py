"""Who saw which sample: what the picture counts is what was given, and what is wrong is seen at once."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
import pytest
import torch
from looks import check_layouts, labels, layouts_of
from torch.utils.data import DistributedSampler

from ddp_lessons import Results, show
from ddp_lessons.show.figures.drawing import Bars, Drawing, Words, color_of_rank, width_of


def shuffled(samples: int, ranks: int, seeds: list[int]) -> list[list[int]]:
    """Each rank's share of the order that it makes with its own seed."""
    shares = []
    for rank in range(ranks):
        order = list(range(samples))
        Random(seeds[rank]).shuffle(order)
        shares.append(order[rank * samples // ranks : (rank + 1) * samples // ranks])
    return shares


def sampled(samples: int, ranks: int, epochs: list[int]) -> list[list[list[int]]]:
    """What PyTorch's own sampler hands out, padding and all."""
    by_rank = []
    for rank in range(ranks):
        sampler: Any = DistributedSampler(range(samples), ranks, rank)  # type: ignore[arg-type]
        by_rank.append([(sampler.set_epoch(epoch), list(sampler))[1] for epoch in epochs])
    return by_rank


def bars(drawing: Drawing, color: str) -> list[list[float]]:
    """What part of each column has this color, in each row that has it."""
    rows = [shape for shape in drawing.shapes if isinstance(shape, Bars)]
    return [[*row.parts] for row in rows if color in (row.fill, row.edge)]


def cells(drawing: Drawing, color: str) -> list[list[int]]:
    """The samples that have this color, in each row that has it; each has a column of its own."""
    return [[sample for sample, part in enumerate(row) if part] for row in bars(drawing, color)]


def row_of(drawing: Drawing, name: str) -> list[str]:
    """The words in the rows of this name, and in the line below these."""
    words = [shape for shape in drawing.shapes if isinstance(shape, Words)]
    places = [shape.y for shape in words if shape.text == name]
    rest = [shape for shape in words if shape.text != name and any(-1 < shape.y - y < 17 for y in places)]
    return [shape.text for shape in rest]


@pytest.mark.parametrize("ranks", [1, 2, 3, 4, 8])
def test_every_rank_has_its_samples_in_its_row_and_color(ranks: int) -> None:
    given = shuffled(16, ranks, [7] * ranks)
    picture = show.samples(given, total=16)
    for layout in layouts_of(picture):
        for rank in range(ranks):
            assert cells(layout, color_of_rank(rank)) == [sorted(given[rank])]
            assert row_of(layout, f"rank {rank}")[0] == str(len(given[rank]))
        assert "every sample seen exactly once" in labels(layout)
    assert picture.text.splitlines()[2] == "every sample seen exactly once"


def test_a_shuffle_of_its_own_on_every_rank_leaves_samples_out_and_repeats_others() -> None:
    given = shuffled(12, 2, [0, 1])
    never = sorted(set(range(12)) - {*given[0], *given[1]})
    twice = sorted({*given[0]} & {*given[1]})
    picture = show.samples(given, total=12)
    times = [str(0 if sample in never else 2 if sample in twice else 1) for sample in range(12)]
    for layout in layouts_of(picture):
        assert cells(layout, "alarm") == [never]
        assert cells(layout, "collective") == [twice]
        assert [word for word in row_of(layout, "times seen") if word.isdecimal()] == times
        summary = [shape.text for shape in layout.shapes if isinstance(shape, Words) and shape.color == "alarm"]
        assert f"{len(never)} never, {len(twice)} twice" in " ".join(summary)
        assert "\u2007".join(["never:", *(str(sample).rjust(2, "\u2007") for sample in never)]) in labels(layout)
    assert f"never: {' '.join(map(str, never))}" in picture.text


@pytest.mark.parametrize(("ranks", "seen"), [(2, 0.75), (3, 0.704), (4, 0.684)])
def test_the_part_of_sixty_thousand_that_was_seen_is_told_and_drawn(ranks: int, seen: float) -> None:
    given = shuffled(60_000, ranks, [*range(ranks)])
    picture = show.samples(given, total=60_000)
    counted = len(set().union(*given))
    assert picture.text.splitlines()[2].startswith(f"{100 * counted / 60_000:.1f} % of 60,000 samples seen")
    assert counted / 60_000 == pytest.approx(seen, abs=0.01)
    for layout in layouts_of(picture):
        (never,) = bars(layout, "alarm")
        assert 60 < len(never) < 200
        assert sum(never) / len(never) == pytest.approx(1 - seen, abs=0.02)


def test_a_single_sample_of_very_many_that_nobody_saw_is_seen() -> None:
    everything_but_one = np.delete(np.arange(60_000), 31_000)
    picture = show.samples([everything_but_one[:30_000], everything_but_one[30_000:]], total=60_000)
    for layout in layouts_of(picture):
        (row,) = (shape for shape in layout.shapes if isinstance(shape, Bars) and shape.fill == "alarm")
        (hole,) = row.boxes()
        assert hole.width > 2
        assert hole.height > 4
        assert "never:\u200731000" in labels(layout)
    assert "99.9 % of 60,000 samples seen, 1 never" in picture.text


def test_padding_of_the_sampler_is_what_was_seen_twice() -> None:
    given = sampled(10, 4, [0])
    flat = [sample for rank in given for sample in rank[0]]
    repeated = sorted(sample for sample in set(flat) if flat.count(sample) > 1)
    picture = show.samples([rank[0] for rank in given], total=10)
    assert len(repeated) == 2
    assert cells(picture.still, "collective") == [repeated]
    assert picture.text.splitlines()[2] == "every sample seen, 2 of 10 twice"
    assert picture.text.splitlines()[-1] == f"twice: {repeated[0]} {repeated[1]}"


def test_epochs_say_whether_their_order_is_a_new_one() -> None:
    picture = show.samples(sampled(12, 2, [0, 0, 1]), total=12)
    assert [one for one in labels(picture.still) if one.startswith("epoch")] == [
        "epoch 0: every sample seen exactly once",
        "epoch 1: every sample seen exactly once; the same order as in epoch 0",
        "epoch 2: every sample seen exactly once; another order than before",
    ]
    for layout in layouts_of(picture):
        orders = [word for word in row_of(layout, "rank 0") if "\u2007" in word]
        assert orders[0] == orders[1] != orders[2]
    assert "epoch 1: every sample seen exactly once; the same order as in epoch 0" in picture.alt


def test_indices_stand_in_the_order_in_which_they_were_seen() -> None:
    picture = show.samples([[3, 10, 1], [0, 2, 11]], total=12)
    for layout in layouts_of(picture):
        assert row_of(layout, "rank 0")[-1].split() == ["3", "10", "1"]
    assert picture.text.splitlines()[3] == "rank 0 |      3 | 3 10 1"


def test_more_epochs_than_there_is_room_for_are_counted() -> None:
    picture = show.samples(sampled(12, 4, [*range(30)]), total=12)
    shown = len(bars(picture.still, color_of_rank(0)))
    assert 2 <= shown < 30
    assert [labels(layout)[-1] for layout in layouts_of(picture)] == [f"{30 - shown} further epochs left out"] * 3
    assert picture.still.height < 1100
    assert "... 22 further epochs left out" in picture.text


def test_a_rank_that_is_behind_has_an_empty_row() -> None:
    picture = show.samples([[[0, 1], [1, 0]], [[2, 3]]], total=4)
    for layout in layouts_of(picture):
        assert cells(layout, color_of_rank(1)) == [[2, 3]]
        assert row_of(layout, "rank 1")[-1] == "had no such epoch (so far)"
    assert "rank 1 | had no such epoch" in picture.text
    assert "epoch 1: 50.0 % of 4 samples seen, 2 never" in picture.text


def test_a_rank_that_sees_a_sample_twice_itself_is_counted_so() -> None:
    picture = show.samples([[0, 0, 0, 1]], total=3)
    assert [word for word in row_of(picture.still, "times seen") if word.isdecimal()] == ["3", "1", "0"]
    assert row_of(picture.still, "rank 0")[:2] == ["3", "4"]  # written into the cell of sample 0; all that it saw
    assert "1 twice or more" in picture.text


def test_nothing_seen_is_said() -> None:
    assert show.samples([[], []]).text == "No rank saw any sample."
    assert "0.0 % of 4 samples seen, 4 never" in show.samples([[], []], total=4).text


@pytest.mark.parametrize(
    ("ranks", "samples", "epochs"), [(1, 1, 1), (2, 10, 1), (3, 30, 3), (8, 24, 2), (8, 100, 3), (4, 5000, 1)]
)
def test_texts_stand_apart(ranks: int, samples: int, epochs: int) -> None:
    check_layouts(show.samples(sampled(samples, ranks, [*range(epochs)]), samples, title="A title"))
    check_layouts(show.samples(shuffled(samples, ranks, [*range(ranks)]), samples))


def test_names_of_rows_end_before_their_cells_begin() -> None:
    for layout in layouts_of(show.samples(shuffled(24, 2, [0, 1]), total=24)):
        names = [one for one in layout.shapes if isinstance(one, Words) and one.text in ("times seen", "rank 0")]
        first = min(shape.x for shape in layout.shapes if isinstance(shape, Bars))
        assert len(names) == 2
        assert max(name.x + width_of(name.text, name.size) for name in names) < first


def test_results_exceptions_tensors_arrays_and_ranges_are_welcome() -> None:
    lists = [[0, 1, 2], [3, 4, 5]]
    failure = RuntimeError("a rank failed")
    failure.results = Results(tuple(lists), ([], []), 1.0)  # type: ignore[attr-defined]
    others: list[Any] = [failure, [torch.tensor(one) for one in lists], [np.array(one) for one in lists]]
    others += [[range(3), range(3, 6)], [tuple(one) for one in lists]]
    assert {show.samples(one).text for one in others} == {show.samples(lists).text}


@pytest.mark.parametrize(
    ("given", "found"),
    [
        (None, "this is None"),
        ([], r"this is \[\]"),
        ("01", "this is '01'"),
        ([1, 2], "rank 0 returned 1"),
        ([[0, 1], None], "rank 1 returned None"),
        ([[0.5, 1.5]], r"rank 0 returned \[0.5, 1.5\]"),
        ([["a"]], r"rank 0 returned \['a'\]"),
        ([[[0, 1], 2]], r"rank 0 returned 2"),
        ([[True, False]], r"rank 0 returned \[True, False\]"),
    ],
)
def test_anything_else_is_refused_with_what_was_found(given: object, found: str) -> None:
    with pytest.raises(TypeError, match=f"every rank has to return the list of the indices that it saw.*{found}"):
        show.samples(given)


def test_indices_outside_of_the_data_are_refused() -> None:
    with pytest.raises(ValueError, match="10 samples are numbered from 0 to 9, and rank 1 saw sample 10"):
        show.samples([[0], [10]], total=10)
    with pytest.raises(ValueError, match="at least 0, and rank 0 saw sample -1"):
        show.samples([[-1]])
    with pytest.raises(ValueError, match="at least 1, not 0"):
        show.samples([[]], total=0)
