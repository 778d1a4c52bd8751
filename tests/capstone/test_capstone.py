"""check.capstone around its parts: what it needs, how it ends, the question about the hang, and the page."""

from __future__ import annotations

import html
import inspect
import json
import re
import runpy
from collections.abc import Iterator
from pathlib import Path

import pytest
from judged import trials_of
from nights import nightly
from processes import PROJECT, Program, eventually
from right_styles import MODEL, RIGHT

from ddp_lessons import check
from ddp_lessons.capstone import capstone_check, plain_training, script_runs
from ddp_lessons.capstone.capstone_check import PARTS as PART_NAMES, Judgment, _judged, judge
from ddp_lessons.capstone.capstone_page import TESTED, as_page
from ddp_lessons.capstone.capstone_parts import Part
from ddp_lessons.capstone.injected_hang import (
    CASES,
    INJECTED,
    LETTERS,
    NAME,
    HangQuestion,
    ask_about_a_hang,
    where_ranks_are,
)

LESSON = PROJECT / "notebooks" / "12_capstone.ipynb"
QUESTIONS = [
    HangQuestion(("hang", "    rank 0   waits in barrier"), dict(zip(letters, "abcd", strict=True)), letters[2])
    for letters in LETTERS
]
QUESTION = QUESTIONS[0]
PARTS = (Part("one", True, "2 of 2"), Part("two", False, "1 of 2.", "look there."))
SLEEPS = "import time\ntime.sleep(600)\n"


def test_without_a_script_it_is_not_started(tmp_path: Path) -> None:
    assert check.capstone(tmp_path / "my_train.py").text == (
        f"check.capstone: not started yet\n  There is no file my_train.py in the folder {tmp_path.name}.\n"
        "  Next: copy plain_training.py to my_train.py in this folder, and edit the copy."
    )


def test_the_plain_program_as_it_is_counts_as_not_started(tmp_path: Path) -> None:
    script = tmp_path / "my_train.py"
    script.write_text(f"{inspect.getsource(plain_training)}\n\n")
    assert check.capstone(script).text == (
        "check.capstone: not started yet\n  my_train.py is still the plain program, without a change.\n"
        "  Next: begin with step 1 of the plan: join the process group, and let only rank 0 print."
    )


def test_a_file_that_is_no_program_is_refused_with_its_line(tmp_path: Path) -> None:
    script = tmp_path / "my_train.py"
    script.write_text("import torch\nfor\n")
    report = check.capstone(script)
    assert report.mistake == "my_train.py is not a Python program: SyntaxError in line 2."
    assert report.details == ("  Next: fix that line, and run it once.",)


def test_a_letter_that_is_no_choice_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="diagnosis is one of the letters A to P, not 'Q'"):
        check.capstone(tmp_path / "my_train.py", diagnosis="Q")


def test_without_torchrun_it_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(script_runs, "TORCHRUN", "torch.distributed.not_there")
    script = tmp_path / "my_train.py"
    script.write_text(SLEEPS)
    report = check.capstone(script)
    assert (report.verdict, report.passed, report.is_a_try) == ("could not judge", False, False)
    assert report.mistake.startswith("torchrun is missing: Python finds no module torch.distributed.run.\nNext: run ")


@nightly
@pytest.mark.no_second_try
def test_stop_ends_every_process_and_says_so(tmp_path: Path) -> None:
    (tmp_path / "my_train.py").write_text(SLEEPS)
    source = "from ddp_lessons import check\nprint(check.capstone('my_train.py'))"
    with Program(source, folder=tmp_path) as program:
        program.wait_until_said("You can stop it at any time.")
        before = len(program.marked())
        assert eventually(lambda: len(program.marked()) > before)  # the plain programs
        program.interrupt()
        said = program.finish()
        assert not program.marked()
    assert "check.capstone: stopped\n  You stopped the check, and all its processes were ended." in said
    assert not list(tmp_path.glob("*.html"))


@pytest.fixture
def judged_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The first part failed for the same reason as the third and fourth; without torchrun nothing can run."""
    monkeypatch.setattr(script_runs, "TORCHRUN", "torch.distributed.not_there")
    monkeypatch.chdir(tmp_path)
    script = tmp_path / "my_train.py"
    script.write_text(SLEEPS)
    failures = {name: Part(name, False, "on 2 ranks the script failed: E", "run it.") for name in PART_NAMES}
    failures["killed and resumed"] = Part("killed and resumed", True, "fine")
    _judged[script.read_bytes()] = Judgment(tuple(failures.values()), QUESTION)
    yield script
    _judged.clear()


def test_without_a_change_nothing_runs_again_and_a_name_needs_no_run(judged_before: Path) -> None:
    report = check.capstone(judged_before)
    assert report.details[-2:] == (
        "  my_train.py is unchanged, so nothing ran again. To run it again: again=True",
        '  The page to show to others: capstone.html (for a page with your name: name="...")',
    )
    assert check.capstone(judged_before, name="Ada").details[-1] == "  The page to show to others: capstone.html"
    assert "<h1>Ada: my_train.py</h1>" in Path("capstone.html").read_text(encoding="utf-8")
    assert check.capstone(judged_before, again=True).verdict == "could not judge"


def test_a_changed_file_runs_again(judged_before: Path) -> None:
    judged_before.write_text("import torch\n")
    assert check.capstone(judged_before).verdict == "could not judge"


def test_one_failure_of_several_parts_is_told_once(judged_before: Path) -> None:
    text = check.capstone(judged_before).text
    assert text.count("the script failed: E") == text.count("run it.") == 1
    assert "  Parts 3 and 4: the same failure as in part 1.\n" in text
    assert "1 of 5 parts passed. Begin with part 1: if the training run differs there, later parts fail, too." in text


def test_a_missing_diagnosis_is_no_failed_try(judged_before: Path) -> None:
    right = tuple(Part(name, True, "fine") for name in PART_NAMES)
    _judged[judged_before.read_bytes()] = Judgment(right, QUESTION)
    report = check.capstone(judged_before)
    assert (report.verdict, report.is_a_try, report.next_step) == ("your diagnosis is missing", False, "")
    assert report.mistake == "4 of 5 parts passed."


def test_of_the_explanation_only_what_is_true_of_the_script_is_shown() -> None:
    ranks = [
        "WorkersStuck: hang (mismatched collectives), no rank can make progress",
        "    rank 0   waits in barrier (my_train.py line 55:   optimizer.step())",
        "    rank 1   waits in DDP's all_reduce of float32 [9] (my_train.py line 52:   loss.backward())",
    ]
    after = [
        "  Mismatched collectives: rank 0 barrier (my_train.py line 55).",
        "  Next: look for fewer batches.",
        "    of code",
    ]
    assert where_ranks_are("\n".join(ranks + after)) == ranks


def test_the_hang_waits_for_a_letter_and_judges_it() -> None:
    judgment = Judgment(PARTS, QUESTION)
    assert [judgment.with_diagnosis(letter)[-1].passed for letter in ("", *LETTERS[0])] == [
        None,
        False,
        False,
        True,
        False,
    ]
    waiting = judgment.with_diagnosis("")[-1]
    assert waiting.lines[-4:] == ("A) a", "B) b", "C) c", "D) d")
    assert INJECTED in waiting.lines
    assert QUESTION.part("C").lines == QUESTION.explanation  # for the page, whose readers have no file of their own
    assert waiting.advice == 'read the explanation, choose a sentence, and add its letter: diagnosis="LETTER".'


def test_each_wrong_letter_costs_a_new_case(judged_before: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those who try one letter after the other are asked another question each time."""
    passing = tuple(Part(name, True, "fine") for name in PART_NAMES)
    _judged[judged_before.read_bytes()] = Judgment(passing, QUESTION)
    injected: list[int] = []

    def judge_again(script: Path, case: int, functions: object) -> Judgment:
        assert not functions  # the other parts are kept
        injected.append(case)
        return Judgment((), QUESTIONS[case], case)

    monkeypatch.setattr(capstone_check, "judge", judge_again)
    for case, letters in enumerate(LETTERS):
        report = check.capstone(judged_before, diagnosis=letters[0])
        assert (report.verdict, report.mistake) == ("not right yet", "4 of 5 parts passed.")
        assert f"{letters[0]}) is wrong. The explanation shows {letters[2]}) c." in report.text
        with pytest.raises(ValueError, match="diagnosis is one of the letters"):
            check.capstone(judged_before, diagnosis=letters[2])  # too late
        assert injected == [*range(1, case + 1)]
    assert check.capstone(judged_before).verdict == "your diagnosis is missing"
    assert injected == [1, 2, 3, 0]
    assert check.capstone(judged_before, diagnosis="C").passed
    assert injected == [1, 2, 3, 0]


def test_the_page_says_what_each_part_tests_and_no_picture_is_wider_than_it() -> None:
    page = as_page([*(Part(name, True, "fine") for name in PART_NAMES), PARTS[0], QUESTION.part("")], "", "my_train.py")
    assert all(f"<p>{html.escape(sentence)}</p>" in page for sentence in TESTED.values())
    assert list(TESTED) == [*PART_NAMES, NAME]
    assert "max-width: 100%" in page


def test_the_page_needs_nothing_else_and_shows_the_name_as_text() -> None:
    page = as_page(Judgment(PARTS, QUESTION).with_diagnosis("C"), "<Ada>", "my_train.py")
    assert "<h1>&lt;Ada&gt;: my_train.py</h1>" in page
    assert "2 of 3 parts passed." in page
    assert not re.search(r"(src|href)=\"(?!data:)", page)
    assert "look there." in page


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


@pytest.mark.no_second_try
@nightly
@pytest.mark.parametrize("name", RIGHT)
def test_right_scripts_of_each_style_pass_as_a_whole(name: str, tmp_path: Path) -> None:
    script = tmp_path / "my_train.py"
    script.write_text(RIGHT[name], encoding="utf-8")
    judgment = judge(script)
    assert [(part.passed, part.advice) for part in judgment.parts] == [(True, "")] * 4, judgment.parts
    assert isinstance(judgment.hang, HangQuestion), judgment.hang


@nightly
def test_each_case_is_another_hang_with_one_right_sentence(tmp_path: Path) -> None:
    trials = trials_of(MODEL, tmp_path)
    questions = [ask_about_a_hang(trials, case) for case in range(len(CASES))]
    for question, letters in zip(questions, LETTERS, strict=True):
        assert question.explanation[0].startswith("WorkersStuck: hang")
        assert [question.part(letter).passed for letter in letters].count(True) == 1
        assert len(set(question.choices.values())) == len(letters)
    assert len({question.choices[question.right] for question in questions}) == len(CASES)
