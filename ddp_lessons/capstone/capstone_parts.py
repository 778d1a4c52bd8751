"""The parts of the capstone: each makes runs of the script, and passes or fails with what they show."""

from __future__ import annotations

import itertools
import os
import random
import re
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from ddp_lessons.capstone import plain_training
from ddp_lessons.capstone.observed_rank import ALONE, KILLED, LEAVES
from ddp_lessons.capstone.script_runs import EPOCHS, RESULTS, Outcome, Trials, trials_of
from ddp_lessons.capstone.verdicts import NotYet, Part, part_of, refuse, table
from ddp_lessons.run.diagnosis.wording import count, listed
from ddp_lessons.sameness.sameness_report import NOT_SHARED, report_of
from ddp_lessons.show.timelines.timeline_figure import timeline

SIZES = (1, 2, 4)
STEPS_PER_EPOCH = -(-plain_training.TRAIN // plain_training.BATCH)
ARGUMENTS = "--epochs {} --checkpoint FILE.pt --out FILE.json"
CLOSE = 1e-5  # weights of the same training in another run, relative to the largest
_CLOSE_RESULT = 1e-3  # losses, relative
_LEAST_LIMIT_SECONDS, _TIMES_THE_PLAIN_PROGRAM = 30.0, 8
_EVENTS = 60  # of the newest calls, in the timeline
_TIMELINE_TITLE = "The last calls of both ranks: rank 0 saves 1 s late, and rank 1 is a little slower in each step"


def capstone_trials(script: Path) -> AbstractContextManager[Trials]:
    return trials_of(script, ARGUMENTS.format(EPOCHS), STEPS_PER_EPOCH)


def judged(part: Callable[[Trials], Part], trials: Trials) -> Part:
    try:
        return part(trials)
    except NotYet as verdict:
        return verdict.part


def watched(trials: Trials, ranks: int) -> Outcome:
    """The script, or the plain program (0), watched step by step for two epochs."""
    outcome = trials.run("step by step", ranks, ARGUMENTS.format(2), watch=2 * STEPS_PER_EPOCH)
    if ranks:
        return outcome.require_end()
    if outcome.status != 0:
        raise RuntimeError(f"the plain program failed or took too long on this machine: {outcome.last_line}")
    trials.limit = max(_LEAST_LIMIT_SECONDS, _TIMES_THE_PLAIN_PROGRAM * outcome.seconds)
    return outcome


def same_training(trials: Trials) -> Part:
    """Compare samples, gradients and weights of each step with those of the plain program."""
    runs = [watched(trials, ranks).record for ranks in (0, *SIZES)]
    report = report_of(runs)
    picture = report.drawn("Distance from the plain program, step by step")
    if not report.same:
        said, *lines, advice = report.lines
        raise NotYet(Part(False, said, advice.removeprefix("Next: "), tuple(lines), picture))
    refuse({"not_shared": NOT_SHARED in report.lines}, picture=picture)
    within = max(number for curve in report.gradients.values() for number in curve)
    facts: dict[str, Any] = {"steps": runs[0].steps[0], "ranks": listed(SIZES), "within": within}
    return part_of("the same as one process", True, picture=picture, **facts)


def survives_a_kill(trials: Trials) -> Part:
    """Kill one rank with SIGKILL, start the script again, and compare the weights at the end."""
    undisturbed = trials.run("undisturbed", 2).require_end()
    undisturbed.result()
    _require_safe_checkpoint(undisturbed)
    choice = random.Random(trials.script.read_bytes())
    rank, step = choice.randrange(2), trials.steps_per_epoch + choice.randrange(2, 2 * trials.steps_per_epoch - 1)
    moment = f"Rank {rank} was killed at step {step} of {EPOCHS * trials.steps_per_epoch}"
    killed = trials.run("one of them killed", 2, fault=(KILLED, rank, step))
    refuse({"kill_unnoticed": killed.status == 0}, moment=moment)
    resumed = trials.run("resumed", 2, resumes=killed).require_end()
    resumed.result()
    again, wanted = resumed.noted[0]["steps"], (EPOCHS - step // trials.steps_per_epoch) * trials.steps_per_epoch
    distance = distance_of_weights(resumed, undisturbed)
    rows = {"trained_again": again > wanted, "resumed_elsewhere": not distance <= CLOSE}
    refuse(rows, moment=moment, again=again, wanted=wanted, distance=distance, limit=CLOSE)
    return part_of("killed and resumed", True, moment=moment, again=again, equal=_equal(distance))


def _require_safe_checkpoint(outcome: Outcome) -> None:
    path = Path(os.path.abspath(outcome.files / "FILE.pt"))
    saved = [[file for file in noted["saved"] if path.parent in Path(file).parents] for noted in outcome.noted]
    writers = sum(map(bool, saved))  # files of their own names, too: the checkpoint is one file
    rows = {
        "no_checkpoint": not path.exists(),
        "several_writers": writers > 1,
        "written_in_place": any(str(path) in files for files in saved),
    }
    refuse(rows, writers=writers)


def distance_of_weights(one: Outcome, other: Outcome) -> float:
    """Of the final weights of all ranks, relative to the largest."""
    base = other.weights(0)
    return float(np.max([abs(one.weights(rank) - base) for rank in range(one.ranks)]) / abs(base).max())


def _equal(distance: float) -> str:
    return f"final weights that agree to within {distance:.0e}" if distance else "the same final weights, bit for bit"


def counts_each_sample(trials: Trials) -> Part:
    """605 training and 301 test sequences, which neither 2 nor 4 divides: each counts once."""
    plain = watched(trials, 0)
    wanted, whole = plain.result(), plain.record.all_samples
    for ranks in SIZES:
        outcome, on = watched(trials, ranks), count(ranks, "rank")
        result, parts = outcome.result(), outcome.record.all_samples
        extra, lost = (parts - whole).total(), (whole - parts).total()
        if not whole & parts:  # the inputs are laid out in another way: their number is all that can be compared
            extra, lost = (max(0, sign * (parts.total() - whole.total())) for sign in (1, -1))
        refuse({"other_samples": extra or lost}, on=on, extra=extra, lost=lost)
        others = _other_results(result, wanted)
        refuse(**number_tested(result["tested"], plain_training.TEST, ranks), what="`tested`", lines=others)
        refuse({"other_results": others}, lines=others[1:], on=on, result="".join(others[:1]))
    train, test = plain_training.TRAIN, plain_training.TEST
    return part_of("uneven data", True, train=train, test=test, ranks=listed(SIZES))


def number_tested(number: float, wanted: int, ranks: int) -> dict[str, Any]:
    """The rows for a wrong number of samples, and their facts."""
    rows = {
        "share_of_one_rank": ranks > 1 and abs(number - wanted / ranks) < 1,
        "counted_twice": number > wanted,
        "left_out": number < wanted,
    }
    return {"rows": rows, "number": number, "wanted": wanted, "on": count(ranks, "rank")}


def _other_results(result: Mapping[str, float], wanted: Mapping[str, float]) -> list[str]:
    allowed = {key: _CLOSE_RESULT * abs(wanted[key]) for key in RESULTS} | {"correct": 3}  # rounding turns a few
    return [
        f"{key} is {result[key]:.6g}, but {wanted[key]:.6g} in the plain program."
        for key in ("train_loss", "test_loss", "correct")
        if not abs(result[key] - wanted[key]) <= allowed[key]
    ]


def bears_a_slow_rank(trials: Trials) -> Part:
    """Rank 0 starts late and saves slowly; rank 1 is slow in each step."""
    undisturbed = trials.run("undisturbed", 2).require_end()
    wanted, delays = undisturbed.result(), {"start 0": 1.0, "save 0": 1.0, "step 1": 0.03}
    slow = trials.run("one of them slow", 2, delays=delays, records=True).require_end()
    others, calls = _other_results(slow.result(), wanted), slow.calls()
    distance = distance_of_weights(slow, undisturbed)
    picture = timeline(replace(calls, events=calls.events.newest(_EVENTS)), title=_TIMELINE_TITLE, axis="time")
    rows = {"other_results_when_slow": others, "other_weights_when_slow": not distance <= CLOSE}
    refuse(rows, picture=picture, result="".join(others[:1]), distance=distance, limit=CLOSE)
    return part_of("a slow rank", True, picture=picture, steps=slow.noted[0]["steps"], equal=_equal(distance))


PARTS = {
    "the same as one process": same_training,
    "killed and resumed": survives_a_kill,
    "uneven data": counts_each_sample,
    "a slow rank": bears_a_slow_rank,
}


# the last part: a fault is injected into a copy of the script, which then hangs, and the learner says what is wrong

HANG = "a hang, explained"
LETTERS = ("ABCD", "EFGH", "IJKL", "MNOP")  # of each case
_CASES = ((LEAVES, 0), (LEAVES, 1), (ALONE, 0), (ALONE, 1))  # the fault, and the rank
_WAITING = re.compile(r"^ *rank (\d+) +waits in (.+?)(?: of | \(|$)", re.MULTILINE)


def ask_about_a_hang(trials: Trials, case: int) -> dict[str, Part]:
    """Run a copy with a fault under `explain`, and make a question of its message. Return the part for each answer.

    What a letter means depends only on the script's text, so it stays the same from one judgment to the next. The
    answer "" is that of a learner who has not chosen yet.
    """
    trials.run("undisturbed", 2).require_end().result()  # without a fault the script has to work
    text = trials.script.read_bytes()
    choice = random.Random(text + bytes([case]))
    kind, rank = _CASES[(random.Random(text).randrange(len(_CASES)) + case) % len(_CASES)]
    step = STEPS_PER_EPOCH + choice.randrange(1, 9)
    outcome = trials.run(f"with fault {case + 1}, under explain", 2, fault=(kind, rank, step), explains=True)
    _, found, message = outcome.printed.partition("WorkersStuck: ")
    waits = {int(number): call for number, call in _WAITING.findall(message)}
    other = 1 - rank
    refuse({"no_hang": not found or other not in waits})
    facts = {"rank": rank, "other": other, "call": waits[other], "own": waits.get(rank, "barrier")}
    row = table()[HANG]
    sentences = [sentence.format(**facts) for sentence in row["choices"]]
    right_one = sentences[0 if kind == LEAVES else 1]
    choice.shuffle(sentences)
    choices = dict(zip(LETTERS[case], sentences, strict=True))
    (right,) = (letter for letter, sentence in choices.items() if sentence == right_one)
    # without the sentences after it: they look for the mistake in the learner's file, which has none
    first, *lines = f"{found}{message}".splitlines()
    ranks = [first, *itertools.takewhile(lambda line: line.startswith("    "), lines)]
    asked = [*ranks, row["injected"], "", *(f"{letter}) {sentence}" for letter, sentence in choices.items())]
    wrong = {
        letter: part_of("wrong_diagnosis", False, asked, letter=letter, right=right, sentence=right_one)
        for letter in choices
    }
    return {
        "": part_of("no_diagnosis", None, asked),
        **wrong,
        right: part_of(HANG, True, ranks, letter=right, sentence=right_one),
    }
