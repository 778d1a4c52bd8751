"""Try a learner's function with one world size after the other, and report the first thing that is wrong."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import cast

from ddp_lessons.check.judging.check_launches import CheckFailed, launch
from ddp_lessons.check.judging.exercise import Case, Exercise
from ddp_lessons.check.judging.exercise_trials import Trial
from ddp_lessons.check.judging.judgment import Finding, forbidden, judge, not_agreed, not_waited_for, traffic_table
from ddp_lessons.check.judging.launch_troubles import Trouble, too_slow, was_not_begun, what_failed, what_is_stuck
from ddp_lessons.check.judging.report import Report, not_right, not_started
from ddp_lessons.check.judging.trial_ranks import Outcome, run_trials
from ddp_lessons.check.judging.trial_traffic import Traffic, cut_into_trials, group_between_trials
from ddp_lessons.check.judging.unwritten_functions import is_untouched, why_not_callable
from ddp_lessons.record.results import NO_VALUE, Results
from ddp_lessons.run.diagnosis.failures import WorkerFailed, WorkersStuck
from ddp_lessons.run.diagnosis.wording import joined
from ddp_lessons.run.launcher.limits import limits
from ddp_lessons.run.output.progress_line import LaunchCount
from ddp_lessons.run.wire.travel import pack_call

PATIENCE_SECONDS = 6.0  # for work that takes milliseconds


class _Concluded(Exception):
    """The report is ready, and no further trial is needed."""

    def __init__(self, report: Report) -> None:
        super().__init__(report.verdict)
        self.report = report


@dataclass(frozen=True)
class _Attempt:
    """All trials with one world size: their cases, or the failure that ended them and the traffic until then."""

    cases: Sequence[Case] = ()
    trouble: Trouble | None = None
    traffic: Sequence[Traffic] = ()


def examine(exercise: Exercise, function: Callable[..., object]) -> Report:
    """Launch `function` on each world size of the exercise until something is wrong."""
    try:
        return _examine(exercise, function)
    except _Concluded as early:
        return early.report


def _examine(exercise: Exercise, function: Callable[..., object]) -> Report:
    if refusal := why_not_callable(function, exercise.name, exercise.parameters):
        return not_right(exercise.name, refusal)
    if is_untouched(function):
        return not_started(exercise.name)
    try:
        pack_call(function, ())
    except TypeError as refusal:  # it cannot be sent to the ranks
        return not_right(exercise.name, f"{refusal}.")
    world_sizes = _allowed(exercise)
    with LaunchCount(len(world_sizes)) as launches:
        return _try_worlds(exercise, function, world_sizes, launches)


def _try_worlds(
    exercise: Exercise, function: Callable[..., object], world_sizes: Sequence[int], launches: LaunchCount
) -> Report:
    shown: list[str] = []
    for number, world_size in enumerate(world_sizes):
        trials = [trial for trial in exercise.trials if trial.smallest_world <= world_size <= trial.largest_world]
        attempt = _attempt(exercise, function, world_size, trials)
        if attempt.trouble is not None:
            launches.total = None  # as many as it takes to find the cause
        finding, culprit = _first_finding(exercise, function, world_size, trials, attempt)
        if finding is not None:
            mistake = finding.mistake
            if finding.is_about_the_answer:
                mistake = _join(_contrast(world_sizes[:number], world_size, trials, culprit), mistake)
            return not_right(exercise.name, mistake, finding.details)
        if world_size == 4 or (world_size == 2 and not shown):  # the larger one
            shown = traffic_table(exercise, attempt.cases[0])
    tried = (_tried(exercise, world_sizes), *_not_tried(exercise, world_sizes))
    return Report(exercise.name, True, "passed", "", (*tried, *shown))


def _attempt(exercise: Exercise, function: Callable[..., object], world_size: int, trials: Sequence[Trial]) -> _Attempt:
    trouble: Trouble | None = None
    try:
        results = launch(run_trials, world_size, function, trials, timeout_seconds=PATIENCE_SECONDS, record="values")
    except (WorkerFailed, WorkersStuck) as raised:
        events = raised.results.events
        if isinstance(raised, WorkersStuck) or NO_VALUE in raised.results.values:
            return _Attempt((), raised, cut_into_trials(events, group_between_trials(events), len(trials)))
        # all ranks have returned, but their calls did not match
        trouble, results = raised, cast("Results[tuple[str, list[Outcome]]]", raised.results)
    if any(results.events.dropped):
        mistake = "It calls torch.distributed more than 100,000 times. Send whole tensors or large parts of them."
        raise _Concluded(not_right(exercise.name, mistake))
    group = results[0][0]
    traffic = cut_into_trials(results.events, group, len(trials))
    by_trial = zip(trials, zip(*(outcomes for _, outcomes in results), strict=True), traffic, strict=True)
    return _Attempt([Case(trial, world_size, outcomes, said) for trial, outcomes, said in by_trial], trouble)


def _first_finding(
    exercise: Exercise,
    function: Callable[..., object],
    world_size: int,
    trials: Sequence[Trial],
    attempt: _Attempt,
) -> tuple[Finding | None, int]:
    """What is wrong, if something is, and in which trial."""
    for number, case in enumerate(attempt.cases):
        if number == 0 and world_size > 1 and _is_untouched(case) and not exercise.is_silent_when_wrong:
            raise _Concluded(_nothing_done(exercise, function, trials))
        if finding := _judged(exercise, case):
            return finding, number
    if attempt.trouble is None:
        return None, 0
    if attempt.cases:
        return Finding(*_what_happened(exercise, attempt.trouble, trials[0])), 0
    if not attempt.traffic and len(trials) > 1:
        # no rank survived to report how far they got: run the trials one by one
        for number, trial in enumerate(trials):
            alone = _attempt(exercise, function, world_size, [trial])
            finding, _ = _first_finding(exercise, function, world_size, [trial], alone)
            if finding is not None:
                return finding, number
    culprit = max(0, len(attempt.traffic) - 1)
    if finding := _seen_at_once(exercise, attempt.trouble, attempt.traffic, trials[culprit]):
        return finding, culprit
    if culprit:
        # the results of the earlier trials are lost, and one may be wrong already: run them again
        again = _attempt(exercise, function, world_size, trials[:culprit])
        earlier = _first_finding(exercise, function, world_size, trials[:culprit], again)
        if earlier[0] is not None:
            return earlier
    return _judge_trouble(exercise, attempt.trouble, attempt.traffic, trials[culprit]), culprit


def _judged(exercise: Exercise, case: Case) -> Finding | None:
    """Only code of the check runs here, on what the ranks sent."""
    try:
        return judge(exercise, case)
    except Exception:
        raise CheckFailed(traceback.format_exc()) from None


def _is_untouched(case: Case) -> bool:
    return not case.traffic.events and all(case.has_only_none(rank) for rank in range(case.world_size))


def _nothing_done(exercise: Exercise, function: Callable[..., object], trials: Sequence[Trial]) -> Report:
    """With two ranks nothing happened. Is it a stub, or a loop that is too short by one?"""
    if 3 in _allowed(exercise):
        more = _attempt(exercise, function, 3, trials[:1])
        if more.trouble is not None or not _is_untouched(more.cases[0]):
            return not_right(
                exercise.name,
                "With 2 ranks it makes no call, but with 3 ranks it does. Check the range of the loop.",
            )
    return not_started(exercise.name)


def _seen_at_once(exercise: Exercise, trouble: Trouble, all_traffic: Sequence[Traffic], trial: Trial) -> Finding | None:
    """What is certainly wrong, whatever the earlier trials gave."""
    stuck = isinstance(trouble, WorkersStuck)
    _, details = _what_happened(exercise, trouble, trial)
    for traffic in all_traffic:
        finding = forbidden(exercise, traffic) or (not_waited_for(traffic) if stuck else None)
        if finding or (finding := not_agreed(exercise, traffic)):
            return Finding(finding.mistake, [*finding.details, *([] if finding.stops_by_chance else details)])
    if isinstance(trouble, WorkersStuck) and (mistake := too_slow(trouble)):
        return Finding(mistake, details)
    return None


def _judge_trouble(exercise: Exercise, trouble: Trouble, all_traffic: Sequence[Traffic], trial: Trial) -> Finding:
    if isinstance(trouble, WorkerFailed) and was_not_begun(trouble) and not any(one.events for one in all_traffic):
        raise _Concluded(not_started(exercise.name))
    mistake, details = _what_happened(exercise, trouble, trial)
    for traffic in all_traffic:
        if finding := not_waited_for(traffic):
            return Finding(finding.mistake, [*finding.details, *([] if finding.stops_by_chance else details)])
    return Finding(mistake, details, is_about_the_answer=True)


def _what_happened(exercise: Exercise, trouble: Trouble, trial: Trial) -> tuple[str, list[str]]:
    if isinstance(trouble, WorkerFailed):
        return what_failed(trouble, exercise)
    return what_is_stuck(trouble, exercise, trial)


def _join(contrast: str, mistake: str) -> str:
    return f"{contrast}: {mistake[0].lower()}{mistake[1:]}" if contrast else mistake


def _contrast(before: Sequence[int], world_size: int, trials: Sequence[Trial], culprit: int) -> str:
    """What was right until then, as the start of the sentence."""
    if before and world_size == 1:
        return "It works with several ranks, but not with one rank"
    if before:
        return f"It works with {max(before)} ranks, but not with {world_size}"
    trait = trials[culprit].trait
    if culprit and trait == trials[1].trait:
        return "The first call is right, but the next one is not"
    return f"It works for {trials[0].named(0)}, but fails for {trait}" if trait else ""


def _allowed(exercise: Exercise) -> Sequence[int]:
    """The world sizes to try, within an instructor's limit."""
    most = limits().ranks
    allowed = [world_size for world_size in exercise.world_sizes if world_size <= most]
    if max(allowed, default=1) < 2 <= max(exercise.world_sizes):
        reason = (
            "This exercise needs at least 2 ranks, but the limit on this machine, set by the instructor, is 1. Ask "
            "the instructor to raise it."
        )
        raise _Concluded(Report(exercise.name, False, "cannot be checked here", reason))
    return allowed


def _tried(exercise: Exercise, world_sizes: Sequence[int]) -> str:
    return f"    right for {len(exercise.trials)} different {exercise.thing}s, with {joined(sorted(world_sizes))} ranks"


def _not_tried(exercise: Exercise, world_sizes: Sequence[int]) -> list[str]:
    left_out = [world_size for world_size in exercise.world_sizes if world_size not in world_sizes]
    if not left_out:
        return []
    most = max(world_sizes)
    sizes = joined(sorted(left_out))
    return [f"    not tried with {sizes} ranks: the limit on this machine, set by the instructor, is {most}"]
