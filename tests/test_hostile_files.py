"""Tickets and shared files that are meant to do harm: none costs the others, time, memory or a terminal."""

from __future__ import annotations

import csv
import json
import os
import time
from pathlib import Path

import pytest
from nights import by_day
from test_ticket import a_ticket

from ddp_lessons.workshop import progress_table
from ddp_lessons.workshop.ticket_table import collect

pytestmark = pytest.mark.no_second_try

BEGIN = '{"ddp-lessons-ticket": '
SLOW = {
    "spaces.txt": BEGIN + " " * 4_000_000 + ".",
    "lines.txt": f"{BEGIN}\n" * 200_000,
    "names.txt": " :" * 1_000_000 + BEGIN,
    "nested.json": BEGIN + "[" * 4_000_000,
    "words.txt": BEGIN * 100_000,
}


@pytest.fixture
def sent(tmp_path: Path) -> Path:
    """A folder in which one honest ticket lies."""
    (tmp_path / "Ann.json").write_text(f"{a_ticket()}\n")
    return tmp_path


@pytest.mark.parametrize("name", by_day(SLOW, 1))
def test_no_file_takes_more_than_a_moment(name: str, sent: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (sent / name).write_text(SLOW[name])
    begin = time.process_time()
    collect(os.fspath(sent))
    assert time.process_time() - begin < 10
    assert "Ann " in capsys.readouterr().out


def test_a_file_that_is_not_one_is_left_out_and_named(sent: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (sent / "large.txt").touch()
    os.truncate(sent / "large.txt", 3_000_000_000)
    (sent / "link.txt").symlink_to("/etc/passwd")
    (sent / "loop.txt").symlink_to("loop.txt")
    collect(os.fspath(sent))
    said = capsys.readouterr()
    assert "1 ticket: 1 ready" in said.out
    assert said.err.splitlines() == [
        "large.txt could not be read: it is larger than 5 MB",
        "link.txt could not be read: it is a link that leads out of this folder",
    ]


def test_nothing_of_a_ticket_or_a_file_s_name_moves_a_terminal(sent: Path, capsys: pytest.CaptureFixture[str]) -> None:
    codes = "\x1b[2J\x1b]0;mine\x07\x9b31m\u202e"
    hostile = str(a_ticket(system=f"Linux{codes}-x", torch="9" * 250, problems=f"gloo({codes})"))
    (sent / f"mal{codes}.txt").write_text(f"{codes}Mal{codes} {hostile}\n")
    (sent / f"bad{codes}.txt").symlink_to("/etc/passwd")
    collect(os.fspath(sent))
    said = capsys.readouterr()
    assert "mal" in said.out.casefold()
    assert all(letter.isprintable() or letter == "\n" for letter in said.out + said.err)


def test_every_cell_for_a_spreadsheet_is_quoted_and_none_begins_a_formula(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    signs = "=1+1 +1 -1 @SUM(1) \uff1d1 \uff0b1 \uff0d1 \uff201 <script>alert(1)</script>".split()
    names = [*signs, "\t=1", "\u202eAnn\r\n=2"]
    for number, name in enumerate(names):
        content = {"course": "ddp-lessons", "format": 1, "name": name, "exercises": {name: {"tries": 1}}}
        (tmp_path / f"=\x1b[2J{number}.json").write_text(json.dumps(content))
    assert progress_table.collect(os.fspath(tmp_path), os.fspath(tmp_path / "table.csv")) == 0
    text = (tmp_path / "table.csv").read_text(encoding="utf-8-sig")
    cells = [cell for row in csv.reader(text.splitlines()) for cell in row]
    assert {cell[:1] for cell in cells} <= {"'", "", "<", "A", *"abcdefghijklmnopqrstuvwxyz0123456789"}
    assert all(line.startswith('"') and line.endswith('"') for line in text.splitlines())
    assert all(letter.isprintable() or letter == "\n" for letter in text + capsys.readouterr().out)
