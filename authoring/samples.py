"""Paragraphs drawn at random, to judge whether an editor would rewrite them."""

from __future__ import annotations

import ast
import json
import random
import re
from collections.abc import Iterator
from pathlib import Path

FEWEST_WORDS = 12
MESSAGES = ("ddp_lessons/run/diagnosis", "ddp_lessons/check")
KINDS = ("paragraphs", "messages")


def drawn(project: Path, kind: str, count: int, seed: int | None = None) -> Iterator[str]:
    """The seed comes first, so that you can draw the same paragraphs again."""
    seed = random.randrange(10_000) if seed is None else seed
    every = list(paragraphs(project) if kind == "paragraphs" else messages(project))
    yield f"{count} of {len(every)} {kind}; the same again: --seed {seed}"
    for place, text in random.Random(seed).sample(every, min(count, len(every))):
        yield f"\n{place}\n{text}"


def paragraphs(project: Path) -> Iterator[tuple[str, str]]:
    for file in sorted((project / "notebooks").glob("[0-9][0-9]_*.ipynb")):
        for number, cell in enumerate(json.loads(file.read_text(encoding="utf-8"))["cells"]):
            if cell["cell_type"] == "markdown":
                for text in "".join(cell["source"]).split("\n\n"):
                    if len(text.split()) >= FEWEST_WORDS and not text.startswith(("```", "|", "#", "<")):
                        yield f"{file.name}, cell {number}", text


def messages(project: Path) -> Iterator[tuple[str, str]]:
    """The sentences in the package's code except docstrings; {} marks filled-in values."""
    for folder in MESSAGES:
        for file in sorted((project / folder).rglob("*.py")):
            tree = ast.parse(file.read_text(encoding="utf-8"))
            parts = {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in node.values}
            plain = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)} | parts
            for node in ast.walk(tree):
                text = "" if id(node) in plain else _text_of(node)
                if len(re.findall(r"[A-Za-z]{2,}", text)) >= FEWEST_WORDS // 2 and " " in text:
                    yield f"{file.relative_to(project)}, line {getattr(node, 'lineno', 0)}", text


def _text_of(node: ast.AST) -> str:
    if isinstance(node, ast.JoinedStr):
        return "".join(str(part.value) if isinstance(part, ast.Constant) else "{}" for part in node.values)
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""
