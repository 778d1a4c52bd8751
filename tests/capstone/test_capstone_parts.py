"""Each part passes right scripts and fails broken ones with what was seen; and the question about an injected hang."""

from __future__ import annotations

import functools
import math
import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from broken_scripts import BROKEN, KILLED
from nights import by_day, nightly
from right_styles import MODEL, RIGHT

from ddp_lessons.capstone import capstone_parts
from ddp_lessons.capstone.capstone_check import judge
from ddp_lessons.capstone.capstone_parts import (
    ARGUMENTS,
    CLOSE,
    HANG,
    LETTERS,
    PARTS,
    STEPS_PER_EPOCH,
    ask_about_a_hang,
    distance_of_weights,
    judged,
    watched,
)
from ddp_lessons.capstone.script_runs import EPOCHS, Outcome, Trials
from ddp_lessons.capstone.verdicts import NotYet, table

# of three of the four parts, each found quickly
QUICK = ("an exception on the second rank", "results of rank 0 only", "no checkpoint")
HUNG = "a collective call on rank 0 only"
ENDED = Outcome(Path("/runs/3"), Path("/runs/3"), 2, "my_train.py", ARGUMENTS.format(EPOCHS), 1, 1.0, 10.0, "")
EXPLANATION = """WorkersStuck: hang (mismatched collectives), no rank can make progress
    rank 0   waits in barrier (my_train.py line 55:   optimizer.step())
    rank 1   waits in DDP's all_reduce of float32 [9] (my_train.py line 52:   loss.backward())
  Mismatched collectives: rank 0 called barrier (my_train.py line 55).
  Next: look for fewer batches.
    of code
"""


def trials_of(source: str, folder: Path) -> Trials:
    script = folder / "my_train.py"
    script.write_text(source, encoding="utf-8")
    return Trials(script, folder, ARGUMENTS.format(EPOCHS), STEPS_PER_EPOCH)


@functools.cache
def run_of_the_plain_program() -> dict[tuple[str, int, str], Outcome]:
    """It does not depend on the script."""
    trials = trials_of("", Path(tempfile.mkdtemp()))
    watched(trials, 0)
    return trials.kept


@pytest.mark.no_second_try
@pytest.mark.parametrize("name", by_day(BROKEN, lambda name: name in QUICK))
def test_a_broken_script_fails_in_its_part(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(capstone_parts, "SIZES", (2,))
    source, (part_name, said, advice) = BROKEN[name]
    trials = trials_of(source, tmp_path)
    trials.kept |= run_of_the_plain_program() if part_name != KILLED else {}
    trials.limit = 40.0 if name == HUNG else 200.0
    monkeypatch.setattr(capstone_parts, "_LEAST_LIMIT_SECONDS", trials.limit)
    part = judged(PARTS[part_name], trials)
    assert part.passed is False
    assert said in part.said, part
    assert advice in part.advice, part
    assert part.advice.endswith((".", "`."))


@pytest.mark.no_second_try
@nightly
@pytest.mark.parametrize("name", RIGHT)
def test_right_scripts_of_each_style_pass_as_a_whole(name: str, tmp_path: Path) -> None:
    script = tmp_path / "my_train.py"
    script.write_text(RIGHT[name], encoding="utf-8")
    judgment = judge(script)
    assert [part.passed for part in judgment.parts.values()] == [True] * 4, judgment.parts
    assert [*judgment.answers] == ["", *LETTERS[0]], judgment.answers


@pytest.mark.parametrize(
    ("error", "advice"),
    [
        (
            "FileNotFoundError: [Errno 2] No such file: '/runs/3/FILE.pt.new' -> '/runs/3/FILE.pt'",
            "let only rank 0 save",
        ),
        ("FileNotFoundError: [Errno 2] No such file: '/runs/3/FILE.pt'", "run `"),
        ("[rank1]: ValueError: no data", "run `"),
    ],
)
def test_a_file_that_another_rank_renamed_points_to_rank_0(error: str, advice: str) -> None:
    with pytest.raises(NotYet) as verdict:
        replace(ENDED, printed=f"Traceback\n{error}\n").require_end()
    part = verdict.value.part
    assert "/runs" not in part.said  # each run has a folder of its own: the same failure reads the same in each
    assert part.advice.startswith(advice)


def test_weights_that_are_no_numbers_are_far_from_all_others(tmp_path: Path) -> None:
    for rank, weight in enumerate((1.0, math.nan)):
        np.save(tmp_path / f"weights-{rank}.npy", np.array([weight, 2.0]))
    outcome = replace(ENDED, folder=tmp_path)
    assert not distance_of_weights(outcome, outcome) <= CLOSE
    assert distance_of_weights(replace(outcome, ranks=1), outcome) == 0.0


@pytest.mark.parametrize("case", range(4))
def test_the_question_shows_where_ranks_wait_and_one_of_its_sentences_is_right(case: int, tmp_path: Path) -> None:
    trials = trials_of(MODEL, tmp_path)
    (tmp_path / "FILE.json").write_text('{"train_loss": 1, "test_loss": 1, "correct": 1, "tested": 1}')
    for rank in range(2):
        (tmp_path / f"rank-{rank}.json").touch()
    ended = replace(ENDED, folder=tmp_path, files=tmp_path, status=0, printed=EXPLANATION)
    for name in ("undisturbed", f"with fault {case + 1}, under explain"):
        trials.kept[name, 2, trials.arguments] = ended

    answers = ask_about_a_hang(trials, case)
    assert [*answers] == ["", *LETTERS[case]]
    unanswered, *parts = answers.values()
    (right,) = (part for part in parts if part.passed)
    ranks = EXPLANATION.splitlines()[:3]  # the sentences after them look for a mistake that is not in the script
    assert unanswered.passed is None
    assert unanswered.lines[:5] == (*ranks, table()[HANG]["injected"], "")
    assert right.said.replace(" is correct:", "") in unanswered.lines[5:]
    assert right.lines == (*ranks,)  # for the page, whose readers have no file of their own
    assert len({line[3:] for line in unanswered.lines[5:]}) == len(parts) == 4
    assert all(part.said.endswith(right.said[len("A) is correct:") :]) for part in parts)


@nightly
def test_each_case_is_another_hang(tmp_path: Path) -> None:
    trials = trials_of(MODEL, tmp_path)
    questions = [ask_about_a_hang(trials, case) for case in range(len(LETTERS))]
    assert all(question[""].lines[0].startswith("WorkersStuck: hang") for question in questions)
    right = [part.said[2:] for question in questions for part in question.values() if part.passed]
    assert len(set(right)) == len(right) == len(LETTERS)
