"""What passes is kept for the learner, survives what files meet with, and is shared only when the learner shares it."""

from __future__ import annotations

import contextlib
import csv
import datetime
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
from nights import nightly
from notebook_session import NotebookSession

from ddp_lessons import check
from ddp_lessons.__main__ import main
from ddp_lessons.check import Report, progress_file
from ddp_lessons.check.dashboard import LESSON_OF, LESSONS, counted
from ddp_lessons.check.progress_file import Entry, as_text, read
from ddp_lessons.train import point_to_point

ROOT = Path(__file__).parent.parent
VARIABLE = "DDP_LESSONS_PROGRESS"
NO_PROGRESS = {
    "empty": "",
    "cut off": as_text({"swap": Entry(3, "2026-05-04")})[:-5],
    "another program's": '{"cells": []}',
    "large": '{"exercises": {}, "name": "' + "A" * (1 << 21) + '"}',
    "deep": '{"exercises": ' + "[" * 100_000,
    "more tries than anyone has": '{"exercises": {"swap": {"tries": 1' + "0" * 400 + "}}}",
    "no day": '{"exercises": {"swap": {"tries": 1, "passed": "\\u001b[2J<b>"}}}',
}
STUCK = "Stuck? Open the hints of this exercise."


@pytest.fixture(autouse=True)
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "mine" / "progress.json"
    monkeypatch.setenv(VARIABLE, os.fspath(path))
    return path


def tries_in(path: Path) -> dict[str, int]:
    return {exercise: entry.tries for exercise, entry in read(path).items()}


def judged(verdict: str, exercise: str = "swap") -> Report:
    """The report of a check with this outcome, which counts."""
    return counted(exercise, print, None, lambda: Report(exercise, verdict == "passed", verdict, "It hangs."))


def test_tries_count_up_to_the_first_that_passes_and_other_entries_stay(file: Path) -> None:
    file.parent.mkdir()
    file.write_text(as_text({"of_2030": Entry(7)}), encoding="utf-8-sig")  # as some editors do
    for line, shown in ((2, "tried    1 try"), (3, "passed   20.*, 2 tries"), (7, "passed   20.*, 2 tries")):
        check.reading(4, line=line)
        assert re.search(rf"\n    reading\(4\) +{shown}\n", check.progress().text)
    assert tries_in(file) == {"of_2030": 7, "reading(4)": 2}
    assert check.progress().headline == f"Exercises: 1 of {len(LESSON_OF)} passed"


@nightly
def test_what_nobody_has_written_is_no_try(file: Path) -> None:
    def not_begun(tensor: torch.Tensor) -> None: ...

    def exchange(tensor: torch.Tensor) -> torch.Tensor:
        received, peer = torch.zeros_like(tensor), 1 - dist.get_rank()
        calls = [dist.P2POp(dist.isend, tensor, peer), dist.P2POp(dist.irecv, received, peer)]
        for work in dist.batch_isend_irecv(calls):
            work.wait()
        return received

    assert check.exchange(not_begun).verdict == "not started yet"
    check.reading(4)  # it only asks
    check.reading(1, line=5)  # for training, and in no lesson's list
    assert check.exchange(point_to_point.exchange).passed  # the solution
    assert not file.exists()
    assert check.exchange(exchange).passed
    assert tries_in(file) == {"exchange": 1}


@nightly
def test_in_a_notebook_a_given_program_counts_once_it_is_changed(file: Path) -> None:
    (lesson,) = (ROOT / "notebooks").glob("11_*.ipynb")
    cells = ["".join(cell["source"]) for cell in json.loads(lesson.read_text(encoding="utf-8"))["cells"]]
    (program,) = (source for source in cells if "check.swap(swap)" in source)
    waits = "    dist.send(tensor, partner)\n    dist.recv(received, partner)\n"
    with NotebookSession({VARIABLE: os.fspath(file)}) as notebook:
        notebook.run("import torch, torch.distributed as dist\nfrom ddp_lessons import check")
        assert "not right yet" in notebook.run(program).value
        assert " tried" not in notebook.run("check.progress()").value
        repaired = "    sending = dist.isend(tensor, partner)\n    dist.recv(received, partner)\n    sending.wait()\n"
        assert "passed" in notebook.run(program.replace(waits, repaired)).value
        assert re.search(r"swap +passed .* 1 try", notebook.run("check.progress()").value)
    assert tries_in(file) == {"swap": 1}


COUNT = """
from ddp_lessons.check import progress_file
for _ in range(10):
    progress_file.keep("exchange", False)
    progress_file.keep("swap", True)
"""


def test_several_notebooks_count_at_once_and_the_file_is_whole_at_every_moment(file: Path) -> None:
    counting = [subprocess.Popen([sys.executable, "-c", COUNT]) for _ in range(3)]
    while any(process.poll() is None for process in counting):
        with contextlib.suppress(FileNotFoundError):
            json.loads(file.read_text(encoding="utf-8"))
    assert [process.returncode for process in counting] == [0, 0, 0]
    assert tries_in(file) == {"exchange": 30, "swap": 1}
    assert {path.name for path in file.parent.iterdir()} <= {file.name, f"{file.name}.lock"}


def test_where_it_cannot_be_written_the_kernel_remembers_and_writes_it_later(file: Path) -> None:
    file.parent.write_text("in the way", encoding="utf-8")
    assert check.reading(4, line=3).passed
    check.reading(5, line=3)
    shown = check.progress()
    assert (shown.state("reading(4)"), shown.state("reading(5)")) == ("passed", "tried")
    assert re.search(f"kept only until this kernel ends.* set {VARIABLE}", shown.notes[0])

    file.parent.unlink()
    check.reading(5, line=8)
    assert tries_in(file) == {"reading(4)": 1, "reading(5)": 2}
    assert check.progress().notes == []


@pytest.mark.parametrize("content", NO_PROGRESS.values(), ids=NO_PROGRESS)
def test_a_file_that_is_none_or_damaged_is_left_alone_and_left_out(
    file: Path, content: str, capsys: pytest.CaptureFixture[str]
) -> None:
    file.parent.mkdir()
    file.write_text(content)
    assert check.reading(4, line=3).passed
    assert file.read_text() == content
    shown = check.progress()
    assert shown.state("reading(4)") == "passed"
    assert f"{file} is damaged or not a progress file of the course" in shown.notes[0]

    (file.parent / "Ann.json").write_text(as_text({"swap": Entry(1)}), encoding="utf-8")
    assert main(["progress", "--collect", os.fspath(file.parent)]) == 1
    said = capsys.readouterr()
    assert said.out.startswith("1 learner\n")
    assert said.err == "progress.json was left out: it is damaged or not a progress file of the course\n"


def test_off_keeps_nothing_but_what_this_kernel_has_seen(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "off")
    check.reading(5, line=3)
    shown = check.progress()
    assert (shown.state("reading(5)"), shown.notes) == ("tried", [])
    assert not file.parent.exists()


def test_by_itself_it_lies_in_the_home_of_the_learner_and_nobody_else_may_read_it(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    environment = {**os.environ, "HOME": os.fspath(home), VARIABLE: ""}
    environment.pop("XDG_DATA_HOME", None)

    def said(code: str) -> str:
        return subprocess.check_output([sys.executable, "-c", code], env=environment, text=True)

    show = "import sys; from ddp_lessons.__main__ import main; main(['progress']); sys.exit('torch' in sys.modules)"
    assert said(show).startswith(f"Exercises: 0 of {len(LESSON_OF)} passed\n")
    assert not list(home.iterdir())  # to look writes nothing
    said(COUNT)
    (kept,) = home.rglob("*.json")
    assert kept.stat().st_mode & 0o777 == 0o600
    assert f"Your progress is stored in {kept} and is not sent anywhere." in said(show)


def test_shared_are_the_tries_and_the_days_and_no_more(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    check.reading(4, line=2)
    check.reading(4, line=3)
    assert main(["progress", "--json"]) == 0
    said = capsys.readouterr().out
    today = datetime.date.today().isoformat()
    assert json.loads(said) == {"exercises": {"reading(4)": {"tries": 2, "passed": today}}}
    assert said == file.read_text(encoding="utf-8")
    file.write_text("{")
    assert main(["progress", "--json"]) == 1
    assert f"{file} is damaged" in capsys.readouterr().err


@pytest.mark.parametrize("wish", ["--csv x.csv", "--json --collect ."])
def test_half_a_wish_is_refused(wish: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit, match="2"):
        main(["progress", *wish.split()])
    assert not list(tmp_path.iterdir())


def test_many_files_make_one_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder, table = tmp_path / "class", tmp_path / "table.csv"
    (folder / "Kim").mkdir(parents=True)
    assert main(["progress", "--collect", os.fspath(folder)]) == 1
    assert "progress --json > NAME.json" in capsys.readouterr().err
    for number, name in enumerate(("Ann", "bo", "Cem", "Kim/progress")):  # two have passed
        entry = Entry(number + 1, "2026-05-04" if number < 2 else "")
        (folder / f"{name}.json").write_text(as_text({"exchange": entry, "of_2030": entry}))
    (folder / "essay.txt").write_text("{")
    (folder / ".ipynb_checkpoints").mkdir()
    (folder / ".ipynb_checkpoints" / "broken.json").write_text("{")
    assert main(["progress", "--collect", os.fspath(folder), "--csv", os.fspath(table)]) == 0
    said = capsys.readouterr().out
    assert said.startswith("4 learners\n")
    assert re.search(r"\n    exchange +2 +2 +2 +0 +1\.5\n", said)
    assert re.findall(r"^    (Ann|bo|Cem|Kim/progress)  ", said, re.M) == ["Ann", "bo", "Cem", "Kim/progress"]
    with open(table, encoding="utf-8-sig", newline="") as opened:
        rows = [row for row in csv.DictReader(opened) if row["learner"] == "bo"]
    assert len(rows) == len(LESSON_OF)
    assert [*rows[0].values()] == ["bo", "2", "exchange", "passed", "2", "2026-05-04"]
    assert {row["state"] for row in rows[1:]} == {"open"}


def test_no_file_s_name_is_a_formula_or_moves_a_terminal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder, table = tmp_path / "class", tmp_path / "table.csv"
    folder.mkdir()
    names = "=1+1 +1 -1 @SUM(1) \uff1d1 \uff0b1 \uff0d1 \uff201 \x1b[2J=2 \u202eAnn\n=3".split(" ")
    for name in names:
        (folder / f"{name}.json").write_text(as_text({name: Entry(1)}))
    (folder / "\x1b[2Jbad.json").write_text("{")
    assert main(["progress", "--collect", os.fspath(folder), "--csv", os.fspath(table)]) == 1
    text = table.read_text(encoding="utf-8-sig")
    cells = [cell for row in csv.reader(text.splitlines()) for cell in row]
    assert not any(cell.startswith(("=", "+", "-", "@")) for cell in cells)
    assert all(line.startswith('"') and line.endswith('"') for line in text.splitlines())
    said = capsys.readouterr()
    assert all(letter.isprintable() or letter == "\n" for letter in text + said.out + said.err)


def test_the_table_in_a_notebook_has_the_words_and_no_markup_of_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, os.fspath(tmp_path / "<b>"))
    (tmp_path / "<b>").write_text("{")
    check.reading(4, line=3)
    shown = check.progress()
    html = shown._repr_html_()
    assert f"<strong>{shown.headline}</strong>" in html
    assert html.count('scope="row"') == html.count("<tr>") == html.count("</tr>") == len(LESSONS)
    assert re.search(r'ddp-passed" aria-hidden="true">✓</span><code>reading\(4\)</code> passed', html)
    assert html.count("</code> open") == len(LESSON_OF) - 1
    assert ("&lt;b&gt;" in html, "<b>" in html) == (True, False)


def test_what_is_passed_leads_to_the_next_step() -> None:
    assert check.reading(4, line=3).text.endswith("\n  Next exercise: `reading(5)`, in this lesson.")
    assert check.reading(5, line=7).next_step == "Next exercise: `capstone`, in lesson 12."
    assert check.reading(1, line=5).next_step == ""  # the lesson itself goes on from there
    assert judged("passed", [*LESSON_OF][-1]).next_step == "That was the last exercise of the course."


@pytest.mark.parametrize("place", ["a file", "off"])
def test_the_third_failure_points_to_the_hints(monkeypatch: pytest.MonkeyPatch, place: str) -> None:
    reports = []
    for _ in range(4):
        if place == "off":
            monkeypatch.setenv(VARIABLE, "off")
        else:
            progress_file._not_yet_written.clear()  # a new kernel goes on counting
        reports.append(judged("not right yet"))
    assert [STUCK in report.text for report in reports] == [False, False, True, True]
    assert reports[2].text == f"check.swap: not right yet\n  It hangs.\n  {STUCK}"
    assert not any(STUCK in judged(verdict).text for verdict in ("passed", "not right yet"))


def test_a_reading_and_a_given_program_have_no_hints_to_open() -> None:
    assert not any(check.reading(4, line=2).next_step for _ in range(4))
    assert not any(judged("not started yet").next_step for _ in range(4))
