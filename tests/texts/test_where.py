"""docs/where.md, held to the truth: the code of a row's file, lesson and test uses what the row names.

Comments, docstrings and prose do not count, nor does a function that its lesson never calls: an executed cell uses the
name. What a lesson shows rather than calls is quoted, and a stored output has it. An exercise is what a lesson checks.
"""

from __future__ import annotations

import ast
import functools
import re
from dataclasses import dataclass
from pathlib import Path

from every import every
from words_in_use import code_of, code_without_comments, exercises_of, outputs_of

DOCS = Path(__file__).parents[2] / "docs"
IN_THE_LESSON = "in the lesson"  # stands for a file, where a cell is all that there is
ONLY_TESTED = "in no lesson"  # what a test runs, and a lesson at most mentions
EXERCISE = "exercise"  # the reader writes it, and the lesson checks it


@dataclass(frozen=True)
class Row:
    """Cells as they stand there. Words in backticks are looked for: a cell's own, else those of the name.

    Words in quotes are looked for in what the stored lesson shows.
    """

    name: str
    file: str
    lesson: str
    test: str

    def words(self, cell: str) -> list[str]:
        return re.findall(r"`([^`]+)`", cell) or ([] if self.shown(cell) else re.findall(r"`([^`]+)`", self.name))

    def shown(self, cell: str) -> list[str]:
        return re.findall(r'"([^"]+)"', cell)


def rows(text: str) -> list[Row]:
    lines = [line for line in text.splitlines() if line.startswith("| ") and not line.startswith("| name |")]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return [Row(name, *places[-3:]) for name, *places in cells]  # a remark may stand between


ROWS = rows((DOCS / "where.md").read_text(encoding="utf-8"))


def links(cell: str) -> list[tuple[str, Path]]:
    return [(text, DOCS / target) for text, target in re.findall(r"\[([^\]]+)\]\(([^)]+)\)", cell)]


def has(text: str, word: str) -> bool:
    """Whether it is there as a whole: `Net` is not in `Network`."""
    before, after = (r"\b" if end.isalnum() or end == "_" else "" for end in (word[0], word[-1]))
    return re.search(before + re.escape(word) + after, text) is not None


@functools.cache
def top_of(file: Path) -> dict[str, list[ast.stmt]]:
    """What the file has at its top level, by name."""
    found: dict[str, list[ast.stmt]] = {}
    for node in ast.parse(file.read_text(encoding="utf-8")).body:
        targets = (
            node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
        )
        names = [part.id for target in targets for part in ast.walk(target) if isinstance(part, ast.Name)]
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            names = [node.name]
        for name in names:
            found.setdefault(name, []).append(node)
    return found


@functools.cache
def code_of_test(file: Path, name: str) -> str:
    """The test with its decorators, and all in the file that it uses: helpers, tables, fixtures."""
    top, lines = top_of(file), file.read_text(encoding="utf-8").splitlines()
    seen, to_do, text = set[str](), [name], ""
    while to_do:
        name = to_do.pop()
        for node in top.get(name, []) if name not in seen else []:
            first = min([node.lineno, *(each.lineno for each in getattr(node, "decorator_list", []))])
            text += code_without_comments("\n".join(lines[first - 1 : node.end_lineno])) + "\n"
            to_do += [part.id for part in ast.walk(node) if isinstance(part, ast.Name)]
            to_do += [part.arg for part in ast.walk(node) if isinstance(part, ast.arg)]  # fixtures
        seen.add(name)
    return text


def complaints(row: Row) -> list[str]:
    """What is not true of a row."""
    wrong = [f"no backticks in {row.name}"] if not row.words(row.name) else []
    for kind in ("file", "lesson", "test"):
        cell = str(getattr(row, kind))
        found = links(cell)
        if not found and (kind, cell) not in (("file", IN_THE_LESSON), ("lesson", ONLY_TESTED)):
            wrong.append(f"no {kind}")
        for shown, target in found:
            if not target.is_file():
                wrong.append(f"there is no {target.name}")
                continue
            wrong += [f"{shown} is not in {target.name}"] if not is_shown(kind, shown, target) else []
            code = (
                code_of_test(target, shown)
                if kind == "test"
                else exercises_of(target)
                if kind == "lesson" and EXERCISE in cell
                else code_of(target)
            )
            wrong += [f"no {word} in {shown} of {target.name}" for word in row.words(cell) if not has(code, word)]
            missing = [words for words in row.shown(cell) if kind != "lesson" or words not in outputs_of(target)]
            wrong += [f"{target.name} shows no {words}" for words in missing]
    return wrong


def is_shown(kind: str, shown: str, target: Path) -> bool:
    """Whether a link leads to what it says."""
    if kind == "test":
        return shown.startswith("test_") and shown in top_of(target)
    return target.name.startswith(f"{int(shown):02}_") if kind == "lesson" else target.as_posix().endswith(f"/{shown}")


@every(ROWS, lambda row: row.name)
def test_a_row_is_true(row: Row) -> None:
    assert complaints(row) == []


def test_no_name_stands_there_twice() -> None:
    said = [row.name for row in ROWS]
    assert len(said) > 90
    assert len(said) == len(set(said))
