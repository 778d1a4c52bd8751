"""Create an exercise or a lesson: files with all parts, and a line in each list of the project.

`git status` and `git diff` show everything that it wrote; WRITE marks what is left to write.
"""

from __future__ import annotations

import json
import keyword
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import nbformat

from authoring import lesson_stubs, stubs

files: Any = nbformat
TEMPLATE = Path(__file__).with_name("template.ipynb")


FOLDERS = ("messages", "trainings", "clusters")


def exercise(project: Path, name: str, folder: str = "messages") -> list[str]:
    """Write solution, check, bank and test, and add the check to the front door. Return what to do next."""
    if not re.fullmatch(r"[a-z][a-z0-9_]*", name):
        raise ValueError(f"an exercise is named as a function is, in small letters: {name!r} is not")
    imports = ["from banks import assert_accepts, assert_refuses, name_of", f"from {name}_answers import RIGHT, WRONG"]
    class_name = "".join(part.capitalize() for part in name.split("_"))
    words = {"NAME": name, "CLASS": class_name, "IMPORTS": "\n".join(sorted(imports))}
    new = {
        project / "ddp_lessons" / "train" / f"{name}.py": stubs.SOLUTION,
        project / "ddp_lessons" / "check" / folder / f"{name}_exercise.py": stubs.CHECK,
        project / "tests" / "check" / f"{name}_answers.py": stubs.BANK,
        project / "tests" / "check" / f"test_check_{name}.py": stubs.TEST,
    }
    refuse_what_is_there(project, new)
    for path, text in new.items():
        path.write_text(filled(text, words), encoding="utf-8")
    door = project / "ddp_lessons" / "check" / "__init__.py"
    home = "    from ddp_lessons.check."
    insert(door, "if TYPE_CHECKING:", home, f"{home}{folder}.{name}_exercise import {name} as {name}")
    insert(door, "_HOME = {", '    "', f'    "{name}": "{folder}.{name}_exercise",')
    reports = project / "tests" / "check" / "test_check_reports.py"
    before = "    assert {one.__name__ for one in CHECKS}"
    replace(reports, before, f'    others |= {{"{name}"}}\n{before}')
    written = [f"wrote {path.relative_to(project)}" for path in new]
    return [*written, f"added {name} to ddp_lessons/check/__init__.py and tests/check/test_check_reports.py"]


def lesson(project: Path, title: str, exercise: str = "") -> list[str]:
    """Write the lesson, its questions and its instructor page, and add them to the project's lists.

    Return what was done, and what is left to write.
    """
    slug = "_".join(re.findall(r"[a-z0-9]+", title.lower()))
    if not slug.isidentifier() or keyword.iskeyword(slug):
        raise ValueError(f"files get their names from the title: it must start with a word, but {title!r} does not")
    number = len(list((project / "notebooks").glob("[0-9][0-9]_*.ipynb")))
    stem = f"{number:02}_{slug}"
    words = {"TITLE": title, "NUMBER": str(number), "EXERCISE": exercise or "the_name", "STEM": stem}
    questions = "".join(filled(lesson_stubs.QUESTION, {"LETTER": letter}) for letter in "cabc")
    new = {
        project / "notebooks" / f"{stem}.ipynb": from_template(words, bool(exercise)),
        project / "ddp_lessons" / "quiz" / "bank" / f"{slug}_questions.py": filled(
            lesson_stubs.QUIZ, {**words, "MORE": questions}
        ),
        project / "docs" / "instructor" / "lessons" / f"{stem}.md": filled(lesson_stubs.PAGE, words),
    }
    refuse_what_is_there(project, new)
    row = f"| {number} | [{title}](notebooks/{stem}.ipynb) | WRITE: minutes | WRITE: what you can do after it |"
    readme = project / "README.md"
    last = re.findall(rf"^\| {number - 1} \|.*$", readme.read_text(encoding="utf-8"), re.M)
    replace(readme, last[0] if last else f"| {number - 1} |", f"{last[0] if last else ''}\n{row}")
    bank = project / "ddp_lessons" / "quiz" / "bank" / "__init__.py"
    replace(bank, "\n)\n\n\ndef questions_of", f'\n    "{slug}",\n)\n\n\ndef questions_of')
    entered = ["README.md", "ddp_lessons/quiz/bank/__init__.py"]
    if exercise:
        end = ")\nLESSON_OF"
        entry = f'    Lesson({number}, {json.dumps(title)}, ("{exercise}",)),\n'
        replace(project / "ddp_lessons" / "check" / "dashboard.py", end, f"{entry}{end}")
        entered.append("ddp_lessons/check/dashboard.py")
    for path, text in new.items():
        path.write_text(text, encoding="utf-8", newline="\n")
    written = [str(path.relative_to(project)) for path in new]
    left = f"left to write: each WRITE in {', '.join(written)} and README.md"
    return [*(f"wrote {name}" for name in written), f"added it to {', '.join(entered)}", left]


def from_template(words: dict[str, str], has_exercise: bool) -> str:
    """The notebook as text; the plan in its metadata has the sections of the template."""
    escaped = {word: json.dumps(value)[1:-1] for word, value in words.items()}
    text = filled(TEMPLATE.read_text(encoding="utf-8"), escaped)
    text = text.replace("questions(1000)", f"questions({words['NUMBER']})")
    notebook = files.reads(text, as_version=4)
    if not has_exercise:
        notebook.cells = [cell for cell in notebook.cells if cell.id not in ("exercise-text", "exercise")]
        plan = notebook.metadata["ddp_lessons"]
        for section in [section for section in plan["minutes"]["exercise"] if section.startswith("Exercise")]:
            del plan["minutes"]["exercise"][section]
            plan["cut"].pop(section, None)
    written: str = files.writes(notebook)
    return written if written.endswith("\n") else f"{written}\n"


def refuse_what_is_there(project: Path, new: Iterable[Path]) -> None:
    if there := [str(path.relative_to(project)) for path in new if path.exists()]:
        raise ValueError(f"there is already {', '.join(there)}: choose another name")


def filled(text: str, words: dict[str, str]) -> str:
    for word, value in words.items():
        text = text.replace(f"__{word}__", value)
    return text


def insert(path: Path, block: str, start: str, line: str) -> None:
    """Insert a line into a sorted block."""
    lines = path.read_text(encoding="utf-8").splitlines()
    at = lines.index(block) + 1
    while lines[at].startswith(" ") and not (lines[at].startswith(start) and lines[at] > line):
        at += 1
    path.write_text("\n".join([*lines[:at], line, *lines[at:]]) + "\n", encoding="utf-8")


def replace(path: Path, old: str, new: str) -> None:
    text = path.read_text(encoding="utf-8")
    if text.count(old) != 1:
        raise ValueError(f"{path.name} has no single place {old!r}: add it by hand")
    path.write_text(text.replace(old, new), encoding="utf-8")
