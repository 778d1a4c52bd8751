"""Judge an answer: try it with one world size after the other, and report what is wrong first."""

from __future__ import annotations

import traceback
from collections.abc import Sequence
from typing import Any

from ddp_lessons.check.differences import NothingDone
from ddp_lessons.check.exercise import Exercise, Program, Trial
from ddp_lessons.check.findings import (
    OTHER_GROUPS,
    Finding,
    certainly_wrong,
    first_wrong,
    of_trouble,
    ranks_counted,
    traffic_table,
)
from ddp_lessons.check.launches import CheckFailed, compiler_at_hand
from ddp_lessons.check.report import Report, not_right, not_started
from ddp_lessons.check.runs import Outcome, try_alone, try_answer
from ddp_lessons.check.trials import AGAIN, in_words
from ddp_lessons.check.written import is_untouched, lacks_a_method, still_empty, why_not_callable
from ddp_lessons.run.diagnosis.failures import WorkersStuck
from ddp_lessons.run.diagnosis.wording import joined
from ddp_lessons.run.launcher.limits import limits
from ddp_lessons.run.nodes.hosts import NodeLost
from ddp_lessons.run.output.progress_line import ProgressLine
from ddp_lessons.run.output.screen import Screen, quiet_screen
from ddp_lessons.run.output.transcript import Transcript
from ddp_lessons.run.wire.travel import pack_call


class LaunchCount(Screen):
    """Shows which of these launches runs, within a `with`; they are quiet."""

    def __init__(self, total: int) -> None:
        self._total, self._done = total, 0
        self._line = ProgressLine()

    def show(self, transcripts: Sequence[Transcript], doing: str) -> None:
        number = self._done + 1
        self._line.show(f"launch {number} of {max(number, self._total)}")

    def finish(self, transcripts: Sequence[Transcript]) -> None:
        self._done += 1

    def __enter__(self) -> LaunchCount:
        self._before = quiet_screen.set(self)
        return self

    def __exit__(self, *error: object) -> None:
        quiet_screen.reset(self._before)
        self._line.__exit__()


def examine(exercise: Exercise, answer: Any) -> Report:
    what, parameters = ("class", None) if exercise.methods else ("function", exercise.parameters)
    refusal = why_not_callable(answer, parameters, what) or lacks_a_method(answer, exercise.methods)
    if refusal:
        return not_right(exercise.name, refusal)
    empty, is_all_of_it = still_empty(answer, exercise.methods)
    if is_untouched(answer) or is_all_of_it:
        return not_started(exercise.name)
    if empty:
        return not_right(exercise.name, f"{empty[0]} is not written yet.")
    try:
        pack_call(answer, ())
    except TypeError as cannot_travel:
        return not_right(exercise.name, f"{cannot_travel}.")
    world_sizes = [size for size in exercise.world_sizes if size <= limits().ranks]
    if max(world_sizes, default=1) < 2 <= max(exercise.world_sizes):
        needed = min(size for size in exercise.world_sizes if size > 1)
        reason = (
            f"This exercise needs at least {needed} ranks, but the limit on this machine, set by the instructor, is "
            f"{limits().ranks}. Ask the instructor to raise it."
        )
        return Report(exercise.name, False, "cannot be checked here", reason)
    if exercise.wraps_models:
        compiler_at_hand()
    try:
        with LaunchCount(len(world_sizes)):
            return _tried(exercise, answer, world_sizes)
    except (CheckFailed, NodeLost):
        raise
    except Exception:  # what a learner's code raises is caught before
        raise CheckFailed(traceback.format_exc()) from None


def _tried(exercise: Exercise, answer: Program, world_sizes: Sequence[int]) -> Report:
    shown: list[str] = []
    for number, world_size in enumerate(world_sizes):
        trials = [trial for trial in exercise.trials if trial.smallest_world <= world_size <= trial.largest_world]
        outcome = try_answer(exercise, answer, world_size, trials)
        finding = _finding(exercise, answer, world_size, trials, outcome)
        if finding is not None:
            if number == 0 and exercise.begins_silent and _is_silent(outcome):
                # is it a stub? A loop that is too short by one sends nothing with two ranks, but something with three
                others = [size for size in world_sizes[1:] if size > 1][:1]
                if all(_is_silent(try_answer(exercise, answer, size, trials[:1])) for size in others):
                    return not_started(exercise.name)
            sentence = finding.sentence
            if finding.trial is not None:
                sentence = _after(
                    _contrast(exercise, world_sizes[:number], world_size, trials, finding.trial), sentence
                )
            return not_right(exercise.name, sentence, finding.details)
        if world_size == 4 or (world_size == 2 and not shown):  # the larger one
            shown = traffic_table(exercise, outcome.cases[0])
    return Report(exercise.name, True, "passed", "", (*_what_was_tried(exercise, world_sizes), *shown))


def _finding(
    exercise: Exercise, answer: Program, world_size: int, trials: Sequence[Trial], outcome: Outcome
) -> Finding | None:
    """What is wrong first: in an earlier trial, or what ended the ranks."""
    trouble, begun = outcome.trouble, outcome.begun
    if trouble is not None and OTHER_GROUPS in str(trouble):  # then it is chance which values come out
        return of_trouble(trouble)
    for count in range(1, len(outcome.cases) + 1):
        if finding := first_wrong(exercise, outcome.cases[:count]):
            return finding
    if trouble is None:
        return None if outcome.cases else _TOO_MANY_CALLS
    for traffic in begun:
        if finding := certainly_wrong(exercise, traffic):
            return finding
    if len(begun) > 1:  # what came of the earlier trials is lost with the ranks: run them again
        earlier = trials[: len(begun) - 1]
        again = try_answer(exercise, answer, world_size, earlier)
        if finding := _finding(exercise, answer, world_size, earlier, again):
            return finding
    if not begun:
        return of_trouble(trouble)
    last = trials[len(begun) - 1]
    if isinstance(trouble, WorkersStuck) and not str(trouble).startswith("timeout"):
        trouble = try_alone(exercise, answer, world_size, last) or trouble
    return of_trouble(trouble, last)


_TOO_MANY_CALLS = Finding(
    "Your function calls torch.distributed more than 100,000 times. Send whole tensors or large parts of them."
)


def _is_silent(outcome: Outcome) -> bool:
    first = outcome.cases[:1]  # none, if the ranks failed or hang
    answers = [fields.get("answer") for case in first for fields in case.yours.fields]
    is_nothing_sent = all(not case.yours.traffic.events for case in first)
    return bool(first) and is_nothing_sent and all(isinstance(answer, NothingDone) for answer in answers)


def _after(contrast: str, sentence: str) -> str:
    if contrast and sentence[1:2].islower():  # no "nCCL"
        sentence = sentence[0].lower() + sentence[1:]
    return f"{contrast}: {sentence}" if contrast else sentence


def _contrast(
    exercise: Exercise, before: Sequence[int], world_size: int, trials: Sequence[Trial], culprit: Trial
) -> str:
    """What was right until then, as the start of the sentence."""
    if before and world_size == 1:
        return "It works with several ranks but not with one"
    if before:
        return f"It works with {ranks_counted(max(before))} but not with {world_size}"
    if culprit.trait == AGAIN:
        return "The first call returns the correct answer, but the next one does not"
    given = in_words(exercise.parameters, trials[0].arguments(0, world_size))
    return f"It works for {given} but fails for {culprit.trait}" if culprit.trait else ""


def _what_was_tried(exercise: Exercise, world_sizes: Sequence[int]) -> list[str]:
    ranks = f", with {joined(sorted(world_sizes))} ranks" if max(exercise.world_sizes) > 1 else ""
    lines = [f"    correct in {len(exercise.trials)} different trials{ranks}"]
    if left_out := sorted({*exercise.world_sizes} - {*world_sizes}):
        most = max(world_sizes)
        lines.append(
            f"    not tried with {joined(left_out)} ranks: the limit on this machine, set by the instructor, is {most}"
        )
    return lines
