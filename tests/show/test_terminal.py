"""show.terminal: what a program printed, as words of the page, whose stored text is the same in every run."""

from __future__ import annotations

import html
import re

from ddp_lessons import show


def lines_of(printed: show.Printed) -> list[str]:
    shown = printed._repr_mimebundle_()[0]["text/html"]
    (inside,) = re.findall(r"<pre[^>]*>(.*)</pre>", shown, re.DOTALL)
    return html.unescape(inside).split("\n")


def test_the_lines_are_in_the_page_and_only_the_title_in_the_text() -> None:
    printed = show.terminal("rank 0 is process 17\n\n\t<b>done</b> &amp; $\\alpha$ \x1b[31m", "What two ranks said.")
    assert lines_of(printed) == ["rank 0 is process 17", "", "    <b>done</b> &amp; $\\alpha$  [31m"]
    assert printed.text == printed.alt == repr(printed) == "What two ranks said."
    assert printed._repr_mimebundle_()[0]["text/plain"] == printed.text


def test_lines_may_come_as_a_list_and_there_may_be_none() -> None:
    assert lines_of(show.terminal(["one", "two"])) == ["one", "two"]
    assert lines_of(show.terminal("")) == ["(nothing)"]


def test_of_many_lines_the_first_and_the_last_are_shown_and_long_ones_are_cut() -> None:
    lines = lines_of(show.terminal([f"{number}: " + "x" * 1000 for number in range(1000)]))
    assert len(lines) == 41
    assert lines[20] == "... 960 lines ..."
    assert lines[0].startswith("0: x")
    assert lines[-1].startswith("999: x")
    assert max(map(len, lines)) == 500


def test_a_screen_reader_and_the_keyboard_reach_it() -> None:
    shown = show.terminal("one", 'a "title" & more')._repr_mimebundle_()[0]["text/html"]
    assert 'aria-label="a &quot;title&quot; &amp; more"' in shown
    assert "<figcaption>a &quot;title&quot; &amp; more</figcaption>" in shown
    assert '<pre tabindex="0">' in shown
