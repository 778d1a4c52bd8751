"""The exercises of a lesson as tasks for a grader: what the student gets, the solution, and the test.

`must_pass` is the one line of each test; it runs where students work, and where their work is graded.
"""

from __future__ import annotations

import ast
import contextlib
import inspect
import io
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from ddp_lessons import check
from ddp_lessons.capstone.script_sections import finished_functions
from ddp_lessons.check.dashboard import LESSON_OF, is_the_learners
from ddp_lessons.check.exercise import Exercise
from ddp_lessons.check.readings import READINGS
from ddp_lessons.clinic.clinic_cases import CASES
from ddp_lessons.own_files import PACKAGE

_CHECK = re.compile(r"^check\.(\w+)\((.*)\)$", re.MULTILINE)
_DEFINITIONS = (ast.FunctionDef, ast.ClassDef, ast.Assign, ast.AnnAssign)


def must_pass(exercise: str, *answer: object, **arguments: object) -> None:
    """Raise an AssertionError with the report of `check.<exercise>` unless this answer passes and is the learner's own.

    Nothing is printed: nbgrader gives no points for a cell that wrote to stderr, and Otter none for a test that printed
    something. The learner's progress file is left alone, because on the instructor's machine it is the instructor's.
    """
    checked = getattr(check, exercise)
    judge = checked.judged if isinstance(checked, Exercise) else inspect.unwrap(checked)
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        report = judge(*answer, **arguments)
    if not report.passed:
        raise AssertionError(report.text)
    if not is_the_learners(answer[0]):
        raise AssertionError(f"check.{exercise}: this is the course's own solution. Write your own.")


@dataclass(frozen=True)
class Task:
    """`given` is the text of the student's cell. `solution` redefines what it defines; "" if it is not in a cell."""

    name: str
    given: str
    solution: str
    call: str

    @property
    def test(self) -> str:
        return f"from {__name__} import must_pass\n\n{self.call}"


def task_in(source: str) -> Task | None:
    """The task in the text of a code cell, or None if it checks no exercise."""
    for found in _CHECK.finditer(source):
        check, arguments = found[1], found[2]
        given = source[: found.start()].rstrip()
        if f"{check}({arguments})" in LESSON_OF:  # a message to read
            return _reading(int(arguments))
        if check == "diagnosis":
            return _diagnosis(int(arguments.partition(",")[0]), source[: found.end()])
        if check == "capstone":
            return _capstone(source[: found.start()])
        if check == "training_script":
            section = arguments.split('"')[1]
            solution = "\n\n\n".join(finished_functions(section))
            return Task(f"training_script_{section}", given, solution, f'must_pass("training_script", {arguments})')
        if check in LESSON_OF:
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


def solution_of(name: str) -> str:
    """A text that defines `name` and can be put into a cell: from train/, with the imports and definitions it needs.

    Raises:
        LookupError: no module of train/ defines it.
    """
    for file in sorted(Path(PACKAGE, "train").glob("*.py")):
        text = file.read_text(encoding="utf-8")
        meanings = dict(_meanings(ast.parse(text)))
        if isinstance(meanings.get(name), _DEFINITIONS):
            return _composed(text, list(_needed(name, meanings, set())))
    raise LookupError(f"no module of train/ defines {name}")


def _meanings(module: ast.Module) -> Iterator[tuple[str, ast.stmt]]:
    """The names that a module defines or imports, each with its statement."""
    for statement in module.body:
        for part in statement.body if isinstance(statement, ast.If) else [statement]:  # if TYPE_CHECKING
            if isinstance(part, ast.FunctionDef | ast.ClassDef):
                yield part.name, part
            elif isinstance(part, ast.Assign | ast.AnnAssign):
                targets = part.targets if isinstance(part, ast.Assign) else [part.target]
                yield from ((target.id, part) for target in targets if isinstance(target, ast.Name))
            elif isinstance(part, ast.Import):
                yield from ((one.asname or one.name.split(".")[0], ast.Import([one])) for one in part.names)
            elif isinstance(part, ast.ImportFrom) and part.module != "__future__":
                yield from ((one.asname or one.name, ast.ImportFrom(part.module, [one], 0)) for one in part.names)


def _needed(name: str, meanings: dict[str, ast.stmt], seen: set[str]) -> Iterator[ast.stmt]:
    """The statement for `name`, after those that it uses."""
    if name in seen or name not in meanings:
        return
    seen.add(name)
    for node in ast.walk(meanings[name]):
        if isinstance(node, ast.Name):
            yield from _needed(node.id, meanings, seen)
    yield meanings[name]


def _composed(text: str, statements: list[ast.stmt]) -> str:
    names: dict[str | None, list[ast.alias]] = {}
    for one in statements:
        if isinstance(one, ast.ImportFrom):
            names.setdefault(one.module, []).extend(one.names)
    imports = [one for one in statements if isinstance(one, ast.Import)]
    together = [ast.ImportFrom(module, sorted(found, key=lambda one: one.name), 0) for module, found in names.items()]
    first = "\n".join(sorted(ast.unparse(one) for one in [*imports, *together]))
    return "\n\n\n".join([first, *(_lines(text, one) for one in statements if isinstance(one, _DEFINITIONS))]).lstrip()


def _lines(text: str, statement: ast.stmt) -> str:
    first = min(part.lineno for part in [statement, *getattr(statement, "decorator_list", [])])
    return "\n".join(text.splitlines()[first - 1 : statement.end_lineno])
