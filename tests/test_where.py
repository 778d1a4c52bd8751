"""docs/where.md, held to the truth: the code of a row's file, lesson and test uses what the row names.

Comments, docstrings and prose do not count, nor does a function that its lesson never calls: an executed cell uses the
name. What a lesson shows rather than calls is quoted, and a stored output has it. An exercise is what a lesson checks.
"""

from __future__ import annotations

import ast
import functools
import json
import re
from dataclasses import dataclass
from pathlib import Path

import pytest
from words_in_use import code_of, code_without_comments, exercises_of, outputs_of

DOCS = Path(__file__).parent.parent / "docs"
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


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_a_row_is_true(row: Row) -> None:
    assert complaints(row) == []


def test_no_name_stands_there_twice() -> None:
    said = [row.name for row in ROWS]
    assert len(said) > 90
    assert len(said) == len(set(said))


RIGHT = Row(
    "`mp.spawn`",
    "[scripts/spawned.py](../scripts/spawned.py)",
    "[1](../notebooks/01_start_ranks.ipynb)",
    "[test_no_name_stands_there_twice](../tests/test_where.py) `ROWS`",
)
WRONG = {
    "no file": {"file": "somewhere"},
    "there is no gone.py": {"file": "[scripts/gone.py](../scripts/gone.py)"},
    "no mp.spawn in scripts/started.py of started.py": {"file": "[scripts/started.py](../scripts/started.py)"},
    "scripts/spawned.py is not in alone.py": {"file": "[scripts/spawned.py](../scripts/alone.py) `train`"},
    "no lesson": {"lesson": ""},
    "2 is not in 01_start_ranks.ipynb": {"lesson": "[2](../notebooks/01_start_ranks.ipynb)"},
    "no DataPartitioner in 1 of 01_start_ranks.ipynb": {
        "lesson": "[1](../notebooks/01_start_ranks.ipynb) `DataPartitioner`"
    },
    "no test": {"test": IN_THE_LESSON},
    "test_that_is_gone is not in test_where.py": {"test": "[test_that_is_gone](../tests/test_where.py) `ROWS`"},
    "no WRONG in test_no_name_stands_there_twice of test_where.py": {
        "test": "[test_no_name_stands_there_twice](../tests/test_where.py) `WRONG`"
    },
    "no torchrun in scripts/started.py of started.py": {  # only its docstring has it
        "file": "[scripts/started.py](../scripts/started.py) `torchrun`"
    },
    "no weighted_average in 5 of 05_average_gradients.ipynb": {  # an exercise that nobody has solved
        "lesson": "[5](../notebooks/05_average_gradients.ipynb) `weighted_average`"
    },
    "no all_reduce in 3 of 03_collectives.ipynb": {
        "lesson": "[3](../notebooks/03_collectives.ipynb), an exercise: `all_reduce`"
    },
    "01_start_ranks.ipynb shows no such words": {"lesson": '[1](../notebooks/01_start_ranks.ipynb) "such words"'},
    "no backticks in mp.spawn": {"name": "mp.spawn"},
}


@pytest.mark.parametrize("sentence", WRONG)
def test_a_row_that_is_wrong_is_found_out(sentence: str) -> None:
    assert complaints(RIGHT) == []
    assert sentence in complaints(Row(**(vars(RIGHT) | WRONG[sentence])))


def test_a_branch_for_machines_with_a_gpu_is_not_in_use(tmp_path: Path) -> None:
    branch = "    if device == 'cuda':\n        torch.cuda.set_device(0)\n"
    source = f"def f(device):\n{branch}    dist.barrier()\n\n\nf('cpu')"
    notebook = tmp_path / "03_made_up.ipynb"
    notebook.write_text(json.dumps({"cells": [{"cell_type": "code", "execution_count": 1, "source": [source]}]}))
    assert has(code_of(notebook), "barrier")
    assert not has(code_of(notebook), "set_device")
