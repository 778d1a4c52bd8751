"""The card of a report has the words of its text, safely, and shows what they mean: marks, ranks, tables and bars."""

from __future__ import annotations

import re
from collections.abc import Callable
from html.parser import HTMLParser

import pytest
import torch.distributed as dist
from nights import by_day
from torch import Tensor

from ddp_lessons import check
from ddp_lessons.check import Report, progress_file
from ddp_lessons.check.report import not_right, table
from ddp_lessons.record.colors import rank_color
from ddp_lessons.train.ring import ring_all_reduce


class Card(HTMLParser):
    """The words of a card in their order, what they stand in, and whether every element is closed."""

    def __init__(self, report: Report) -> None:
        super().__init__()
        self.html = report._repr_html_()
        self.open: list[str] = []
        self.words: list[str] = []
        self.inside: dict[str, list[str]] = {}
        self.feed(self.html)
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: object) -> None:
        if tag != "br":
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if "style" not in self.open:
            self.words += data.split()
            for tag in self.open:
                self.inside.setdefault(tag, []).append(data)


def both_send_first(tensor: Tensor) -> Tensor:
    partner = dist.get_rank() ^ 1
    dist.send(tensor, partner)
    dist.recv(tensor, partner)
    return tensor


REPORTS: dict[str, Callable[[], Report]] = {
    "passed": lambda: check.ring_all_reduce(ring_all_reduce),
    "stuck": lambda: check.exchange(both_send_first),
    "to read": lambda: check.reading(4),
    "read": lambda: check.reading(4, line=3),
    "table": lambda: not_right("shard", "It has", ["    2 ranks", *table([("", "yours"), ("[0]", "1")])]),
}


@pytest.mark.parametrize("name", by_day(REPORTS, 1))
def test_it_has_every_word_of_the_text_in_the_same_order(name: str) -> None:
    report = REPORTS[name]()
    mark, *words = Card(report).words
    assert mark in "✓✗○"
    assert "".join(words) == re.sub(r"[\s`]", "", report.text)


def test_each_verdict_has_a_mark_of_its_own() -> None:
    marks = [Card(Report("x", False, verdict)).words[0] for verdict in ("passed", "not right yet", "not started yet")]
    assert marks == ["✓", "✗", "○"]
    assert Card(Report("x", False, "cannot be checked here")).words[0] == "○"


def test_a_rank_has_its_color_and_its_line_is_code() -> None:
    card = Card(REPORTS["stuck"]())
    assert f'style="border-color:{rank_color(1)}">rank 1</span>' in card.html
    assert "dist.send(tensor, partner)" in card.inside["code"]
    assert card.html.count("partner)</code>)") == 2  # the bracket round the place is none of the program's


def test_a_program_to_read_keeps_its_lines() -> None:
    program = "".join(Card(REPORTS["to read"]()).inside["pre"])
    assert program.splitlines()[1] == " 2      right = (rank + 1) % world_size"


def test_traffic_has_bars_as_long_as_its_numbers() -> None:
    rows = [
        ("traffic of 2 ranks", "yours", "textbook"),
        ("bytes", "2,000", "500"),
        ("in multiples of the tensor", "2.00", "0.50"),
    ]
    card = Card(not_right("exchange", "It moves too much.", table(rows)))
    assert re.findall(r"width:([\d.]+)em", card.html) == ["8.00", "2.00"]
    assert card.html.count('scope="col"') == 3
    assert card.html.count('scope="row"') == 2


def test_a_table_after_another_has_a_head_of_its_own() -> None:
    rows = [*table([("", "yours"), ("a", "1")]), *table([("step", "rank 0"), ("0", "ab")])]
    card = Card(Report("x", False, "not right yet", "", tuple(rows)))
    assert card.html.count("<table>") == card.html.count("<thead>") == 2


def test_what_a_learner_raises_cannot_bring_markup() -> None:
    card = Card(not_right("shard", "It raised <script>alert(1)</script>.", ["    rank 0 <img src=x>", "     1  <b>"]))
    assert "<script" not in card.html
    assert "<img" not in card.html
    assert "<b>" not in card.html


@pytest.mark.parametrize("time", [1, 2])
def test_a_try_in_one_test_is_none_in_another(time: int) -> None:
    assert progress_file.keep("exchange", passed=False).tries == 1
