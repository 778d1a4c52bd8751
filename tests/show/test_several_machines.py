"""The picture of what several machines said: its marks are the lines' moments, and its text never changes."""

from __future__ import annotations

import pytest
from looks import check_layouts, labels, layouts_of

from ddp_lessons import show
from ddp_lessons.machines import Attempt, Said, attempt, live_or_recorded
from ddp_lessons.show.figures.drawing import Bars, Box, Drawing, Line, Words, color_of_rank
from ddp_lessons.show.programs.several_machines import WORDS

TWO = Attempt(
    (0, 1),
    (
        Said(0, 1.0, "hello"),
        Said(1, 1.5, "Traceback (most recent call last):"),
        Said(1, 1.5, "  File x"),
        Said(1, 2.0, "RuntimeError: [/a/long/way/pair.cc:152] Connection refused"),
    ),
    4.0,
)


def lines(drawing: Drawing) -> list[str]:
    """Below the lanes, each in as many rows as it needs."""
    return [shape.text for shape in drawing.shapes if isinstance(shape, Words) and shape.x == WORDS]


def shown_lines(attempt: Attempt) -> list[str]:
    return lines(show.machines(attempt).still)


def moments(drawing: Drawing, machine: int, seconds: float) -> list[float]:
    """When there is a mark in the lane of this machine."""
    lane = [box for box in drawing.shapes if isinstance(box, Box) and box.fill == "band"][machine]
    marks = [bars for bars in drawing.shapes if isinstance(bars, Bars) and bars.fill == color_of_rank(machine)]
    ticks = [(box.x + box.width / 2, box.y) for bars in marks for box in bars.boxes()]
    crosses = [shape for shape in drawing.shapes if isinstance(shape, Line) and shape.color == "alarm"][::2]
    ticks += [((one.points[0][0] + one.points[1][0]) / 2, one.points[1][1]) for one in crosses]
    here = [x for x, y in ticks if lane.y <= y <= lane.y + lane.height]
    return [seconds * (x - lane.x) / lane.width for x in here]


def test_each_line_is_a_mark_at_its_moment_in_the_lane_of_its_machine() -> None:
    for layout in layouts_of(show.machines(TWO)):
        assert moments(layout, 0, 4) == pytest.approx([1], abs=0.03)
        assert moments(layout, 1, 4) == pytest.approx([1.5, 2], abs=0.03)


def test_the_lines_are_shown_without_the_way_to_an_error() -> None:
    picture = show.machines(TWO, "A title")
    for layout in layouts_of(picture):
        assert " ".join(lines(layout)) == "hello RuntimeError: [pair.cc:152] Connection refused"
        assert [word for word in labels(layout) if word.startswith("ended")] == ["ended well", "ended with 1"]
    assert picture.document["title"] == labels(picture.still)[0] == "A title"
    check_layouts(picture)


def test_what_happened_to_a_machine_is_marked_in_its_lane_and_told_among_the_lines() -> None:
    cut = Attempt(
        (0, 0), (Said(0, 2.0, "later"),), 4.0, happened=(Said(1, 1.0, "the network link is down"), Said(1, 1.5, "back"))
    )
    picture = show.machines(cut)
    for layout in layouts_of(picture):
        assert moments(layout, 1, 4) == pytest.approx([1, 1.5], abs=0.03)
        assert moments(layout, 0, 4) == pytest.approx([2], abs=0.03)
        assert lines(layout) == ["the network link is down", "back", "later"]
    check_layouts(picture)


def test_of_a_file_in_a_message_no_folder_is_shown() -> None:
    said = [
        ("/a/machine/s/own/torch/launch.py:207: FutureWarning: old", "launch.py:207: FutureWarning: old"),
        ("W1 torch/distributed/elastic/dynamic_rendezvous.py:1314] gone", "W1 dynamic_rendezvous.py:1314] gone"),
        ("asked tcp://machine0.here:29500/a", "asked tcp://machine0.here:29500/a"),
    ]
    attempt = Attempt((0,), tuple(Said(0, 1.0, line) for line, _ in said), 1.0)
    assert shown_lines(attempt) == [shown for _, shown in said]


def test_what_gloo_notes_before_it_raises_is_left_out() -> None:
    note = "[/a/gloo/transport/tcp/debug_logger.cc:9] ERROR failed to connect, willRetry=1"
    noted = Attempt((1,), (Said(0, 1.0, note), Said(0, 1.0, "RuntimeError: refused")), 1.0)
    assert shown_lines(noted) == ["RuntimeError: refused"]


def test_a_job_s_other_machines_say_that_they_have_no_status_of_their_own() -> None:
    job = Attempt((0,), (Said(0, 1.0, "rank 0"), Said(1, 1.0, "rank 1")), 2.0)
    for layout in layouts_of(show.machines(job)):
        assert {"ended well", "of the same job"} <= {*labels(layout)}


def test_the_caption_says_how_to_get_the_text() -> None:
    alt = show.machines(TWO).alt
    assert "Print what you gave to show.machines" in alt
    assert "print(attempt)" not in alt  # in the lesson that is the function


def test_it_says_whether_it_was_live_or_recorded() -> None:
    assert [labels(layout)[0] for layout in layouts_of(show.machines(TWO))] == ["live, on this machine"] * 3
    assert labels(show.machines(TWO.as_recorded("Linux, torch 9")).still)[0] == "recorded (Linux, torch 9)"


def test_text_and_caption_are_the_same_live_or_recorded() -> None:
    other = Attempt((None,), (Said(0, 9.0, "other words"),), 9.9).as_recorded("elsewhere")
    assert show.machines(TWO, "A title").text == show.machines(other, "A title").text
    assert show.machines(TWO, "A title").alt == show.machines(other, "A title").alt


def test_of_very_many_lines_the_first_and_the_last_are_shown() -> None:
    many = Attempt((0,), tuple(Said(0, number / 10, f"line {number}") for number in range(100)), 10.0)
    picture = show.machines(many)
    for layout in layouts_of(picture):
        shown = lines(layout)
        assert (shown[0], shown[9], shown[-1], len(shown)) == ("line 0", "... 81 more lines ...", "line 99", 20)
    check_layouts(picture)


def test_a_very_long_line_has_some_rows_and_ends_where_it_is_cut() -> None:
    said = Said(0, 1.0, " ".join(f"word{number}" for number in range(200)))
    picture = show.machines(Attempt((0,), (said,), 2.0))
    check_layouts(picture)
    for layout in layouts_of(picture):
        assert len(lines(layout)) == 4
        assert lines(layout)[-1].endswith("…")


@pytest.mark.parametrize("name", sorted(file.stem for file in live_or_recorded.RECORDINGS.glob("*.json")))
def test_every_recording_makes_a_picture_in_which_nothing_covers_anything(name: str) -> None:
    recording = live_or_recorded.recall(name, "")
    check_layouts(show.machines(recording, name) if isinstance(recording, Attempt) else show.traffic(recording))


def test_something_else_is_refused() -> None:
    with pytest.raises(TypeError, match="draws what attempt\\(\\) returned, and this is of type list"):
        show.machines([])  # type: ignore[arg-type]
    assert callable(attempt)


def test_of_a_rank_that_torchrun_started_the_error_is_shown_without_the_way_there() -> None:
    told = ["[rank0]: Traceback (most recent call last):", "[rank0]:   File x", "[rank0]: RuntimeError: reset by peer"]
    said = tuple(Said(0, number, line) for number, line in enumerate(told))
    assert shown_lines(Attempt((1,), said, 3.0)) == ["[rank0]: RuntimeError: reset by peer"]


def test_a_long_way_to_a_file_is_left_out() -> None:
    said = (Said(0, 1.0, "failed: /a/long/way/bin/python, see http://a/b/c and 10.0.0.1/24"),)
    (line,) = shown_lines(Attempt((1,), said, 3.0))
    assert line == "failed: python, see http://a/b/c and 10.0.0.1/24"
