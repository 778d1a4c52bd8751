"""Run an answer next to the solution, and mistakes in the same trials."""

from __future__ import annotations

import contextlib
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, cast

from ddp_lessons.check.differences import difference
from ddp_lessons.check.exercise import Exercise, Fields, Mistake, Program, Trial
from ddp_lessons.check.launches import launch, workers
from ddp_lessons.check.ranks import run_one, run_trials
from ddp_lessons.check.traffic import Traffic, cut_into_runs
from ddp_lessons.record.results import NO_VALUE, Results
from ddp_lessons.run.diagnosis.failures import WorkerFailed, WorkersStuck

PATIENCE_SECONDS = 4.0  # for work that takes milliseconds
Trouble = WorkerFailed | WorkersStuck
_Ended = tuple[str, list[dict[str, Any]]]


@dataclass(frozen=True)
class Run:
    """What one program did in one trial, by rank."""

    fields: Sequence[Fields]
    traffic: Traffic


@dataclass(frozen=True, eq=False)
class Case:
    """One trial with one world size: the answer's run, and the solution's."""

    trial: Trial
    world_size: int
    yours: Run
    expected: Run

    @cached_property
    def arguments(self) -> tuple[Any, ...]:
        """Those of rank 0."""
        return self.trial.arguments(0, self.world_size)


@dataclass(frozen=True)
class Outcome:
    """All trials with one world size. Without trouble and without cases, there were too many calls to record."""

    cases: Sequence[Case] = ()
    trouble: Trouble | None = None
    begun: Sequence[Traffic] = ()  # the answer's, in each trial until the trouble ended the ranks


def try_answer(exercise: Exercise, answer: Program, world_size: int, trials: Sequence[Trial]) -> Outcome:
    trouble: Trouble | None = None
    try:
        ended = launch(
            run_trials,
            world_size,
            answer,
            exercise.call,
            trials,
            exercise.solution,
            timeout_seconds=PATIENCE_SECONDS,
            record="values",
        )
    except (WorkerFailed, WorkersStuck) as raised:
        if isinstance(raised, WorkersStuck) or NO_VALUE in raised.results.values:
            return Outcome((), raised, cut_into_runs(raised.results.events)[len(trials) :])
        # all ranks have returned, but their calls did not match
        trouble, ended = raised, cast("Results[_Ended]", raised.results)
    runs = _runs_of(exercise, ended)
    both = zip(trials, runs[len(trials) :], runs, strict=False)
    return Outcome([Case(trial, world_size, yours, expected) for trial, yours, expected in both], trouble)


def try_alone(exercise: Exercise, answer: Program, world_size: int, trial: Trial) -> Trouble | None:
    """How one trial ends by itself: then no rank waits in a barrier of ours."""
    try:
        launch(
            run_one,
            world_size,
            answer,
            exercise.call,
            trial,
            timeout_seconds=PATIENCE_SECONDS,
            record="values",
        )
    except (WorkerFailed, WorkersStuck) as raised:
        return raised
    return None


def recognized(exercise: Exercise, cases: Sequence[Case], is_right: bool) -> Mistake | None:
    """The first mistake that gives what the answer gives in these cases; best one that also sends the same."""
    alike = []
    world_size, trials = cases[0].world_size, [case.trial for case in cases]
    with contextlib.closing(_mistakes_run(exercise, world_size, trials)) as mistakes:
        for mistake, runs in mistakes:
            pairs = [(case.yours, run) for case, run in zip(cases, runs, strict=True)]
            if all(_agree(exercise, yours, run) for yours, run in pairs):
                if all(yours.traffic.pattern == run.traffic.pattern for yours, run in pairs):
                    return mistake
                alike.append(mistake)
    return alike[0] if alike and not is_right else None


def _mistakes_run(
    exercise: Exercise, world_size: int, trials: Sequence[Trial]
) -> Generator[tuple[Mistake, Sequence[Run]], None, None]:
    """Those that end, on the same ranks, or on new ones if a mistake has ended them."""
    ranks = None
    try:
        for mistake in exercise.mistakes:
            if ranks is None or ranks.why_closed:
                ranks = workers(world_size, timeout_seconds=PATIENCE_SECONDS / 2)
            try:
                ended = ranks.run(run_trials, mistake.program, exercise.call, trials)
            except (WorkerFailed, WorkersStuck):
                continue
            if runs := _runs_of(exercise, ended):
                yield mistake, runs
    finally:
        if ranks is not None:
            ranks.close()


def _runs_of(exercise: Exercise, ended: Results[_Ended]) -> list[Run]:
    """Nothing if there were too many calls to record."""
    if any(ended.events.dropped):
        return []
    traffic = cut_into_runs(ended.events, ended[0][0])
    by_run = zip(*(fields for _, fields in ended), strict=True)
    return [Run(exercise.together(fields), said) for fields, said in zip(by_run, traffic, strict=False)]


def _agree(exercise: Exercise, one: Run, other: Run) -> bool:
    return all(
        mine.keys() == theirs.keys()
        and all(difference(mine[name], theirs[name], exercise.tolerance) is None for name in theirs)
        for mine, theirs in zip(one.fields, other.fields, strict=True)
    )
