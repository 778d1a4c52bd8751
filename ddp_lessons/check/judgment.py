"""Judge an answer: run it beside the solution, with one world size after the other, and say what is wrong first."""

from __future__ import annotations

import contextlib
import functools
import tempfile
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, cast

from ddp_lessons.check.differences import Difference, NothingDone, difference
from ddp_lessons.check.exercise import Exercise, Fields, Mistake, Program, Trial
from ddp_lessons.check.launches import CheckFailed, compiler_at_hand, launch, workers
from ddp_lessons.check.ranks import run_one, run_trials
from ddp_lessons.check.report import Report, not_right, not_started, table
from ddp_lessons.check.traffic import Traffic, cut_into_runs
from ddp_lessons.check.trials import AGAIN, in_words
from ddp_lessons.check.written import is_untouched, lacks_a_method, still_empty, why_not_callable
from ddp_lessons.record.results import NO_VALUE, Results
from ddp_lessons.run.diagnosis.failures import WorkerFailed, WorkersStuck
from ddp_lessons.run.diagnosis.wording import joined, ranks_named
from ddp_lessons.run.launcher.limits import limits
from ddp_lessons.run.nodes.node_commands import NodeLost
from ddp_lessons.run.output.progress_line import LaunchCount
from ddp_lessons.run.wire.travel import pack_call
from ddp_lessons.run.workers import Workers

PATIENCE_SECONDS = 6.0  # for work that takes milliseconds
_OTHER_GROUPS = "mismatch in new_group:"
_SMALL_CHANGE_BYTES = 64  # a count or a size may travel in addition to the data
_ONLY_OF_A_LAUNCH = ("  Last output", "  torchrun would", "  Next: fix that line", "  Next: look at the lines above")
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
class _Finding:
    sentence: str
    details: Sequence[str] = ()
    is_about_the_answer: bool = False  # then it matters what was right before, as in "fails for integers"


def examine(exercise: Exercise, answer: Any) -> Report:
    what, parameters = ("class", None) if exercise.methods else ("function", exercise.parameters)
    refusal = why_not_callable(answer, parameters, what)
    if refusal or (refusal := lacks_a_method(answer, exercise.methods)):
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
        reason = (
            "This exercise needs at least 2 ranks, but the limit on this machine, set by the instructor, is 1. Ask "
            "the instructor to raise it."
        )
        return Report(exercise.name, False, "cannot be checked here", reason)
    if exercise.wraps_models:
        compiler_at_hand()
    with LaunchCount(len(world_sizes)) as launches, tempfile.TemporaryDirectory(prefix="ddp-lessons-") as folder:
        if exercise.uses_files:
            exercise = replace(exercise, call=functools.partial(_with_folder, exercise.call, folder))
        return _try_worlds(exercise, answer, world_sizes, launches)


def _with_folder(call: Callable[..., Fields], folder: str, program: Program, *arguments: Any) -> Fields:
    return call(program, *arguments, folder)


def _try_worlds(exercise: Exercise, answer: Program, world_sizes: Sequence[int], launches: LaunchCount) -> Report:
    shown: list[str] = []
    for number, world_size in enumerate(world_sizes):
        trials = [trial for trial in exercise.trials if trial.smallest_world <= world_size <= trial.largest_world]
        judged = _Judged(exercise, answer, world_size, trials, launches)
        if judged.is_silent:
            more = world_sizes[number + 1 : number + 2]  # is it a stub, or a loop that is too short by one?
            if all(_Judged(exercise, answer, other, trials[:1], launches).is_silent for other in more):
                return not_started(exercise.name)
        if judged.finding is not None:
            sentence = judged.finding.sentence
            if judged.finding.is_about_the_answer:
                sentence = _after(_contrast(world_sizes[:number], judged), sentence)
            return not_right(exercise.name, sentence, judged.finding.details)
        if world_size == 4 or (world_size == 2 and not shown):  # the larger one
            shown = traffic_table(exercise, judged.cases[0])
    return Report(exercise.name, True, "passed", "", (*_tried(exercise, world_sizes), *shown))


class _Judged:
    """All trials with one world size: their cases, what is wrong first, and in which trial."""

    def __init__(
        self, exercise: Exercise, answer: Program, world_size: int, trials: Sequence[Trial], launches: LaunchCount
    ) -> None:
        self.exercise, self.answer, self.world_size, self.trials = exercise, answer, world_size, trials
        self.launches = launches
        self.cases: Sequence[Case] = ()
        self.finding: _Finding | None = None
        self.culprit = trials[0]
        self.is_silent = False
        trouble, begun = self._run()
        if trouble is not None:
            launches.total = None  # as many as it takes to find the cause
        if _OTHER_GROUPS in str(trouble):  # then it is chance which values come out, and where each rank stops
            assert trouble is not None
            self.finding = _Finding(*_in_words(trouble))
            return
        with _code_of_the_check():
            self._judge_cases()
        if trouble is not None and self.finding is None:
            self._judge_trouble(trouble, begun)

    def _run(self) -> tuple[Trouble | None, list[Traffic]]:
        """The failure that ended the runs, and the traffic of the answer until then."""
        exercise, count = self.exercise, len(self.trials)
        trouble: Trouble | None = None
        try:
            ended = launch(
                run_trials,
                self.world_size,
                self.answer,
                exercise.call,
                self.trials,
                exercise.solution,
                timeout_seconds=PATIENCE_SECONDS,
                record="values",
            )
        except (WorkerFailed, WorkersStuck) as raised:
            if isinstance(raised, WorkersStuck) or NO_VALUE in raised.results.values:
                return raised, cut_into_runs(raised.results.events)[count:]
            # all ranks have returned, but their calls did not match
            trouble, ended = raised, cast("Results[_Ended]", raised.results)
        with _code_of_the_check():
            runs = _runs_of(exercise, ended)
        if runs:
            pairs = zip(self.trials, runs[count:], runs[:count], strict=True)
            self.cases = [Case(trial, self.world_size, yours, expected) for trial, yours, expected in pairs]
        else:
            self.finding = _Finding(
                "It calls torch.distributed more than 100,000 times. Send whole tensors or large parts of them."
            )
        return trouble, []

    def _judge_cases(self) -> None:
        for number, case in enumerate(self.cases):
            if number == 0 and self.exercise.begins_silent and self.world_size > 1:
                self.is_silent = _is_silent(case)
            if self.finding is None and (finding := self._wrong(case)):
                self.finding, self.culprit = finding, case.trial

    def _judge_trouble(self, trouble: Trouble, begun: Sequence[Traffic]) -> None:
        """What was certainly wrong, whatever earlier trials gave; else an earlier trial that is wrong; else the end."""
        for traffic in begun:
            if finding := _forbidden(self.exercise, traffic) or _not_waited_for(traffic):
                self.finding = finding
                return
        # what came of the earlier trials is lost with the ranks: run them again
        last = max(1, len(begun) or len(self.trials)) - 1
        for number in [last] if begun else range(1, last + 1):
            if number:
                earlier = _Judged(self.exercise, self.answer, self.world_size, self.trials[:number], self.launches)
                if earlier.finding is not None:
                    self.finding, self.culprit = earlier.finding, earlier.culprit
                    return
        self.culprit = self.trials[last if begun else 0]
        if isinstance(trouble, WorkersStuck) and not str(trouble).startswith("timeout"):
            trouble = self._alone() or trouble
        self.finding = _Finding(*_in_words(trouble), is_about_the_answer=True)

    def _alone(self) -> Trouble | None:
        """How the last trial ends by itself: then no rank waits in a barrier of ours."""
        try:
            launch(
                run_one,
                self.world_size,
                self.answer,
                self.exercise.call,
                self.culprit,
                timeout_seconds=PATIENCE_SECONDS,
                record="values",
            )
        except (WorkerFailed, WorkersStuck) as raised:
            return raised
        return None

    def _wrong(self, case: Case) -> _Finding | None:
        """The first mistake in a case that has ended."""
        exercise, traffic = self.exercise, case.yours.traffic
        return (
            _forbidden(exercise, traffic)
            or _not_waited_for(traffic)
            or _changed_too_early(traffic)
            or self._wrong_answer(case)
            or _never_received(traffic)
            or self._wrong_traffic(case)
        )

    def _wrong_answer(self, case: Case) -> _Finding | None:
        rank, first = _first_difference(self.exercise, case)
        if first is None:
            return None
        early = case.yours.traffic.collective_never_waited_for()
        mistake = self._recognized(case, is_right=False) if early is None else None
        sentence = (
            (f"It reads the result of {early.call} too early. Call wait() on its handle first." if early else "")
            or (mistake.sentence if mistake is not None else "")
            or self._said_nothing(case, rank)
            or first.sentence
            or self._hint(first)
            or "Your answer is wrong. Compare it with the expected values below."
        )
        rows = [("", "yours", "expected"), (first.place, first.yours, first.expected)]
        given = in_words(self.exercise.parameters, case.trial.arguments(rank, case.world_size))
        details = [
            f"    {_world(case.world_size)}; rank {rank} was given {given}",
            *table(rows),
            *traffic_table(self.exercise, case),
        ]
        return _Finding(sentence.replace("{rank}", str(rank)), details, is_about_the_answer=True)

    def _hint(self, first: Difference) -> str:
        """The sentence for the field, or for several fields whose names begin alike."""
        place = "answer" if first.place.startswith("[") else first.place
        return next((hint for name, hint in self.exercise.hints.items() if place.startswith(name)), "")

    def _said_nothing(self, case: Case, rank: int) -> str:
        is_needed = case.expected.traffic.events and self.exercise.budget.least
        if case.world_size > 1 and is_needed and not case.yours.traffic.events:
            return (
                "No rank sends or receives anything, so each rank knows only what it was given. Communicate with "
                "torch.distributed. If there is a loop, check its range."
            )
        if not isinstance(case.yours.fields[rank].get("answer"), NothingDone):
            return ""
        return f"It returns None and does not change its tensor. Change it in place, or return {self.exercise.result}."

    def _wrong_traffic(self, case: Case) -> _Finding | None:
        sentence = _beside_the_budget(self.exercise, case)
        if not sentence:
            return None
        mistake = self._recognized(case, is_right=True)
        sent = case.yours.traffic.brought
        sentence = mistake.sentence.replace("{rank}", str(sent.index(max(sent)))) if mistake is not None else sentence
        details = [f"    {_world(case.world_size)}; the answer is right", *traffic_table(self.exercise, case)]
        return _Finding(sentence, details)

    def _recognized(self, culprit: Case, is_right: bool) -> Mistake | None:
        """The first mistake that gives what the answer gives, up to this trial; best one that also sends the same."""
        alike, cases = [], self.cases[: self.cases.index(culprit) + 1]
        with _MistakeRunner(self.exercise, self.world_size, [case.trial for case in cases]) as runner:
            for mistake in self.exercise.mistakes:
                runs = runner.runs_of(mistake.program)
                if not runs:
                    continue
                pairs = [*zip(cases, runs, strict=True)]
                if not all(_agree(self.exercise, case.yours, run) for case, run in pairs):
                    continue
                if all(case.yours.traffic.pattern == run.traffic.pattern for case, run in pairs):
                    return mistake
                alike.append(mistake)
        return alike[0] if alike and not is_right else None


@contextlib.contextmanager
def _code_of_the_check() -> Iterator[None]:
    """Nothing of the learner's runs here, so what raises is a defect of the check."""
    try:
        yield
    except (CheckFailed, NodeLost):
        raise
    except Exception:
        raise CheckFailed(traceback.format_exc()) from None


class _MistakeRunner:
    """Ranks for one mistake after the other; new ones if a mistake has ended them."""

    def __init__(self, exercise: Exercise, world_size: int, trials: Sequence[Trial]) -> None:
        self.exercise, self.world_size, self.trials = exercise, world_size, trials
        self._ranks: Workers | None = None

    def runs_of(self, program: Program) -> list[Run]:
        """Nothing if it fails."""
        if self._ranks is None or self._ranks.why_closed:
            self._ranks = workers(self.world_size, timeout_seconds=PATIENCE_SECONDS / 3)
        try:
            return _runs_of(self.exercise, self._ranks.run(run_trials, program, self.exercise.call, self.trials))
        except (WorkerFailed, WorkersStuck):
            return []

    def __enter__(self) -> _MistakeRunner:
        return self

    def __exit__(self, *_: object) -> None:
        if self._ranks is not None:
            self._ranks.close()


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


def _first_difference(exercise: Exercise, case: Case) -> tuple[int, Difference | None]:
    """The most important field comes first, and in it the first rank."""
    pairs = [*zip(case.yours.fields, case.expected.fields, strict=True)]
    for name in dict.fromkeys(name for _, expected in pairs for name in expected):
        for rank, (yours, expected) in enumerate(pairs):
            if name in expected and (
                found := difference(yours.get(name), expected[name], exercise.tolerance, place=name)
            ):
                return rank, found
    return 0, None


def _is_silent(case: Case) -> bool:
    answers = [fields.get("answer") for fields in case.yours.fields]
    return not case.yours.traffic.events and all(isinstance(answer, NothingDone) for answer in answers)


def _forbidden(exercise: Exercise, traffic: Traffic) -> _Finding | None:
    allowed = exercise.budget.calls
    event = next((one for one in traffic.collectives if allowed and one.call not in allowed), None)
    if event is None:
        return None
    return _Finding(
        f"It calls the collective {event.call}. Use only messages: send, recv, isend and irecv.",
        [f"    rank {event.rank} calls {event.call} ({event.place})"],
    )


def _not_waited_for(traffic: Traffic) -> _Finding | None:
    event = traffic.never_waited_for()
    if event is None:
        return None
    what = "sent" if event.operation == "send" else "in the buffer"
    return _Finding(
        f"It never waits for its {event.call}, so the data may not be {what} yet. Keep each returned handle and call "
        "wait() on it.",
        [f"    rank {event.rank} calls {event.call} ({event.place}) and never waits for it"],
    )


def _changed_too_early(traffic: Traffic) -> _Finding | None:
    event = next((event for event in traffic.events if event.remark == "changed"), None)
    if event is None:
        return None
    return _Finding(
        f"It changes the tensor of {event.call} before wait(), so the changed values may be sent. Call wait() first.",
        [f"    rank {event.rank} calls {event.call} ({event.place})"],
    )


def _never_received(traffic: Traffic) -> _Finding | None:
    event = traffic.never_received()
    if event is None:
        return None
    return _Finding(
        f"A message from rank {event.rank} to rank {event.peer} is never received. Add the matching recv.",
        [f"    rank {event.rank} calls {event.call} ({event.place})"],
    )


def _carried(exercise: Exercise, traffic: Traffic) -> int:
    if exercise.budget.measured.startswith("messages"):
        return max(map(traffic.messages_of, range(len(traffic.by_rank))))
    return sum(traffic.brought) if exercise.budget.measured.endswith("together") else max(traffic.brought)


def _needed(exercise: Exercise, case: Case) -> int:
    most = exercise.budget.most
    return most(case) if most is not None else _carried(exercise, case.expected.traffic)


def _beside_the_budget(exercise: Exercise, case: Case) -> str:
    budget, traffic = exercise.budget, case.yours.traffic
    if case.world_size > 1 and sum(traffic.brought) < budget.least * sum(case.expected.traffic.brought):
        return "Too little is communicated for each rank to know the answer. Send the data with torch.distributed only."
    yours, needed = _carried(exercise, traffic), _needed(exercise, case)
    small_change = 0 if budget.measured.startswith("messages") else _SMALL_CHANGE_BYTES
    if budget.most is not None and yours > needed + small_change:
        are = "is" if needed == 1 else "are"
        much = f"Too much is communicated: {yours:,} {budget.measured}, but {needed:,} {are} enough."
        return f"{much} {budget.too_much}".rstrip()
    for rank in range(case.world_size):
        targets = traffic.destinations(rank)
        if targets and budget.may_send is not None and not budget.may_send(rank, case.world_size, targets):
            return f"Rank {rank} sends to {ranks_named(sorted(targets))}. {budget.too_much}".rstrip()
    return ""


def traffic_table(exercise: Exercise, case: Case) -> list[str]:
    yours, needed = _carried(exercise, case.yours.traffic), _needed(exercise, case)
    if case.world_size == 1 or not (yours or needed):
        return []
    head = (f"traffic of {_world(case.world_size)}", "yours", "needed")
    return table([head, (exercise.budget.measured, f"{yours:,}", f"{needed:,}")])


def _in_words(trouble: Trouble) -> tuple[str, list[str]]:
    """The launch's own reason: the sentences of its message, and below them where each rank is, and its advice."""
    first, *others = str(trouble).split("\n")
    details: list[str] = []
    advice: list[str] = []
    sentences = [f"{first[0].upper()}{first[1:].rstrip('.:')}."]
    is_shown = True
    for line in others:
        if not line.startswith("   "):
            is_shown = not line.startswith(_ONLY_OF_A_LAUNCH)
            if is_shown:
                is_fact = line.startswith("  Rank") and line.endswith(("stopped.", "returned."))
                (advice if line.startswith("  Next") or is_fact else sentences).append(line.strip())
        elif is_shown:
            details.append(line)
    if _OTHER_GROUPS in str(trouble):
        place = next(place for place, sentence in enumerate(sentences) if _OTHER_GROUPS in sentence)
        sentences, details = sentences[place:], []
    return " ".join(sentences), [*details, *(f"    {line}" for line in advice)]


def _after(contrast: str, sentence: str) -> str:
    if contrast and sentence[1:2].islower():  # no "nCCL"
        sentence = sentence[0].lower() + sentence[1:]
    return f"{contrast}: {sentence}" if contrast else sentence


def _contrast(before: Sequence[int], judged: _Judged) -> str:
    """What was right until then, as the start of the sentence."""
    if before and judged.world_size == 1:
        return "It works with several ranks, but not with one rank"
    if before:
        return f"It works with {_world(max(before))}, but not with {judged.world_size}"
    first, trait = judged.trials[0], judged.culprit.trait
    if trait == AGAIN:
        return "The first call is right, but the next one is not"
    given = in_words(judged.exercise.parameters, first.arguments(0, judged.world_size))
    return f"It works for {given}, but fails for {trait}" if trait else ""


def _tried(exercise: Exercise, world_sizes: Sequence[int]) -> list[str]:
    ranks = f", with {joined(sorted(world_sizes))} ranks" if max(exercise.world_sizes) > 1 else ""
    lines = [f"    right in {len(exercise.trials)} different trials{ranks}"]
    if left_out := sorted({*exercise.world_sizes} - {*world_sizes}):
        most = max(world_sizes)
        lines.append(
            f"    not tried with {joined(left_out)} ranks: the limit on this machine, set by the instructor, is {most}"
        )
    return lines


def _world(world_size: int) -> str:
    return "1 rank" if world_size == 1 else f"{world_size} ranks"
