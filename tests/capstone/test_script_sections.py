"""check.training_script: right scripts pass each section, and wrong ones fail with the right words."""

from __future__ import annotations

from pathlib import Path

import pytest
from nights import by_day, nightly

from ddp_lessons import check
from ddp_lessons.capstone.script_sections import BEGIN, FINISHED, SECTIONS, continue_with, functions_of, put_into

SCRIPT = FINISHED.read_text(encoding="utf-8")

# section, piece of the finished script, what stands there instead, and words of the report
WRONG = [
    ("sampler", "    sampler.set_epoch(epoch)  # another order in each epoch\n", "", "in the same order"),
    ("sampler", "64 // dist.get_world_size()", "64", "the ranks take 30 and 30 steps instead of 60 each"),
    ("sampler", "sampler=sampler", "shuffle=True", "1,920 of the images enter the model on both ranks"),
    ("sampler", "Sampler(train_set, seed=0)", "Sampler(range(960), seed=0)", "960 of 1,920 images"),
    ("evaluation", "    dist.all_reduce(counts)\n", "", "500 instead of 1001: only one rank's share is counted"),
    ("evaluation", "dist.all_reduce(counts)", "dist.reduce(counts, 0)", "only one rank's share is counted"),
    ("evaluation", "DataLoader(subset, 500)", "DataLoader(test_set, 500)", "2002 instead of 1001"),
    ("evaluation", "    dist.all_reduce(counts)\n", "    return [800, 1001]\n", "no count is exchanged"),
    (
        "evaluation",
        "    dist.all_reduce(counts)\n",
        "    dist.all_reduce(counts[1:])\n",
        "images are classified correctly, but",
    ),
    ("checkpoint", "if path and dist.get_rank() == 0:", "if path:", "On 2 ranks, the script failed"),
    ("checkpoint", 'f"{path}.new")\n        os.replace(f"{path}.new", path)', "path)", "leaves a broken file"),
    ("checkpoint", 'return saved["epoch"]', "return 0", "it repeats finished epochs"),
    (
        "checkpoint",
        "in parts.items():\n        part.",
        'in {"model": parts["model"]}.items():\n        part.',
        "are off by",
    ),
    ("accumulation", " / len(parts)).backward()", ").backward()", "4.00 times"),
    ("accumulation", "number == len(parts)", "True", "after 4 of 4 parts"),
    ("accumulation", "number == len(parts)", "False", "after 0 of 4 parts"),
    ("accumulation", "chunk(args.accumulate)", "chunk(1)", "1 forward passes"),
]


@pytest.fixture(autouse=True)
def in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def written(text: str) -> None:
    Path("train.py").write_text(text, encoding="utf-8")


@pytest.mark.no_second_try
@pytest.mark.parametrize(("section", "line", "instead", "words"), by_day(WRONG, lambda wrong: wrong is WRONG[1]))
def test_a_wrong_line_is_named(section: str, line: str, instead: str, words: str) -> None:
    assert line in SCRIPT
    written(SCRIPT.replace(line, instead))
    report = check.training_script(section)
    assert (report.verdict, report.exercise) == ("not right yet", f'training_script("{section}")')
    assert words in report.text, report.text
    assert report.details[-1].startswith("  Next: ")


@nightly
@pytest.mark.no_second_try
@pytest.mark.parametrize("section", SECTIONS)
def test_the_finished_script_passes_each_section_killed_and_resumed_too(section: str) -> None:
    written(SCRIPT)
    report = check.training_script(section)
    assert report.passed, report.text


def test_what_the_lesson_gives_is_not_started() -> None:
    written(BEGIN.read_text(encoding="utf-8"))
    for section in ("sampler", "evaluation", "accumulation"):
        assert check.training_script(section).verdict == "not started yet"
    put_into(
        "train.py", "def save(path, epoch, parts):\n    ...  # your code\n", "def load(path, parts):\n    return 0\n"
    )
    assert check.training_script("checkpoint").verdict == "not started yet"


def test_without_the_file_or_a_known_section_it_says_so() -> None:
    assert "There is no file train.py here" in check.training_script("sampler").text
    with pytest.raises(
        ValueError, match="section must be one of 'sampler', 'evaluation', 'checkpoint', 'accumulation'"
    ):
        check.training_script("sampling")


def test_functions_replace_those_of_the_same_name_or_come_before_main() -> None:
    written("import os\n\n\n@cached\ndef f():\n    return 1\n\n\ndef main():\n    f()\n")
    put_into("train.py", "@new\ndef f():\n    return 2\n", "def g():\n    return 3\n")
    assert Path("train.py").read_text(encoding="utf-8") == (
        "import os\n\n\n@new\ndef f():\n    return 2\n\n\ndef g():\n    return 3\n\n\ndef main():\n    f()\n"
    )


def test_the_courses_functions_come_in_where_none_has_passed(capsys: pytest.CaptureFixture[str]) -> None:
    written(BEGIN.read_text(encoding="utf-8"))
    continue_with("evaluation")
    assert capsys.readouterr().out == "train.py now has the course's evaluate\n"
    text = Path("train.py").read_text(encoding="utf-8")
    assert functions_of(text)["evaluate"] == functions_of(SCRIPT)["evaluate"]
