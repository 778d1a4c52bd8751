"""What passes is kept for the learner, survives what files meet with, and is shared only when the learner shares it."""

from __future__ import annotations

import contextlib
import csv
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nbformat
import pytest
import torch
import torch.distributed as dist
from nights import nightly
from notebook_session import NotebookSession

from ddp_lessons import check
from ddp_lessons.__main__ import main
from ddp_lessons.check import Report, progress_file
from ddp_lessons.check.dashboard import LESSON_OF, LESSONS, counting
from ddp_lessons.train import point_to_point
from ddp_lessons.workshop import progress_table as command

NOTEBOOKS = sorted((Path(__file__).parent.parent / "notebooks").glob("[0-9][0-9]_*.ipynb"))
VARIABLE = "DDP_LESSONS_PROGRESS"
ONE_PASSED = {
    "course": "ddp-lessons",
    "format": 1,
    "exercises": {"swap": {"lesson": 9, "tries": 3, "passed": "2026-05-04"}},
}
DAMAGED = pytest.mark.parametrize(
    "content",
    [
        json.dumps(ONE_PASSED).encode()[:-5],
        b"\x00" * 200,
        b"\xff\xfe\x00",
        b"[" * 100_000,
        b'{"course": "ddp-lessons", "format": 1, "exercises": ["swap"]}',
        b'{"course": "ddp-lessons", "format": "one", "exercises": {}}',
    ],
    ids=["cut off", "zeros", "no text", "deep", "a list of exercises", "no format"],
)
LEFT_ALONE = pytest.mark.parametrize(
    "content",
    [b'{"course": "ddp-lessons", "format": 2, "swap": "passed"}', b'{"cells": []}', b"3", b" " * (1 << 21)],
    ids=["newer", "another program's", "a number", "large"],
)


def rank_0_sends_first(tensor: torch.Tensor) -> torch.Tensor:
    received = torch.zeros_like(tensor)
    if dist.get_rank() == 0:
        dist.send(tensor, 1)
        dist.recv(received, 1)
    else:
        dist.recv(received, 0)
        dist.send(tensor, 0)
    return received


@pytest.fixture(autouse=True)
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return as_in_a_new_kernel(tmp_path / "mine" / "progress.json", monkeypatch)


def as_in_a_new_kernel(path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(VARIABLE, os.fspath(path))
    monkeypatch.setattr(progress_file, "_not_yet_written", {})
    return path


def written(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


def line_of(exercise: str) -> list[str]:
    return next(line.split()[1:] for line in check.progress().text.splitlines() if line.split()[0] == exercise)


def test_the_course_s_own_tests_count_in_nobody_s_file() -> None:
    code = "import os, conftest; print(os.environ['DDP_LESSONS_PROGRESS'])"
    environment = {name: value for name, value in os.environ.items() if name != VARIABLE}
    root = NOTEBOOKS[0].parent.parent
    said = subprocess.run([sys.executable, "-c", code], cwd=root, env=environment, capture_output=True, text=True)
    assert said.stdout == "off\n"


def test_tries_count_up_to_the_first_that_passes(file: Path) -> None:
    check.reading(4, line=2)
    assert line_of("reading(4)") == ["tried", "1", "try"]
    check.reading(4, line=3)
    check.reading(4, line=7)
    assert line_of("reading(4)")[0::2] == ["passed", "2"]
    assert written(file)["exercises"].keys() == {"reading(4)"}
    assert check.progress().headline == f"Exercises: 1 of {len(LESSON_OF)} passed"


@nightly
def test_what_nobody_has_written_is_no_try(file: Path) -> None:
    def exchange(tensor: torch.Tensor) -> None: ...

    assert check.exchange(exchange).verdict == "not started yet"
    check.reading(4)  # it only asks
    check.reading(1, line=5)  # for training, and in no lesson's list
    assert check.exchange(point_to_point.exchange).passed  # the solution
    assert not file.exists()
    assert check.exchange(rank_0_sends_first).passed
    assert line_of("exchange")[0] == "passed"


def test_a_check_has_its_task_as_help_and_is_the_same_each_time() -> None:
    assert str(check.exchange.__doc__).startswith("Check `function(tensor)`")
    assert check.exchange is check.exchange


def cells_of(notebook: Path) -> Iterator[tuple[str, str]]:
    read: Any = nbformat.read
    for cell in read(notebook, as_version=4).cells:
        if cell.cell_type == "code" and not cell.source.startswith("%%"):  # of a file
            yield re.sub(r"^[%!].*$", "", cell.source, flags=re.M), json.dumps(cell.outputs)


@nightly
def test_in_a_notebook_a_given_program_counts_once_it_is_changed(file: Path) -> None:
    (program,) = (source for source, _ in cells_of(NOTEBOOKS[11]) if "check.swap(swap)" in source)
    waits = "    dist.send(tensor, partner)\n    dist.recv(received, partner)\n"
    assert waits in program
    with NotebookSession({VARIABLE: os.fspath(file)}) as notebook:
        notebook.run("import torch, torch.distributed as dist\nfrom ddp_lessons import check")
        assert "not right yet" in notebook.run(program).value
        assert " tried" not in notebook.run("check.progress()").value
        repaired = "    sending = dist.isend(tensor, partner)\n    dist.recv(received, partner)\n    sending.wait()\n"
        assert "passed" in notebook.run(program.replace(waits, repaired)).value
        assert re.search(r"swap +passed .* 1 try", notebook.run("check.progress()").value)
    assert written(file)["exercises"]["swap"]["tries"] == 1


COUNT = """
from ddp_lessons.check import progress_file
for _ in range(10):
    progress_file.keep("exchange", 2, False)
    progress_file.keep("swap", 9, True)
"""


def test_several_notebooks_count_at_once_and_the_file_is_whole_at_every_moment(file: Path) -> None:
    counting = [subprocess.Popen([sys.executable, "-c", COUNT]) for _ in range(3)]
    seen = 0
    while any(process.poll() is None for process in counting):
        with contextlib.suppress(FileNotFoundError):
            seen = max(seen, written(file)["exercises"]["exchange"]["tries"])
    assert [process.returncode for process in counting] == [0, 0, 0]
    exercises = written(file)["exercises"]
    assert (exercises["exchange"]["tries"], exercises["swap"]["tries"]) == (30, 1)
    assert 0 < seen <= 30
    assert {path.name for path in file.parent.iterdir()} <= {file.name, f"{file.name}.lock"}


def test_where_it_cannot_be_written_the_check_says_what_it_says_and_the_kernel_remembers(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file.parent.write_text("in the way", encoding="utf-8")
    assert check.reading(4, line=3).passed
    check.reading(5, line=3)
    shown = check.progress()
    assert (shown.state("reading(4)"), shown.state("reading(5)")) == ("passed", "tried")
    assert "kept only until this kernel ends" in shown.notes[-1]
    assert VARIABLE in shown.notes[-1]

    file.parent.unlink()  # and as soon as it can be written, it is
    check.reading(5, line=8)
    assert {name: entry["tries"] for name, entry in written(file)["exercises"].items()} == {
        "reading(4)": 1,
        "reading(5)": 2,
    }
    assert check.progress().notes == ()


def test_off_writes_nothing_and_shows_what_this_kernel_has_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "off")
    monkeypatch.setattr(progress_file, "write_whole", None)  # nobody may call it
    empty = check.progress()
    assert (empty.notes, empty.count("open")) == ((), len(LESSON_OF))
    check.reading(4, line=3)
    assert check.progress().state("reading(4)") == "passed"
    assert check.progress().notes == ()


@DAMAGED
def test_a_damaged_file_is_put_aside_whole_and_a_new_one_begun(file: Path, content: bytes) -> None:
    file.parent.mkdir()
    for number in (1, 2):
        file.write_bytes(content)
        assert "cannot be read" in check.progress().notes[0]
        check.reading(4, line=3)
        assert file.with_name(f"{file.name}.broken{number}").read_bytes() == content
        assert written(file)["exercises"].keys() == {"reading(4)"}
    assert [note.split(":")[0] for note in check.progress().notes] == ["A damaged file was moved aside"] * 2


@LEFT_ALONE
def test_another_program_s_file_or_a_newer_version_s_is_left_as_it_is(file: Path, content: bytes) -> None:
    if content.isspace():
        content = b'"' + content + b'"'
    file.parent.mkdir()
    file.write_bytes(content)
    assert check.reading(4, line=3).passed
    assert file.read_bytes() == content
    shown = check.progress()
    assert shown.state("reading(4)") == "passed"
    assert "cannot be read" in shown.notes[0]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs pipes with a name")
def test_a_pipe_or_a_device_is_neither_read_nor_replaced(file: Path) -> None:
    file.parent.mkdir()
    os.mkfifo(file)  # to open it would wait for ever; /dev/null is refused by the same look
    assert check.reading(4, line=3).passed
    assert [path.name for path in file.parent.iterdir()] == [file.name]
    assert not file.is_file()
    assert "because it is not a regular file" in check.progress().notes[0]


def test_an_entry_that_cannot_be_costs_only_itself_and_unknown_things_stay(file: Path) -> None:
    before: dict[str, Any] = {
        **ONE_PASSED,
        "colour": "blue",
        "exercises": {
            "swap": {"lesson": 9, "tries": 3, "passed": "2026-05-04", "hint": True},
            "to_come": {"lesson": 10, "tries": 1},
            "exchange": {"lesson": 2, "tries": -1},
            "my_ddp": {"lesson": 7, "tries": 1, "passed": "yesterday"},
            "reading(4)": "passed",
        },
    }
    file.parent.mkdir()
    file.write_text(json.dumps(before), encoding="utf-8-sig")  # as some editors do
    assert len(check.progress().notes) == 3
    check.reading(4, line=2)
    after = written(file)
    assert after["colour"] == "blue"
    assert after["exercises"] == {
        "swap": before["exercises"]["swap"],
        "to_come": before["exercises"]["to_come"],
        "reading(4)": {"lesson": 11, "tries": 1},
    }
    assert json.loads(file.with_name(f"{file.name}.broken1").read_text(encoding="utf-8-sig")) == before


def test_an_empty_file_is_a_beginning(file: Path) -> None:
    file.parent.mkdir()
    file.touch()
    check.reading(4, line=3)
    assert [path.name for path in file.parent.glob("*broken*")] == []
    assert check.progress().state("reading(4)") == "passed"


def test_behind_a_link_the_file_itself_is_written(file: Path, tmp_path: Path) -> None:
    file.parent.mkdir()
    file.symlink_to(tmp_path / "elsewhere.json")
    check.reading(4, line=3)
    assert written(tmp_path / "elsewhere.json")["exercises"].keys() == {"reading(4)"}


def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    kept = {name: value for name, value in os.environ.items() if name not in (VARIABLE, "XDG_DATA_HOME")}
    return subprocess.run(
        [sys.executable, "-m", "ddp_lessons", "progress", *arguments],
        env={**kept, **environment},
        capture_output=True,
        encoding="utf-8",
    )


def test_by_itself_it_lies_in_the_home_of_the_learner_and_nobody_else_may_read_it(tmp_path: Path) -> None:
    home = {"HOME": os.fspath(tmp_path / "home")}
    (tmp_path / "home").mkdir()
    said = run(**home)
    assert (said.returncode, said.stderr) == (0, "")
    assert said.stdout.startswith(f"Exercises: 0 of {len(LESSON_OF)} passed\n")
    assert not list((tmp_path / "home").iterdir())  # to look writes nothing
    subprocess.run([sys.executable, "-c", COUNT], env={**os.environ, **home, VARIABLE: ""}, check=True)
    (kept,) = (tmp_path / "home").rglob("*.json")
    assert kept.parent.name == "ddp_lessons"
    assert kept.stat().st_mode & 0o777 == 0o600
    assert f"Stored in {kept.resolve()}. It is not sent anywhere." in run(**home).stdout


def test_shared_is_the_given_name_the_tries_and_the_days_and_no_more(file: Path, tmp_path: Path) -> None:
    check.reading(4, line=2)
    check.reading(4, line=3)
    said = run(
        "--share", os.fspath(tmp_path / "out.json"), "--name", " Ada\n Łovelace\x1b[31m", **{VARIABLE: os.fspath(file)}
    )
    assert (said.returncode, said.stderr) == (0, "")
    day = written(file)["exercises"]["reading(4)"]["passed"][:10]
    assert written(tmp_path / "out.json") == {
        "course": "ddp-lessons",
        "format": 1,
        "name": "Ada Łovelace [31m",
        "exercises": {"reading(4)": {"lesson": 11, "tries": 2, "passed": day}},
    }
    assert "name" not in written(file)


@pytest.mark.parametrize(
    "arguments",
    [["--share", "x.json"], ["--name", "Ada"], ["--csv", "x.csv"], ["--collect", ".", "--share", "x", "--name", "y"]],
    ids=" ".join,
)
def test_half_a_wish_is_refused_and_the_name_is_never_guessed(
    arguments: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit, match="2"):
        main(["progress", *arguments])
    assert not list(tmp_path.iterdir())


def test_sharing_writes_over_nothing_but_the_same_learner_s_file(
    file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    check.reading(4, line=3)
    own, notebook, ada = file.read_bytes(), tmp_path / "notes.ipynb", tmp_path / "ada.json"
    notebook.write_text('{"cells": []}', encoding="utf-8")
    assert command.share(os.fspath(ada), "Ada") == 0
    check.reading(5, line=8)
    own, shared = file.read_bytes(), ada.read_bytes()
    assert [
        command.share(os.fspath(path), "Bo") for path in (file, notebook, ada, tmp_path, tmp_path / "no" / "x")
    ] == [1] * 5
    assert command.share(os.fspath(tmp_path / "new.json"), " \x00 ") == 1
    assert (file.read_bytes(), ada.read_bytes(), notebook.read_text()) == (own, shared, '{"cells": []}')
    assert "it contains the progress of Ada" in capsys.readouterr().err
    assert command.share(os.fspath(ada), "Ada") == 0
    assert written(ada)["exercises"].keys() == {"reading(4)", "reading(5)"}


def classroom(folder: Path) -> Path:
    """Thirty files: 24 with a name, two of one name, two without, and two that cannot be read. And what lies about."""
    folder.mkdir()
    for number in range(24):
        (folder / f"learner_{number}").mkdir()
        entry = {"lesson": 2, "tries": number + 1, **({"passed": "2026-05-04"} if number < 10 else {})}
        content = {**ONE_PASSED, "name": f"Learner {number:02}", "exercises": {"exchange": entry, "of_2030": entry}}
        (folder / f"learner_{number}" / "progress.json").write_text(json.dumps(content), encoding="utf-8")
    for name in ("Kim", "kim"):
        (folder / f"{name}_{ord(name[0])}.json").write_text(json.dumps({**ONE_PASSED, "name": name}), encoding="utf-8")
    for number in (1, 2):
        (folder / f"none{number}.json").write_text(json.dumps(ONE_PASSED), encoding="utf-8")
    (folder / "broken.json").write_text("{", encoding="utf-8")
    (folder / "newer.json").write_text('{"course": "ddp-lessons", "format": 9}', encoding="utf-8")
    (folder / ".ipynb_checkpoints").mkdir()
    (folder / ".ipynb_checkpoints" / "broken.json").write_text("{", encoding="utf-8")
    (folder / "essay.txt").write_text("{", encoding="utf-8")
    (folder / "learner_3" / "progress.json").rename(folder / "learner_3" / "mine")  # however they name it
    return folder


def test_thirty_files_make_one_table_and_those_that_cannot_be_read_are_named(tmp_path: Path) -> None:
    folder, table = classroom(tmp_path / "class"), tmp_path / "table.csv"
    said = run("--collect", os.fspath(folder), "--csv", os.fspath(table))
    assert said.returncode == 1
    assert said.stderr.splitlines() == [
        "broken.json is left out: it is damaged",
        "newer.json is left out: a newer version of this course wrote it (format 9, and this version reads up to 1)",
    ]
    lines = said.stdout.splitlines()
    assert lines[0] == "28 learners"
    assert "    Learner 03" in said.stdout
    assert any(re.match(r"    exchange +2 +10 +14 +4 +5\.5$", line) for line in lines)
    assert all(f"    {name} " in said.stdout for name in ("Kim (Kim_75.json)", "kim (kim_107.json)", "(none1.json)"))

    with open(table, encoding="utf-8-sig", newline="") as opened:
        rows = list(csv.DictReader(opened))
    of_one = {row["exercise"]: row for row in rows if row["learner"] == "Learner 04"}
    assert len(of_one) == len(LESSON_OF) + 1  # and one of another version
    assert (of_one["exchange"]["state"], of_one["exchange"]["tries"], of_one["swap"]["state"]) == (
        "passed",
        "5",
        "open",
    )
    assert of_one["exchange"]["passed on"] == "2026-05-04"
    assert of_one["exchange"]["file"] == "learner_4/progress.json"
    assert len({row["file"] for row in rows}) == 28


def test_a_name_is_no_formula_in_a_spreadsheet_and_no_other_table_is_overwritten(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, marks = tmp_path / "class", tmp_path / "marks.csv"
    folder.mkdir()
    content = {**ONE_PASSED, "name": '=HYPERLINK("x")\r\n\u202e,' + "z" * 200}
    (folder / "one.json").write_text(json.dumps(content), encoding="utf-8")
    marks.write_text("name,mark\n", encoding="utf-8")
    assert command.collect(os.fspath(folder), os.fspath(marks)) == 1
    assert marks.read_text(encoding="utf-8") == "name,mark\n"
    for _ in range(2):  # an older table of this kind is renewed
        assert command.collect(os.fspath(folder), os.fspath(folder / "table.csv")) == 0
    with open(folder / "table.csv", encoding="utf-8-sig", newline="") as opened:
        names = {row["learner"] for row in csv.DictReader(opened)}
    assert len(names) == 1
    assert names.pop().startswith('\'=HYPERLINK("x") ,zzz')
    assert "\u202e" not in capsys.readouterr().out


def test_a_folder_without_any_says_how_to_share(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert command.collect(os.fspath(tmp_path)) == 1
    assert "--share FILE" in capsys.readouterr().err
    assert command.collect(os.fspath(tmp_path / "nowhere")) == 1


def test_the_table_in_a_notebook_has_the_words_and_no_markup_of_others(file: Path) -> None:
    file.parent.mkdir()
    file.write_text(json.dumps({"course": "<b>"}), encoding="utf-8")
    check.reading(4, line=3)
    shown = check.progress()
    html = shown._repr_html_()
    assert f"<strong>{shown.headline}</strong>" in html
    assert html.count('scope="row"') == html.count("<tr>") == html.count("</tr>") == len(LESSONS)
    assert re.search(r'ddp-passed" aria-hidden="true">✓</span><code>reading\(4\)</code> passed', html)
    assert html.count("</code> open") == len(LESSON_OF) - 1


def test_what_is_passed_leads_to_the_next_step() -> None:
    in_this_lesson = check.reading(4, line=3)
    assert in_this_lesson.text.endswith("\n  Next exercise: `reading(5)`, in this lesson.")
    assert check.reading(5, line=7).next_step == "Next exercise: `capstone`, in lesson 12."
    assert check.reading(1, line=5).next_step == ""  # the lesson itself goes on from there
    assert check.reading(4, line=2).next_step == ""
    last = counting(lambda answer: Report([*LESSON_OF][-1], True, "passed"))(print)
    assert last.next_step == "That was the last exercise of the course."


@pytest.mark.parametrize("place", ["a file", "off"])
def test_the_third_failure_points_to_the_hints(monkeypatch: pytest.MonkeyPatch, place: str) -> None:
    if place == "off":
        monkeypatch.setenv(VARIABLE, "off")
    stuck = "Stuck? Open the hints of this exercise."
    checked = counting(lambda passes: Report("swap", passes, "passed" if passes else "not right yet", "It hangs."))
    reports = [checked(False) for _ in range(4)]
    assert [stuck in report.text for report in reports] == [False, False, True, True]
    assert [stuck in report._repr_html_() for report in reports] == [False, False, True, True]
    assert reports[2].text == f"check.swap: not right yet\n  It hangs.\n  {stuck}"
    assert not any(stuck in checked(passes).text for passes in (True, False, False, False))


def test_a_new_kernel_goes_on_counting_the_failures(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    checked = counting(lambda answer: Report("swap", False, "not right yet"))
    checked(print)
    checked(print)
    as_in_a_new_kernel(file, monkeypatch)
    assert checked(print).next_step.startswith("Stuck?")


def test_a_reading_and_a_given_program_have_no_hints_to_open() -> None:
    assert not any(check.reading(4, line=2).next_step for _ in range(4))
    asked = counting(lambda answer: Report("swap", False, "not started yet"))
    assert not any(asked(print).next_step for _ in range(4))


def test_the_command_needs_no_torch() -> None:
    code = "import sys; from ddp_lessons.__main__ import main; main(['progress']); sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True).returncode == 0
