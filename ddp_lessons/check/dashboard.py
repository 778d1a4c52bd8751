"""Which exercises a learner has passed, tried or not started, by lesson, and which checks count.

A check counts if it judged something that the learner wrote: not an empty exercise, not an unchanged program from a
lesson, and not the package's own solution.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import inspect
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, ParamSpec

from ddp_lessons.check.launches import CheckFailed, launches_on
from ddp_lessons.check.progress_file import Entry, keep, recall
from ddp_lessons.check.report import Report, check_failed
from ddp_lessons.run.nodes.node_commands import Nodes
from ddp_lessons.run.output.cards import Kind, framed, in_words, mark
from ddp_lessons.run.output.terminal_text import folded, painted

P = ParamSpec("P")
State = Literal["passed", "tried", "open"]
_KINDS: dict[State, Kind] = {"passed": "passed", "tried": "wrong", "open": "open"}
_ARE_READ = ("reading(", "diagnosis(")  # messages, and what jobs left behind
_TRIES_BEFORE_HINTS, _STUCK = 3, "Stuck? Open the hints of this exercise."  # only what is read has none


@dataclass(frozen=True)
class Lesson:
    number: int
    title: str
    exercises: tuple[str, ...]


_LISTS = json.loads(Path(__file__).with_name("lessons.json").read_text(encoding="utf-8"))  # docs/instructor/write.py
LESSONS = tuple(Lesson(one["number"], one["title"], tuple(one["exercises"])) for one in _LISTS["lessons"])
LESSON_OF = {exercise: lesson.number for lesson in LESSONS for exercise in lesson.exercises}
GIVEN: Mapping[str, str] = _LISTS["given"]  # functions that lessons give to be repaired, by fingerprint


def counting(check: Callable[P, Report]) -> Callable[P, Report]:
    """`check`, with its outcome recorded for the learner, and with a further argument: the nodes to run `on`."""

    @functools.wraps(check)
    def checked(*args: P.args, **kwargs: P.kwargs) -> Report:
        on: Any = kwargs.pop("on", None)
        written = next(iter((*args, *kwargs.values())), None)
        return counted(check.__name__, written, on, lambda: check(*args, **kwargs))

    own = inspect.signature(check)
    on = inspect.Parameter("on", inspect.Parameter.KEYWORD_ONLY, default=None, annotation="Nodes | None")
    checked.__signature__ = own.replace(parameters=[*own.parameters.values(), on])  # type: ignore[attr-defined]
    return checked


def counted(name: str, written: object, on: Nodes | None, judge: Callable[[], Report]) -> Report:
    """Judge what was written, on these nodes, and record the outcome."""
    with launches_on(on, name):
        try:
            report = judge()
        except CheckFailed as own:
            report = check_failed(name, str(own))
    next_step = _after(report.exercise) if report.passed else ""
    if report.exercise in LESSON_OF and report.is_a_try and is_the_learners(written):
        entry = keep(report.exercise, LESSON_OF[report.exercise], report.passed)
        if entry.tries >= _TRIES_BEFORE_HINTS and not entry.passed and not report.exercise.startswith(_ARE_READ):
            next_step = _STUCK
    return dataclasses.replace(report, next_step=next_step)


def _after(exercise: str) -> str:
    """Where to go after a passed exercise."""
    every = list(LESSON_OF)
    if exercise not in every:
        return ""
    if exercise == every[-1]:
        return "That was the last exercise of the course."
    following = every[every.index(exercise) + 1]
    lesson = LESSON_OF[following]
    where = "this lesson" if lesson == LESSON_OF[exercise] else f"lesson {lesson}"
    return f"Next exercise: `{following}`, in {where}."


def is_the_learners(written: object) -> bool:
    if str(getattr(written, "__module__", "")).split(".")[0] == __name__.split(".")[0]:
        return False
    try:
        lines = inspect.getsource(written)  # type: ignore[arg-type]
    except Exception:  # not a function, or typed in where no source is kept
        return True
    return fingerprint(lines) not in GIVEN


def fingerprint(lines: str) -> str:
    return hashlib.sha256(lines.strip().encode()).hexdigest()[:16]


def progress() -> Progress:
    """Show which exercises you have passed, by lesson. They are recorded in a file on this machine, only for you."""
    entries, notes = recall()
    return Progress(entries, tuple(notes))


@dataclass(frozen=True, repr=False)
class Progress:
    """The recorded state of all exercises. It displays itself as the last line of a cell."""

    entries: Mapping[str, Entry]
    notes: tuple[str, ...] = ()

    def state(self, exercise: str) -> State:
        entry = self.entries.get(exercise)
        return "open" if entry is None else "passed" if entry.passed else "tried"

    def count(self, state: State, lesson: Lesson | None = None) -> int:
        return [self.state(exercise) for exercise in (lesson.exercises if lesson else LESSON_OF)].count(state)

    @property
    def headline(self) -> str:
        passed, tried = self.count("passed"), self.count("tried")
        return f"Exercises: {passed} of {len(LESSON_OF)} passed" + (f", {tried} more tried" if tried else "")

    @property
    def text(self) -> str:
        return self._written(lambda state: f"{state:6}", lambda note: note)

    def _written(self, state: Callable[[State], str], note: Callable[[str], str]) -> str:
        width = max(map(len, LESSON_OF))
        lines = [self.headline]
        for lesson in LESSONS:
            lines.append(f"  lesson {lesson.number}: {lesson.title}")
            for exercise in lesson.exercises:
                lines.append(f"    {exercise:{width}}   {state(self.state(exercise))}   {self._how(exercise)}".rstrip())
        return "\n".join([*lines, *map(note, self.notes)])

    def _how(self, exercise: str) -> str:
        entry = self.entries.get(exercise)
        if entry is None:
            return ""
        tries = f"{entry.tries} {'try' if entry.tries == 1 else 'tries'}"
        return f"{entry.passed[:10]}, {tries}" if entry.passed else tries

    def __repr__(self) -> str:
        """On a terminal in color; `text` is plain everywhere."""
        return self._written(
            lambda state: f"{state:6}" if state == "open" else painted(f"{state:6}", _KINDS[state]), folded
        )

    def _repr_html_(self) -> str:
        rows = "".join(self._row(lesson) for lesson in LESSONS)
        notes = "".join(f"<p>{in_words(note)}</p>" for note in self.notes)
        passed = self.count("passed")
        bar = f'<progress max="{len(LESSON_OF)}" value="{passed}" aria-hidden="true" style="width:100%"></progress>'
        head = f"<p><strong>{self.headline}</strong></p>{bar}"
        kind: Kind = "passed" if passed == len(LESSON_OF) else "open"
        return framed(f'{head}<div class="ddp-wide" tabindex="0"><table>{rows}</table></div>{notes}', kind)

    def _row(self, lesson: Lesson) -> str:
        """A lesson, and each of its exercises with its state."""
        name = f'<th scope="row">{lesson.number}. {in_words(lesson.title)}</th>'
        return f"<tr>{name}<td style='text-align:left'>{''.join(map(self._state, lesson.exercises))}</td></tr>"

    def _state(self, exercise: str) -> str:
        state, how = self.state(exercise), self._how(exercise)
        return f"<div>{mark(_KINDS[state])}<code>{exercise}</code> {state}{f' ({how})' if how else ''}</div>"
