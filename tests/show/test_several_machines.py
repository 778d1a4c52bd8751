"""The picture of what several machines said: its marks are the lines' moments, and its text never changes."""

from __future__ import annotations

import pytest
from looks import check_that_texts_stand_apart, lines_of, words

from ddp_lessons import show
from ddp_lessons.machines import Attempt, Said, attempt, live_or_recorded

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


def test_each_line_is_a_mark_at_its_moment_in_the_lane_of_its_machine() -> None:
    axes = show.machines(TWO).axes
    assert lines_of(axes, "said 0") == [([1.0], [0])]
    assert lines_of(axes, "said 1") == [([1.5, 1.5, 2.0], [1, 1, 1])]


def test_the_lines_are_shown_without_the_way_to_an_error() -> None:
    picture = show.machines(TWO, "A title")
    assert words(picture, "line") == ["hello", "RuntimeError: [pair.cc:152] Connection refused"]
    assert words(picture, "ending") == ["ended well", "ended with 1"]
    assert words(picture, "title") == ["A title"]
    check_that_texts_stand_apart(picture)


def test_what_happened_to_a_machine_is_marked_in_its_lane_and_told_among_the_lines() -> None:
    cut = Attempt(
        (0, 0), (Said(0, 2.0, "later"),), 4.0, happened=(Said(1, 1.0, "the cable is pulled out"), Said(1, 1.5, "back"))
    )
    picture = show.machines(cut)
    assert lines_of(picture.axes, "happened 1") == [([1.0, 1.5], [1, 1])]
    assert lines_of(picture.axes, "happened 0") == []
    assert words(picture, "line") == ["the cable is pulled out", "back", "later"]
    check_that_texts_stand_apart(picture)


def test_of_a_file_in_a_message_no_folder_is_shown() -> None:
    lines = [
        ("/a/machine/s/own/torch/launch.py:207: FutureWarning: old", "launch.py:207: FutureWarning: old"),
        ("W1 torch/distributed/elastic/dynamic_rendezvous.py:1314] gone", "W1 dynamic_rendezvous.py:1314] gone"),
        ("asked tcp://machine0.here:29500/a", "asked tcp://machine0.here:29500/a"),
    ]
    attempt = Attempt((0,), tuple(Said(0, 1.0, line) for line, _ in lines), 1.0)
    assert words(show.machines(attempt), "line") == [shown for _, shown in lines]


def test_what_gloo_notes_before_it_raises_is_left_out() -> None:
    note = "[/a/gloo/transport/tcp/debug_logger.cc:9] ERROR failed to connect, willRetry=1"
    noted = Attempt((1,), (Said(0, 1.0, note), Said(0, 1.0, "RuntimeError: refused")), 1.0)
    assert words(show.machines(noted), "line") == ["RuntimeError: refused"]


def test_a_job_s_other_machines_say_that_they_have_no_status_of_their_own() -> None:
    job = Attempt((0,), (Said(0, 1.0, "rank 0"), Said(1, 1.0, "rank 1")), 2.0)
    assert words(show.machines(job), "ending") == ["ended well", "of the same job"]


def test_the_caption_says_how_to_get_the_text() -> None:
    alt = show.machines(TWO).alt
    assert "Print what you gave to show.machines" in alt
    assert "print(attempt)" not in alt  # in the lesson that is the function


def test_it_says_whether_it_was_live_or_recorded() -> None:
    assert words(show.machines(TWO), "origin") == ["live, on this machine"]
    assert words(show.machines(TWO.as_recorded("Linux, torch 9")), "origin") == ["recorded (Linux, torch 9)"]


def test_text_and_caption_are_the_same_live_or_recorded() -> None:
    other = Attempt((None,), (Said(0, 9.0, "other words"),), 9.9).as_recorded("elsewhere")
    assert show.machines(TWO, "A title").text == show.machines(other, "A title").text
    assert show.machines(TWO, "A title").alt == show.machines(other, "A title").alt


def test_of_very_many_lines_the_first_and_the_last_are_shown() -> None:
    many = Attempt((0,), tuple(Said(0, number / 10, f"line {number}") for number in range(100)), 10.0)
    picture = show.machines(many)
    shown = words(picture, "line")
    assert (shown[0], shown[-1], len(shown)) == ("line 0", "line 99", 19)
    check_that_texts_stand_apart(picture)


@pytest.mark.parametrize("name", sorted(file.stem for file in live_or_recorded.RECORDINGS.glob("*.json")))
def test_every_recording_makes_a_picture_in_which_nothing_covers_anything(name: str) -> None:
    check_that_texts_stand_apart(show.machines(live_or_recorded.recall(name, ""), name))


def test_something_else_is_refused() -> None:
    with pytest.raises(TypeError, match="draws what attempt\\(\\) returned, and this is of type list"):
        show.machines([])  # type: ignore[arg-type]
    assert callable(attempt)


def test_of_a_rank_that_torchrun_started_the_error_is_shown_without_the_way_there() -> None:
    lines = ["[rank0]: Traceback (most recent call last):", "[rank0]:   File x", "[rank0]: RuntimeError: reset by peer"]
    said = tuple(Said(0, number, line) for number, line in enumerate(lines))
    assert words(show.machines(Attempt((1,), said, 3.0)), "line") == ["[rank0]: RuntimeError: reset by peer"]


def test_a_long_way_to_a_file_is_left_out() -> None:
    said = (Said(0, 1.0, "failed: /a/long/way/bin/python, see http://a/b/c and 10.0.0.1/24"),)
    (line,) = words(show.machines(Attempt((1,), said, 3.0)), "line")
    assert line == "failed: python, see http://a/b/c and 10.0.0.1/24"
