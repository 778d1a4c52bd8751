"""A learner's own copy of the lessons, without stored outputs, so that updates never conflict with their work.

Digests of the originals are stored with the copies. A lesson that has changed since then replaces an unchanged copy;
otherwise the new version gets another name.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import os
from collections.abc import Iterator
from pathlib import Path

from ddp_lessons.own_files import write_whole

GIVEN = ".given.json"
LESSONS = "[0-9][0-9]_*.ipynb"
PAGE = "docs/it_hangs.md"  # to print; lessons link to it
TUTOR = Path(__file__).with_name("tutor.md")  # what asks a learner's coding assistant to be a tutor


def copy_lessons(source: Path, folder: Path) -> list[str]:
    """Update the copy from the lessons in `source`. Return a line for each new version with another name."""
    folder.mkdir(parents=True, exist_ok=True)
    book = folder / GIVEN
    given = _read(book)
    news = []
    for name, content in _contents(source):
        version = _digest(content.encode())
        if given.get(name) == version and (folder / name).exists():
            continue
        own = _name(folder, name, version, given)
        (folder / own).parent.mkdir(parents=True, exist_ok=True)
        write_whole(folder / own, content, mode=0o666)
        if own != name:
            news.append(f"{name} has a new version. Your file is unchanged; the new one is {folder / own}")
        given |= {name: version, own: version}
        write_whole(book, json.dumps(given, indent=1), mode=0o666)
    return news


def _contents(source: Path) -> Iterator[tuple[str, str]]:
    """The lessons, what they link to, and the scripts, which are next to the lessons' folder; by name in the copy."""
    for file in sorted([*source.glob(LESSONS), *source.glob("*.md")]):
        content = without_outputs(file) if file.suffix == ".ipynb" else file.read_text(encoding="utf-8")
        yield file.name, content.replace("](../scripts/", "](scripts/").replace(f"](../{PAGE}", f"]({PAGE}")
    yield "AGENTS.md", TUTOR.read_text(encoding="utf-8")
    yield "CLAUDE.md", "@AGENTS.md\n"  # Claude Code reads only this name; it includes the other file
    if (page := source.parent / PAGE).is_file():
        yield PAGE, page.read_text(encoding="utf-8").replace("](../notebooks/", "](../")
    for file in sorted((source.parent / "scripts").rglob("[a-z]*.*")):
        if file.is_file() and "__pycache__" not in file.parts:
            yield file.relative_to(source.parent).as_posix(), file.read_text(encoding="utf-8")


def _name(folder: Path, wanted: str, version: str, given: dict[str, str]) -> str:
    """The name for that version that does not overwrite a file which the learner has changed."""
    stem, suffix = os.path.splitext(wanted)
    names = itertools.chain([wanted], (f"{stem}.{number}{suffix}" for number in itertools.count(2)))
    return next(name for name in names if _is_free(folder / name, (given.get(name), version)))


def _is_free(place: Path, versions: tuple[str | None, ...]) -> bool:
    return not place.exists() or _digest(place.read_bytes()) in versions


def without_outputs(lesson: Path) -> str:
    notebook = json.loads(lesson.read_text(encoding="utf-8"))
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            cell |= {"outputs": [], "execution_count": None}
    return json.dumps(notebook, indent=1, ensure_ascii=False) + "\n"


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _read(book: Path) -> dict[str, str]:
    """The stored digests. If they can't be read, every copy counts as changed."""
    try:
        return dict(json.loads(book.read_text(encoding="utf-8")))
    except (OSError, ValueError):
        return {}
