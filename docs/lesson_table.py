"""Print the table of the lessons for docs/instructor/index.md, and write the package's list of exercises.

    .venv/bin/python docs/lesson_table.py [build/minutes.json]

Minutes are in each notebook's metadata. The file has the seconds that the cells of each lesson ran for: `make lessons
AT_ONCE=1` writes it. Everything in docs/instructor is written by hand; tests compare it with the notebooks.
"""

from __future__ import annotations

import ast
import json
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ddp_lessons.check.dashboard import fingerprint

PROJECT = Path(__file__).parent.parent
EXERCISES = PROJECT / "ddp_lessons" / "check" / "lessons.json"
CORE = 13  # lessons; the others are electives
HEADER = ("", "lesson", "teaching", "exercises", "minutes", "code cells", "words per cell", "run time, s")
CHECK = re.compile(r"^check\.(?!progress)(\w+)\((\"?\w*\"?)", re.M)
NUMBERED = {"diagnosis", "reading", "training_script"}  # one check for several exercises


@dataclass(frozen=True)
class Lesson:
    file: Path
    cells: list[tuple[str, str, str]]  # kind, source, and outputs as JSON
    teach: dict[str, int]  # minutes by section
    exercise: dict[str, int]

    @property
    def number(self) -> int:
        return int(self.file.stem[:2])

    @property
    def opening(self) -> str:
        return self.cells[0][1]

    @property
    def title(self) -> str:
        return self.opening.splitlines()[0].removeprefix("# ")

    @property
    def minutes(self) -> tuple[int, int]:
        """Of teaching, and of exercises."""
        return sum(self.teach.values()), sum(self.exercise.values())

    @property
    def code(self) -> list[str]:
        return [source for kind, source, _ in self.cells if kind == "code"]

    @property
    def words(self) -> int:
        return sum(len(source.split()) for kind, source, _ in self.cells if kind == "markdown")


def read_lessons() -> list[Lesson]:
    return [read_lesson(file) for file in sorted((PROJECT / "notebooks").glob("[0-9][0-9]_*.ipynb"))]


def read_lesson(file: Path) -> Lesson:
    notebook = json.loads(file.read_text(encoding="utf-8"))
    cells = [
        (cell["cell_type"], "".join(cell["source"]), json.dumps(cell.get("outputs", []))) for cell in notebook["cells"]
    ]
    return Lesson(file, cells, **notebook["metadata"]["ddp_lessons"]["minutes"])


def lesson_table(lessons: Sequence[Lesson], seconds: dict[str, float]) -> str:
    def row(number: object, name: str, some: Sequence[Lesson]) -> tuple[object, ...]:
        teach, exercise = (sum(lesson.minutes[kind] for lesson in some) for kind in (0, 1))
        code = sum(len(lesson.code) for lesson in some)
        ran = sum(seconds.get(lesson.file.stem, 0) for lesson in some)
        words = round(sum(lesson.words for lesson in some) / code)
        return number, name, teach, exercise, teach + exercise, code, words, f"{ran:.0f}" if ran else ""

    rows = [row(one.number, f"[{one.title}](lessons/{one.file.stem}.md)", [one]) for one in lessons]
    rows.append(row("", f"**core path, 0 to {CORE - 1}**", lessons[:CORE]))
    rows.append(row("", "**all**", lessons))
    rule = ["--:" if name and name != "lesson" else "---" for name in HEADER]
    return "\n".join("| " + " | ".join(map(str, line)) + " |" for line in (HEADER, rule, *rows))


def exercise_lists(lessons: Sequence[Lesson]) -> str:
    """The exercises of each lesson, and the fingerprints of functions that a lesson gives to be repaired."""
    listed, given = list[dict[str, object]](), dict[str, str]()
    for lesson in lessons:
        names, functions = list[str](), dict[str, str]()
        for kind, source, outputs in lesson.cells:
            if kind != "code" or source.startswith("%%"):
                continue
            functions |= functions_in(source)
            for name, argument in CHECK.findall(source):
                names.append(f"{name}({argument})" if name in NUMBERED else name)
                if "not right yet" in outputs and argument in functions:
                    given[fingerprint(functions[argument])] = argument
        if names:
            listed.append({"number": lesson.number, "title": lesson.title, "exercises": list(dict.fromkeys(names))})
    return json.dumps({"lessons": listed, "given": given}, indent=1) + "\n"


def functions_in(source: str) -> dict[str, str]:
    tree = ast.parse(re.sub(r"^[%!].*$", "", source, flags=re.M))
    return {
        node.name: ast.get_source_segment(source, node) or "" for node in tree.body if isinstance(node, ast.FunctionDef)
    }


if __name__ == "__main__":
    found = read_lessons()
    EXERCISES.write_text(exercise_lists(found), encoding="utf-8")
    print(lesson_table(found, json.loads(Path(sys.argv[1]).read_text(encoding="utf-8")) if sys.argv[1:] else {}))
