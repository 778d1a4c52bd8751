"""show.terminal: what a program printed, as a picture whose stored words are the same in every run."""

from __future__ import annotations

from matplotlib.text import Text

from ddp_lessons import show


def lines_of(picture: show.Picture) -> list[str]:
    texts = [text for text in picture.figure.findobj(Text) if isinstance(text, Text)]
    found = {str(text.get_gid()): text.get_text() for text in texts if str(text.get_gid()).startswith("line ")}
    return [found[f"line {number}"] for number in range(1, len(found) + 1)]


def test_the_lines_are_in_the_picture_and_only_the_title_in_the_text() -> None:
    picture = show.terminal("rank 0 is process 17\n\n\tdone $\\alpha$ \x1b[31m", "What two ranks said.")
    assert lines_of(picture) == ["rank 0 is process 17", "", "    done $\\alpha$  [31m"]
    assert picture.text == picture.alt == "What two ranks said."


def test_lines_may_come_as_a_list_and_there_may_be_none() -> None:
    assert lines_of(show.terminal(["one", "two"])) == ["one", "two"]
    assert lines_of(show.terminal("")) == ["(nothing)"]


def test_of_many_lines_the_first_and_the_last_are_shown_and_long_ones_are_cut() -> None:
    lines = lines_of(show.terminal([f"{number}: " + "x" * 500 for number in range(1000)]))
    assert len(lines) == 41
    assert lines[20] == "... 960 lines ..."
    assert lines[0].startswith("0: x")
    assert lines[-1].startswith("999: x")
    assert max(map(len, lines)) == 124


def test_every_line_fits_into_the_picture() -> None:
    picture = show.terminal(["W" * 200, *"abc"])
    picture._png()  # draws it
    width = picture.figure.bbox.width
    assert all(text.get_window_extent().x1 <= width for text in picture.figure.findobj(Text) if text.get_text())
