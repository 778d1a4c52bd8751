"""What nothing uses any more: `make lint` names it, so that it goes when a lesson changes."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

from glossary_words import entries, lessons, uses
from lesson_cells import EXERCISES, NOTEBOOKS

PROJECT = Path(__file__).parents[2]
PACKAGE = PROJECT / "ddp_lessons"
USERS = [
    *(file for folder in ("scripts", "tools", "docs") for file in (PROJECT / folder).rglob("*.py")),
    *PACKAGE.rglob("*.py"),
    *NOTEBOOKS,
    PROJECT / "pyproject.toml",
    PROJECT / "Makefile",
]
SOURCES = {file: file.read_text(encoding="utf-8") for file in USERS}
TIMES = {file: Counter(re.findall(r"\w+", text)) for file, text in SOURCES.items()}
FILES = Counter(word for words in TIMES.values() for word in words)  # that have the word
CALLED_BY_OTHERS = re.compile(r"pytest_\w+|(un)?load_ipython_extension")
SOLUTIONS = {name for _, name, _ in EXERCISES}


def defined(module: Path) -> set[str]:
    return set(re.findall(r"^(?:def|class) (\w+)", SOURCES[module], re.M))


def test_every_module_is_imported_or_has_the_solution_of_an_exercise() -> None:
    collected = ("exercises",)  # all modules of this folder are
    modules = [one for one in PACKAGE.rglob("*.py") if one.parent.name not in collected and one.stem[:2] != "__"]
    unused = [module for module in modules if FILES[module.stem] == (module.stem in TIMES[module])]
    assert [str(module.relative_to(PROJECT)) for module in unused if not SOLUTIONS & defined(module)] == []


def test_every_function_and_class_is_used() -> None:
    named = [(module, name) for module in PACKAGE.rglob("*.py") for name in defined(module) - SOLUTIONS]
    unused = [(module, name) for module, name in named if FILES[name] == TIMES[module][name] == 1]
    assert [
        f"{name} in {module.relative_to(PROJECT)}" for module, name in unused if not CALLED_BY_OTHERS.match(name)
    ] == []


def test_every_word_of_the_glossary_is_used_in_a_lesson() -> None:
    used = {use.word for lesson in lessons() for use in uses(lesson)}
    assert [entry.word for entry in entries() if entry.word not in used] == []


def test_every_file_that_make_names_is_there() -> None:
    named = re.findall(r"(?<![\w./-])(?:tests|tools|docs)/[\w./-]+\.\w+", SOURCES[PROJECT / "Makefile"])
    assert "tests/stages.py" in named
    assert [name for name in named if not (PROJECT / name).exists()] == []
