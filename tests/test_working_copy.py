"""A learner's copy of the lessons: nothing of theirs is written over, whatever comes with an update."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from ddp_lessons.workshop import start, working_copy
from ddp_lessons.workshop.working_copy import copy_lessons

PROJECT = Path(__file__).parent.parent
FIRST, SECOND = "00_first.ipynb", "01_second.ipynb"
FOR_ASSISTANTS = ("AGENTS.md", "CLAUDE.md")


def write(folder: Path, name: str, source: str, output: str = "") -> None:
    outputs = [{"name": "stdout", "output_type": "stream", "text": [output]}] if output else []
    cell = {"cell_type": "code", "execution_count": 3, "id": "one", "metadata": {}, "outputs": outputs}
    cell["source"] = [source]
    content = {"cells": [cell], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(json.dumps(content), encoding="utf-8")


def sources(folder: Path) -> dict[str, str]:
    return {
        file.name: json.loads(file.read_text(encoding="utf-8"))["cells"][0]["source"][0]
        for file in sorted(folder.glob("*.ipynb"))
    }


@pytest.fixture
def lessons(tmp_path: Path) -> Path:
    write(tmp_path / "notebooks", FIRST, "1 + 1", output="2")
    write(tmp_path / "notebooks", SECOND, "2 + 2", output="4")
    (tmp_path / "notebooks" / "glossary.md").write_text("# Words")
    (tmp_path / "notebooks" / "Untitled.ipynb").write_text("of somebody else")
    return tmp_path / "notebooks"


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    return tmp_path / "my lessons"


def test_a_copy_has_no_outputs_and_nothing_else_is_changed(lessons: Path, mine: Path) -> None:
    assert copy_lessons(lessons, mine) == []
    assert {file.name for file in mine.iterdir()} == {FIRST, SECOND, "glossary.md", working_copy.GIVEN, *FOR_ASSISTANTS}
    given = json.loads((mine / FIRST).read_text(encoding="utf-8"))
    stored = json.loads((lessons / FIRST).read_text(encoding="utf-8"))
    stored["cells"][0] |= {"outputs": [], "execution_count": None}
    assert given == stored


def test_scripts_and_the_page_to_print_come_along_and_links_lead_to_them_and_back(lessons: Path, mine: Path) -> None:
    write(lessons, FIRST, "the [script](../scripts/slurm/one.sbatch), [It hangs](../docs/it_hangs.md)")
    script, page = Path("scripts", "slurm", "one.sbatch"), Path("docs", "it_hangs.md")
    for file, text in ((script, "#!/bin/sh"), (page, f"[the lesson](../notebooks/{FIRST})")):
        (lessons.parent / file).parent.mkdir(parents=True)
        (lessons.parent / file).write_text(text)
    copy_lessons(lessons, mine)
    assert sources(mine)[FIRST] == "the [script](scripts/slurm/one.sbatch), [It hangs](docs/it_hangs.md)"
    assert (mine / page).read_text() == f"[the lesson](../{FIRST})"
    assert (mine / script).read_text() == "#!/bin/sh"
    (mine / script).write_text("mine")
    (lessons.parent / script).write_text("newer")
    (news,) = copy_lessons(lessons, mine)
    assert str(mine / "scripts" / "slurm" / "one.2.sbatch") in news
    assert (mine / script).read_text() == "mine"


def test_a_coding_assistant_is_asked_to_be_a_tutor(lessons: Path, mine: Path) -> None:
    copy_lessons(lessons, mine)
    asked = (mine / "AGENTS.md").read_text(encoding="utf-8")
    assert all(words in asked for words in ("Hints in three steps", "Never write", "ddp_lessons/train/"))
    assert (mine / "CLAUDE.md").read_text(encoding="utf-8") == "@AGENTS.md\n"


def test_what_a_learner_tells_their_assistant_is_kept(
    lessons: Path, mine: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy_lessons(lessons, mine)
    for name in FOR_ASSISTANTS:
        (mine / name).write_text("Answer in French.", encoding="utf-8")
    (tmp_path / "tutor.md").write_text("another text", encoding="utf-8")
    monkeypatch.setattr(working_copy, "TUTOR", tmp_path / "tutor.md")
    copy_lessons(lessons, mine)
    assert {(mine / name).read_text(encoding="utf-8") for name in FOR_ASSISTANTS} == {"Answer in French."}


def test_in_the_clone_an_assistant_is_sent_to_what_contributors_read() -> None:
    asked = (PROJECT / "AGENTS.md").read_text(encoding="utf-8")
    assert "(CONTRIBUTING.md)" in asked
    assert "ddp_lessons/workshop/tutor.md" in asked
    assert (PROJECT / ".claude" / "CLAUDE.md").read_text(encoding="utf-8") == "@../AGENTS.md\n"


def test_what_a_learner_wrote_or_ran_is_kept_and_a_new_version_comes_beside_it(lessons: Path, mine: Path) -> None:
    copy_lessons(lessons, mine)
    write(mine, FIRST, "1 + 1  # what I think", output="2")
    write(lessons, FIRST, "1 + 1 == 2")
    (news,) = copy_lessons(lessons, mine)
    newer = mine / "00_first.2.ipynb"
    assert news.startswith(f"{FIRST} has a new version. Your file is unchanged; the new one is {newer}")
    assert sources(mine) == {FIRST: "1 + 1  # what I think", "00_first.2.ipynb": "1 + 1 == 2", SECOND: "2 + 2"}
    assert copy_lessons(lessons, mine) == []  # it is said once

    write(mine, "00_first.2.ipynb", "I went on in this one")
    write(lessons, FIRST, "the third version")
    copy_lessons(lessons, mine)
    write(lessons, FIRST, "the fourth version")
    copy_lessons(lessons, mine)
    assert sources(mine) == {
        FIRST: "1 + 1  # what I think",
        "00_first.2.ipynb": "I went on in this one",
        "00_first.3.ipynb": "the fourth version",  # nobody had touched the third
        SECOND: "2 + 2",
    }


def test_a_copy_that_nobody_has_touched_becomes_the_new_version_and_one_that_was_removed_comes_back(
    lessons: Path, mine: Path
) -> None:
    copy_lessons(lessons, mine)
    write(lessons, FIRST, "a new version")
    (mine / SECOND).unlink()
    assert copy_lessons(lessons, mine) == []
    assert sources(mine) == {FIRST: "a new version", SECOND: "2 + 2"}


def test_outputs_that_were_stored_anew_are_no_new_version(lessons: Path, mine: Path) -> None:
    copy_lessons(lessons, mine)
    write(mine, FIRST, "mine")
    write(lessons, FIRST, "1 + 1", output="2.0")
    assert copy_lessons(lessons, mine) == []
    assert sources(mine) == {FIRST: "mine", SECOND: "2 + 2"}


@pytest.mark.parametrize("book", [None, "{half of a b"])
def test_where_it_is_not_known_what_was_given_every_file_counts_as_touched(
    lessons: Path, mine: Path, book: str | None
) -> None:
    write(mine, FIRST, "from another folder")
    if book:
        (mine / working_copy.GIVEN).write_text(book)
    copy_lessons(lessons, mine)
    assert sources(mine) == {FIRST: "from another folder", "00_first.2.ipynb": "1 + 1", SECOND: "2 + 2"}


def test_a_full_disk_is_said_and_leaves_what_was_there(
    lessons: Path, mine: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    copy_lessons(lessons, mine)
    before = {file: file.read_bytes() for file in mine.iterdir()}
    write(lessons, FIRST, "a new version")

    def fill(file: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", fill)
    monkeypatch.setattr(start, "NOTEBOOKS", lessons)
    assert start.start_lessons(mine) == 1
    assert capsys.readouterr().err == f"The lessons could not be copied to {mine}: No space left on device\n"
    monkeypatch.undo()
    assert {file: file.read_bytes() for file in mine.iterdir()} == before


def test_the_command_ends_with_the_first_lesson_and_jupyter_reads_what_it_made(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "ddp_lessons", "start", str(tmp_path / "mine"), "--no-open"]
    done = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == [str(tmp_path / "mine" / "00_start_four_ranks.ipynb")]
    stored = sorted((PROJECT / "notebooks").glob("[0-9]*.ipynb"))
    assert [file.name for file in sorted((tmp_path / "mine").glob("*.ipynb"))] == [file.name for file in stored]
    import nbformat

    for file in stored:
        copied, lesson = (nbformat.read(path, as_version=4) for path in (tmp_path / "mine" / file.name, file))  # type: ignore[no-untyped-call]
        nbformat.validate(copied)
        assert [cell.source for cell in copied.cells] == [
            cell.source.replace("](../scripts/", "](scripts/").replace("](../docs/", "](docs/") for cell in lesson.cells
        ]
        assert not any(cell.get("outputs") for cell in copied.cells)


def test_lessons_that_an_update_renames_stay_with_what_was_written_in_them(lessons: Path, mine: Path) -> None:
    copy_lessons(lessons, mine)
    (mine / FIRST).write_text("my notes")
    (lessons / FIRST).rename(lessons / "00_renamed.ipynb")
    assert copy_lessons(lessons, mine) == []
    assert (mine / FIRST).read_text() == "my notes"
    assert (mine / "00_renamed.ipynb").exists()
