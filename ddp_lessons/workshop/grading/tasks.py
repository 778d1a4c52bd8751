"""The exercises of a lesson as tasks: what the student gets, the solution, and the test."""

from __future__ import annotations

import re
from dataclasses import dataclass

from ddp_lessons.capstone.script_sections import finished_functions
from ddp_lessons.check.dashboard import LESSON_OF
from ddp_lessons.check.readings import READINGS
from ddp_lessons.clinic.clinic_cases import CASES
from ddp_lessons.workshop.grading.solution_sources import solution_of

_CHECK = re.compile(r"^check\.(\w+)\((.*)\)$", re.MULTILINE)
_IMPORT = "from ddp_lessons.workshop.grading import must_pass"


@dataclass(frozen=True)
class Task:
    """`given` is the text of the student's cell. `solution` redefines what it defines; "" if it is not in a cell."""

    name: str
    given: str
    solution: str
    call: str

    @property
    def test(self) -> str:
        return f"{_IMPORT}\n\n{self.call}"


def task_in(source: str) -> Task | None:
    """The task in the text of a code cell, or None if it checks no exercise."""
    for found in _CHECK.finditer(source):
        check, arguments = found[1], found[2]
        if f"{check}({arguments})" in LESSON_OF:  # a message to read
            return _reading(int(arguments))
        if check == "diagnosis":
            return _diagnosis(int(arguments.partition(",")[0]), source[: found.end()])
        if check == "capstone":
            return _capstone(source[: found.start()])
        if check == "training_script":
            section = arguments.split('"')[1]
            given, solution = source[: found.start()].rstrip(), "\n\n\n".join(finished_functions(section))
            return Task(f"training_script_{section}", given, solution, f'must_pass("training_script", {arguments})')
        if check in LESSON_OF:
            given = source[: found.start()].rstrip()
            return Task(check, given, solution_of(arguments), f'must_pass("{check}", {arguments})')
    return None


def _reading(number: int) -> Task:
    answer = f"line_{number}"
    given = f"{answer} = None  # your answer: the number of the line that must change\n"
    given += f"check.reading({number}, {answer})"
    solution = f"{answer} = {READINGS[number - 1].wrong[0]}"
    return Task(f"reading_{number}", given, solution, f'must_pass("reading", {number}, {answer})')


def _diagnosis(number: int, given: str) -> Task:
    answer, one = f"diagnosis_{number}", CASES[number]
    solution = f"{answer} = {{'rank': {one.rank}, 'line': {one.lines[0]}, 'rule': {one.rule!r}}}"
    return Task(answer, given, solution, f'must_pass("diagnosis", {number}, **{answer})')


def _capstone(before: str) -> Task:
    """The answer is a file of the student, and the letter of a sentence about it."""
    given = 'diagnosis = ""  # your answer: the letter of the sentence that explains the hang\n'
    given += 'my_train = Path("my_train.py").resolve()\ncheck.capstone(my_train, diagnosis=diagnosis)'
    return Task("capstone", before + given, "", 'must_pass("capstone", my_train, diagnosis=diagnosis)')
