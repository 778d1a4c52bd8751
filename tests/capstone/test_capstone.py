"""check.capstone around its parts: what it needs, how it ends, the question about the hang, and the page."""

from __future__ import annotations

import inspect
import json
import re
import runpy
from pathlib import Path

import pytest
from effort import EVERYTHING
from processes import PROJECT, Program
from right_styles import RIGHT

from ddp_lessons import check
from ddp_lessons.capstone import plain_training, script_runs
from ddp_lessons.capstone.capstone_check import Judgement, as_page, judge
from ddp_lessons.capstone.capstone_parts import Part, steps_per_second
from ddp_lessons.capstone.injected_hang import LETTERS, HangQuestion

LESSON = PROJECT / "notebooks" / "15_capstone.ipynb"
QUESTION = HangQuestion(("hang", "    rank 0   waits in barrier"), dict(zip(LETTERS, "abcd", strict=True)), "C")
PARTS = (Part("one", True, "2 of 2", picture={"two": 2.0, "ranks": 1.0}), Part("two", False, "1 of 2.", "look there."))
SLEEPS = "import time\ntime.sleep(600)\n"


def test_without_a_script_it_is_not_started(tmp_path: Path) -> None:
    assert check.capstone(tmp_path / "my_train.py").text == "check.capstone: not started yet"


def test_the_plain_program_as_it_is_counts_as_not_started(tmp_path: Path) -> None:
    script = tmp_path / "my_train.py"
    script.write_text(f"{inspect.getsource(plain_training)}\n\n")
    assert check.capstone(script).text == "check.capstone: not started yet"


def test_a_file_that_is_no_program_is_refused_with_its_line(tmp_path: Path) -> None:
    script = tmp_path / "my_train.py"
    script.write_text("import torch\nfor\n")
    report = check.capstone(script)
    assert report.mistake == "my_train.py is not a Python program: SyntaxError in line 2."
    assert report.details == ("  Next: fix that line, and run it once.",)


def test_a_letter_that_is_no_choice_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="diagnosis is one of the letters A, B, C, D, not 'E'"):
        check.capstone(tmp_path / "my_train.py", diagnosis="E")


def test_without_torchrun_it_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(script_runs, "TORCHRUN", "torch.distributed.not_there")
    script = tmp_path / "my_train.py"
    script.write_text(SLEEPS)
    report = check.capstone(script)
    assert (report.verdict, report.passed, report.is_a_try) == ("could not judge", False, False)
    assert report.mistake.startswith("torchrun is missing: Python finds no module torch.distributed.run.\nNext: run ")


def test_stop_ends_every_process_and_says_so(tmp_path: Path) -> None:
    (tmp_path / "my_train.py").write_text(SLEEPS)
    source = "from ddp_lessons import check\nprint(check.capstone('my_train.py'))"
    with Program(source, folder=tmp_path) as program:
        program.wait_until_said("You can stop it at any time.")
        before = len(program.marked())
        while len(program.marked()) <= before:  # the plain programs
            pass
        program.interrupt()
        said = program.finish()
        assert not program.marked()
    assert "check.capstone: stopped\n  You stopped it, and every process of it was ended." in said
    assert not list(tmp_path.glob("*.html"))


def test_the_hang_waits_for_a_letter_and_judges_it() -> None:
    judgement = Judgement(PARTS, QUESTION)
    assert [judgement.with_diagnosis(letter)[-1].passed for letter in ("", *LETTERS)] == [
        None,
        False,
        False,
        True,
        False,
    ]
    waiting = judgement.with_diagnosis("")[-1]
    assert waiting.lines[-4:] == ("A) a", "B) b", "C) c", "D) d")
    assert waiting.advice == 'read the explanation, choose a sentence, and add its letter: diagnosis="A".'


def test_the_page_needs_nothing_else_and_shows_the_name_as_text() -> None:
    page = as_page(Judgement(PARTS, QUESTION).with_diagnosis("C"), "<Ada>", "my_train.py")
    assert "<h1>&lt;Ada&gt;: my_train.py</h1>" in page
    assert "2 of 3 parts passed." in page
    assert not re.search(r"(src|href)=\"(?!data:)", page)
    assert "look there." in page


def test_the_speed_is_that_of_the_fastest_stretch() -> None:
    steps = [(0.0, float(second)) for second in range(10)]
    assert steps_per_second(steps) == pytest.approx(1.0)
    assert steps_per_second([*steps, *((0.0, 9 + 0.5 * number) for number in range(1, 8))]) == pytest.approx(2.0)
    assert steps_per_second(steps[:3]) == 0.0


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


@pytest.mark.skipif(not EVERYTHING, reason="takes minutes")
@pytest.mark.parametrize("name", RIGHT)
def test_right_scripts_of_each_style_pass_as_a_whole(name: str, tmp_path: Path) -> None:
    script = tmp_path / "my_train.py"
    script.write_text(RIGHT[name], encoding="utf-8")
    judgement = judge(script)
    assert [(part.passed, part.advice) for part in judgement.parts] == [(True, "")] * 5, judgement.parts
    assert isinstance(judgement.hang, HangQuestion), judgement.hang
    assert judgement.hang.explanation[0].startswith("WorkersStuck: hang")
    assert [judgement.hang.part(letter).passed for letter in LETTERS].count(True) == 1
    assert len(set(judgement.hang.choices.values())) == len(LETTERS)
