"""What is drawn is as large as what was counted: samples, fingerprints, bytes, slots, lines of a log."""

from __future__ import annotations

import itertools
from random import Random
from typing import Any

import pytest
from drawn import Drawn, layouts_of, shown_layout
from figure_catalog import CUT, HELD, figure, pipelined, prints, trials
from torch.utils.data import DistributedSampler

from ddp_lessons import show
from ddp_lessons.machines import Attempt, Said


def boxes(figure: show.Figure, *colors: str) -> list[Drawn]:
    shapes = [shape for shape in shown_layout(figure).shapes if not shape.text]
    return [shape for shape in shapes if {*colors} & {*shape.colors}]


def columns(figure: show.Figure, color: str) -> list[int]:
    """The samples that have this color in a row, each in a column of its own."""
    heads = {shape.text: (shape.left + shape.right) / 2 for shape in shown_layout(figure).texts if shape.bottom < 20}
    marked = [(one.left, one.right) for one in boxes(figure, color) if one.right - one.left > 20]
    return sorted(int(name) for name, x in heads.items() if name.isdigit() if any(a < x < b for a, b in marked))


def test_of_a_shuffle_on_every_rank_the_lost_and_the_repeated_samples_are_marked() -> None:
    given = [Random(rank).sample(range(12), 6) for rank in range(2)]
    never = sorted({*range(12)} - {*given[0], *given[1]})
    twice = sorted({*given[0]} & {*given[1]})
    drawn = show.samples(given, total=12)
    assert (columns(drawn, "s-alarm"), columns(drawn, "f-collective")) == (never, twice)
    assert [columns(drawn, f"f-rank-{rank}") for rank in range(2)] == [sorted(one) for one in given]
    assert drawn.text.splitlines()[2].startswith(f"{100 * (12 - len(never)) / 12:.1f}% of 12 samples seen")


def test_padding_of_torchs_sampler_is_what_was_seen_twice() -> None:
    by_rank: list[Any] = [[*DistributedSampler(range(10), 4, rank)] for rank in range(4)]  # type: ignore[arg-type]
    flat = [*itertools.chain.from_iterable(by_rank)]
    repeated = sorted({sample for sample in flat if flat.count(sample) > 1})
    drawn = show.samples(by_rank, total=10)
    assert columns(drawn, "f-collective") == repeated
    assert drawn.text.splitlines()[-1] == f"twice: {repeated[0]} {repeated[1]}"


def test_equal_fingerprints_have_one_color_and_what_differs_at_a_step_has_another_and_a_sign() -> None:
    drawn = show.fingerprints([prints("a", "b", "b"), prints("a", "c", "d"), prints("a", "b", "b")])
    cells = [shape for shape in shown_layout(drawn).shapes if any("f-rank" in color for color in shape.colors)]
    looks: dict[float, list[Any]] = {}
    for cell in cells:
        looks.setdefault(cell.top, []).append((*cell.colors, cell.opacity))
    first, second, third = looks.values()
    assert first == third
    assert (first[0], first[1]) == (second[0], first[2])
    assert not {second[1], second[2]} & {*first}
    assert sum("≠" in shape.text for shape in shown_layout(drawn).texts) == 2


def test_every_part_of_a_bar_is_as_long_as_it_is_large() -> None:
    for layout in layouts_of(show.memory(HELD)):
        bars = [one for one in layout.shapes if one.bottom - one.top == pytest.approx(13) and "s-" in str(one.colors)]
        rows = [[*row] for _, row in itertools.groupby(bars, lambda one: one.top)]
        scale = (rows[0][0].right - rows[0][0].left) / 800
        found = [[(part.right - part.left) / scale for part in row] for row in rows]
        assert found == [pytest.approx([*held.values()], abs=5) for way in HELD.values() for held in way]


def test_slots_are_those_that_one_works_out_by_hand() -> None:
    drawn = show.pipeline(pipelined(2, 2))
    assert drawn.text.splitlines()[:2] == ["rank 0 | F0 F1 .  .  B0 B1", "rank 1 | .  F0 F1 B0 B1 ."]
    assert drawn.captions[1] == "Step 1 of 6: rank 1 idle."
    assert drawn.captions[-1] == "Step 6 of 6: rank 1 idle. In total, 4 of 12 slots are idle, a bubble of 33%."


@pytest.mark.parametrize(("stages", "batches"), [(2, 1), (3, 2), (4, 8)])
def test_the_bubble_of_a_pipeline_is_what_the_formula_says(stages: int, batches: int) -> None:
    assert (
        f"a bubble of {100 * (stages - 1) / (batches + stages - 1):.0f}%"
        in show.pipeline(pipelined(stages, batches)).text
    )


def test_before_rank_0_there_is_no_store_and_with_the_last_rank_all_have_joined() -> None:
    first, second, last = figure("joining").captions[2:5]
    assert first == "Rank 1 calls init_process_group and waits, because rank 0 has not opened the store yet."
    assert second.endswith("because rank 0 has not opened the store yet.")
    assert last.endswith("after rank 1 and opens the store. 3 of 3 ranks have joined.")


def test_lines_of_a_log_are_told_without_tracebacks_and_folders() -> None:
    told = [shape.text for shape in shown_layout(show.machines(CUT)).texts]
    assert {"hello", "the network link is down", "RuntimeError: [pair.cc:152] Connection refused"} <= {*told}
    assert "Traceback" not in str(told)
    many = show.machines(Attempt((0,), tuple(Said(0, number / 10, f"line {number}") for number in range(100)), 10.0))
    assert "... 81 more lines ..." in [shape.text for shape in shown_layout(many).texts]


def test_of_long_output_the_first_and_the_last_lines_are_shown_and_long_ones_are_cut() -> None:
    content = show.terminal("\n".join(f"{number}: {'x' * 1000}" for number in range(1000)), "Very much").content
    assert "... 960 lines ..." in content
    assert (content.count("\n999: x"), len(content) < 30_000) == (1, True)
    assert "&lt;b&gt;done" in show.terminal("<b>done", "Markup").content


def test_every_field_of_the_table_of_backends_says_what_came_of_its_call() -> None:
    content = figure("what_works").content
    for outcome in {one.outcome for one in trials().all} - {"not tried"}:
        assert content.count(f">{outcome}<") == sum(
            one.outcome == outcome for one in trials().all if one.call in trials().calls
        )
