"""check.capstone around its parts: what it needs, how it ends, what it keeps, and the page."""

from __future__ import annotations

import html
import inspect
import json
import re
import runpy
from collections.abc import Iterator
from pathlib import Path

import pytest
from nights import nightly
from processes import PROJECT, Program, eventually

from ddp_lessons import check
from ddp_lessons.capstone import capstone_check, plain_training
from ddp_lessons.capstone.capstone_check import Judgment, _judged
from ddp_lessons.capstone.capstone_page import as_page
from ddp_lessons.capstone.capstone_parts import HANG, LETTERS, PARTS
from ddp_lessons.capstone.verdicts import Part, table

LESSON = PROJECT / "notebooks" / "12_capstone.ipynb"
SLEEPS = "import time\ntime.sleep(600)\n"
PASSING = {name: Part(True, f"{name} is fine.") for name in PARTS}


def answers(case: int) -> dict[str, Part]:
    """The third letter is right."""
    letters = LETTERS[case]
    told = {
        letter: Part(letter == letters[2], f"{letter}) is {'right' * (letter == letters[2])}.") for letter in letters
    }
    return {"": Part(None, "Your diagnosis is missing."), **told}


@pytest.fixture
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "my_train.py"
    path.write_text(SLEEPS)
    return path


@pytest.fixture
def injected(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """Nothing runs: the cases that would be injected."""
    cases: list[int] = []

    def judge(script: Path, case: int, known: dict[str, Part] | None) -> Judgment:
        cases.append(case)
        return Judgment(known or PASSING, answers(case), case)

    monkeypatch.setattr(capstone_check, "judge", judge)
    yield cases
    _judged.clear()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            None,
            "not started yet\n  There is no file my_train.py in the folder {folder}.\n  Next: copy plain_training.py",
        ),
        (
            f"{inspect.getsource(plain_training)}\n\n",
            "not started yet\n  my_train.py is still the unchanged plain program.\n  Next: start with step 1",
        ),
        (
            "import torch\nfor\n",
            "not right yet\n  my_train.py is not valid Python: SyntaxError in line 2.\n  Next: fix",
        ),
    ],
)
def test_what_can_not_be_judged_is_not_run(text: str | None, said: str, script: Path, injected: list[int]) -> None:
    script.unlink() if text is None else script.write_text(text)
    assert check.capstone(script).text.startswith(f"check.capstone: {said.format(folder=script.parent.name)}")
    assert not injected


@nightly
@pytest.mark.no_second_try
def test_stop_ends_every_process_and_says_so(script: Path) -> None:
    source = "from ddp_lessons import check\nprint(check.capstone('my_train.py'))"
    with Program(source, folder=script.parent) as program:
        program.wait_until_said("You can stop it at any time.")
        before = len(program.marked())
        assert eventually(lambda: len(program.marked()) > before)  # the plain programs
        program.interrupt()
        said = program.finish()
        assert not program.marked()
    assert "check.capstone: stopped\n  You stopped the check, and all of its processes were killed." in said
    assert not list(script.parent.glob("*.html"))


def test_without_a_change_nothing_runs_again_and_a_name_needs_no_run(script: Path, injected: list[int]) -> None:
    first, second = check.capstone(script), check.capstone(script)
    unnamed = '  A page that you can show to others: capstone.html (to put your name on it, pass name="...")'
    assert first.details[-1] == unnamed
    assert second.details[-2:] == (
        "  my_train.py is unchanged, so nothing ran again. To run it anyway, pass again=True",
        unnamed,
    )
    assert check.capstone(script, name="Ada").details[-1] == "  A page that you can show to others: capstone.html"
    assert "<h1>Ada: my_train.py</h1>" in Path("capstone.html").read_text(encoding="utf-8")
    assert injected == [0]
    check.capstone(script, again=True)
    script.write_text("import torch\n")
    check.capstone(script)
    assert injected == [0, 0, 0]


def test_one_failure_of_several_parts_is_told_once(script: Path, injected: list[int]) -> None:
    failed = Part(False, "On 2 ranks, the script failed: E.", "run it.")
    parts = {**dict.fromkeys(PARTS, failed), "killed and resumed": Part(True, "Fine.")}
    _judged[script.read_bytes()] = Judgment(parts, {"": failed}, 0)
    text = check.capstone(script).text
    assert text.count("the script failed: E") == text.count("run it.") == 1
    assert "  4. a slow rank: not yet. This part fails in the same way as part 1.\n" in text
    assert "1 of 5 parts passed. Start with part 1: if the training differs there, the later parts fail, too." in text


def test_a_missing_diagnosis_is_no_failed_try(script: Path, injected: list[int]) -> None:
    report = check.capstone(script)
    assert (report.verdict, report.is_a_try, report.next_step) == ("your diagnosis is missing", False, "")
    assert report.mistake == "4 of 5 parts passed."


def test_each_wrong_letter_costs_a_new_case(script: Path, injected: list[int]) -> None:
    """Those who try one letter after the other are asked another question each time."""
    check.capstone(script)
    for case, letters in enumerate(LETTERS):
        report = check.capstone(script, diagnosis=letters[0])
        assert (report.verdict, report.mistake) == ("not right yet", "4 of 5 parts passed.")
        with pytest.raises(ValueError, match="diagnosis must be one of the letters"):
            check.capstone(script, diagnosis=letters[2])  # too late
        assert injected == [*range(case + 1)]
    assert check.capstone(script).verdict == "your diagnosis is missing"
    assert check.capstone(script, diagnosis="c)").passed
    assert injected == [0, 1, 2, 3, 0]


def test_a_letter_says_which_fault_it_is_about_where_nothing_was_judged(script: Path, injected: list[int]) -> None:
    """A grader judges the script and the letter that a student handed in."""
    with pytest.raises(ValueError, match="diagnosis must be one of the letters A to P, not 'Q'"):
        check.capstone(script, diagnosis="Q")
    assert check.capstone(script, diagnosis=LETTERS[2][2]).passed
    assert injected == [2]


def test_the_page_needs_nothing_else_and_says_what_each_part_tests() -> None:
    picture = type("Figure", (), {"svg": "<svg/>", "alt": 'a "curve"'})
    parts = {**PASSING, "uneven data": Part(False, "Some.", "look there.", picture=picture), HANG: answers(0)["C"]}
    page = as_page(parts, "<Ada>", "my_train.py")
    assert "<h1>&lt;Ada&gt;: my_train.py</h1>" in page
    assert "4 of 5 parts passed." in page
    assert "look there." in page
    assert all(f"<p>{html.escape(table()[name]['question'])}</p>" in page for name in parts)
    assert re.findall(r"(?:src|href)=\"(.{19})", page) == ["data:image/svg+xml;"]
    assert "max-width: 100%" in page


def test_the_lesson_shows_the_program_that_is_judged() -> None:
    cells = json.loads(LESSON.read_text(encoding="utf-8"))["cells"]
    (shown,) = ["".join(cell["outputs"][0]["text"]) for cell in cells if cell["id"] == "show-program"]
    assert shown.rstrip() == inspect.getsource(plain_training).rstrip()


def test_the_model_solution_trains_the_same_network_on_the_same_data() -> None:
    theirs = runpy.run_path(str(Path(__file__).parent / "right" / "ddp.py"))
    assert all(theirs[name] == getattr(plain_training, name) for name in ("TRAIN", "TEST", "BATCH", "MICRO_BATCH"))
    assert all(
        map(lambda one, other: bool((one == other).all()), theirs["make_data"](9, 1), plain_training.make_data(9, 1))
    )
