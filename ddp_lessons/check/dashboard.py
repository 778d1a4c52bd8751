"""Which exercises a learner has passed, tried or not started, by lesson, and which checks count.

A check counts if it judged something that the learner wrote: not an empty exercise, not an unchanged program from a
lesson, and not the package's own solution.
"""

from __future__ import annotations

import dataclasses
import hashlib
import inspect
import itertools
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from ddp_lessons.check.launches import CheckFailed, launches_on
from ddp_lessons.check.progress_file import Entry, keep, recall
from ddp_lessons.check.report import Report, check_failed
from ddp_lessons.run.nodes.hosts import Nodes
from ddp_lessons.run.output.cards import Kind, framed, in_words, mark
from ddp_lessons.run.output.terminal_text import folded, painted

State = Literal["passed", "tried", "open"]
_KINDS: dict[State, Kind] = {"passed": "passed", "tried": "wrong", "open": "open"}
_ARE_READ = ("reading(", "diagnosis(")  # messages, and what jobs left behind
_TRIES_BEFORE_HINTS, _STUCK = 3, "Stuck? Open the hints of this exercise."  # only what is read has none


@dataclass(frozen=True)
class Lesson:
    number: int
    title: str
    exercises: tuple[str, ...]


_LISTS = json.loads(Path(__file__).with_name("lessons.json").read_text(encoding="utf-8"))  # docs/lesson_table.py
LESSONS = tuple(Lesson(one["number"], one["title"], tuple(one["exercises"])) for one in _LISTS["lessons"])
LESSON_OF = {exercise: lesson.number for lesson in LESSONS for exercise in lesson.exercises}
_FOLLOWING = dict(itertools.pairwise(LESSON_OF))
GIVEN: Mapping[str, str] = _LISTS["given"]  # functions that lessons give to be repaired, by fingerprint


def counted(name: str, written: object, on: Nodes | None, judge: Callable[[], Report]) -> Report:
    """Judge what was written, on these nodes, and record the outcome."""
    with launches_on(on, name):
        try:
            report = judge()
        except CheckFailed as own:
            report = check_failed(name, str(own))
    next_step = _after(report.exercise) if report.passed else ""
    if report.exercise in LESSON_OF and report.is_a_try and is_the_learners(written):
        entry = keep(report.exercise, report.passed)
        if entry.tries >= _TRIES_BEFORE_HINTS and not entry.passed and not report.exercise.startswith(_ARE_READ):
            next_step = _STUCK
    return dataclasses.replace(report, next_step=next_step)


def _after(exercise: str) -> str:
    """Where to go after a passed exercise."""
    following = _FOLLOWING.get(exercise)
    if following is None:
        return "That was the last exercise of the course." if exercise in LESSON_OF else ""
    is_near = LESSON_OF[following] == LESSON_OF[exercise]
    return f"Next exercise: `{following}`, in {'this lesson' if is_near else f'lesson {LESSON_OF[following]}'}."


def is_the_learners(written: object) -> bool:
    if str(getattr(written, "__module__", "")).split(".")[0] == __name__.split(".")[0]:
        return False
    try:
        return fingerprint(inspect.getsource(written)) not in GIVEN  # type: ignore[arg-type]
    except Exception:  # not a function, or typed in where no source is kept
        return True


def fingerprint(lines: str) -> str:
    return hashlib.sha256(lines.strip().encode()).hexdigest()[:16]


def progress() -> Progress:
    """Show which exercises you have passed, by lesson. The record is a file on this machine and is sent nowhere."""
    return Progress(*recall())


@dataclass(frozen=True, repr=False)
class Progress:
    """The recorded state of all exercises. It displays itself as the last line of a cell."""

    entries: Mapping[str, Entry]
    notes: Sequence[str] = ()

    def state(self, exercise: str) -> State:
        entry = self.entries.get(exercise, Entry())
        return "passed" if entry.passed else "tried" if entry.tries else "open"

    def count(self, state: State, lesson: Lesson | None = None) -> int:
        return [self.state(exercise) for exercise in (lesson.exercises if lesson else LESSON_OF)].count(state)

    @property
    def headline(self) -> str:
        passed, tried = self.count("passed"), self.count("tried")
        return f"Exercises: {passed} of {len(LESSON_OF)} passed" + (f", {tried} more tried" if tried else "")

    @property
    def text(self) -> str:
        return "\n".join([*self._lines(lambda state: f"{state:6}"), *self.notes])

    def __repr__(self) -> str:
        """On a terminal in color; `text` is plain everywhere."""

        def shown(state: State) -> str:
            return f"{state:6}" if state == "open" else painted(f"{state:6}", _KINDS[state])

        return "\n".join([*self._lines(shown), *map(folded, self.notes)])

    def _lines(self, shown: Callable[[State], str]) -> Iterator[str]:
        width = max(map(len, LESSON_OF))
        yield self.headline
        for lesson in LESSONS:
            yield f"  lesson {lesson.number}: {lesson.title}"
            for exercise in lesson.exercises:
                yield f"    {exercise:{width}}   {shown(self.state(exercise))}   {self._how(exercise)}".rstrip()

    def _how(self, exercise: str) -> str:
        entry = self.entries.get(exercise, Entry())
        tries = "1 try" if entry.tries == 1 else f"{entry.tries} tries"
        return ", ".join(filter(None, [entry.passed, tries])) if entry.tries else ""

    def _repr_html_(self) -> str:
        rows = "".join(
            f'<tr><th scope="row">{lesson.number}. {in_words(lesson.title)}</th>'
            f"<td style='text-align:left'>{''.join(map(self._state, lesson.exercises))}</td></tr>"
            for lesson in LESSONS
        )
        notes = "".join(f"<p>{in_words(note)}</p>" for note in self.notes)
        passed = self.count("passed")
        bar = f'<progress max="{len(LESSON_OF)}" value="{passed}" aria-hidden="true" style="width:100%"></progress>'
        head = f"<p><strong>{self.headline}</strong></p>{bar}"
        kind: Kind = "passed" if passed == len(LESSON_OF) else "open"
        return framed(f'{head}<div class="ddp-wide" tabindex="0"><table>{rows}</table></div>{notes}', kind)

    def _state(self, exercise: str) -> str:
        state, how = self.state(exercise), self._how(exercise)
        return f"<div>{mark(_KINDS[state])}<code>{exercise}</code> {state}{f' ({how})' if how else ''}</div>"
