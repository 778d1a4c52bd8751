"""The field's word, always the same one: a learner who searches for our words finds other people's pages.

It reads lessons, glossary, quizzes, the instructor's pages, README, CONTRIBUTING, CHANGELOG and docs/.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import nbformat
from every import every

PROJECT = Path(__file__).parents[2]
INSTEAD_OF = {
    "standstill": "hang",
    "nothing moves": "hang",
    "can(?:not)? move any more": "no rank can make progress",
    "trainings": "training runs",
    "yardstick": "baseline",
    "held against": "compared with",
    "optimizer's memory": "optimizer state",
    "start weights": "initial weights",
    "farewell": "teardown",
    "letter box": "buffered send",
    "notice board": "key-value store",
    "anew": "again, or: restart",
    "do not fit together": "mismatched",
    "impostor": "wrong implementation that passes",
    "for ever": "forever",
    "whoever": "the rank that, or: you",
    "whom": "which rank",
    "beside": "next to, compared with",
    "dice": "random",
    # American spelling, as PyTorch's own words have it
    "behaviour": "behavior",
    "catalogue": "catalog",
    "colours?": "color",
    "grey": "gray",
    "judgements?": "judgment",
    "neighbours?": "neighbor",
    "towards": "toward",
}


def texts() -> list[Path]:
    lessons = ("notebooks/[0-9][0-9]_*.ipynb", "notebooks/glossary.md", "ddp_lessons/quiz/*.toml")
    places = (*lessons, "*.md", "docs/**/*.md")
    return sorted(file for place in places for file in PROJECT.glob(place))


def prose_of(file: Path) -> str:
    """Without code, and without what the package or torch prints: those have words of their own."""
    if file.suffix == ".ipynb":
        read: Any = nbformat.read
        text = "\n\n".join(cell.source for cell in read(file, as_version=4).cells if cell.cell_type == "markdown")
    else:
        text = file.read_text(encoding="utf-8")
    text = re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)
    return re.sub(r"`[^`\n]+`|\]\([^)]*\)", " ", text)


@every(texts())
def test_no_word_of_the_house_stands_where_the_field_has_one(file: Path) -> None:
    prose = prose_of(file)
    found = [
        f"{match[0]!r} in {prose[max(0, match.start() - 40) : match.end() + 40]!r}: write {better!r}"
        for word, better in INSTEAD_OF.items()
        for match in re.finditer(rf"\b{word}\b", prose, re.IGNORECASE)
    ]
    assert not found, "\n".join(found)
