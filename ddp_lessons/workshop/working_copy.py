"""A learner's own copy of the lessons, without stored outputs, so that updates never conflict with their work.

Digests of the originals are stored with the copies. A lesson that has changed since then replaces an unchanged copy;
otherwise the new version gets another name.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import sys
from pathlib import Path

from ddp_lessons.record.whole_file import write_whole

GIVEN = ".given.json"
LESSONS = "[0-9][0-9]_*.ipynb"


def report(source: Path, folder: Path) -> int:
    """Copy the lessons, print what the learner has to know, then the path of the first lesson for `make lab`."""
    try:
        news = copy_lessons(source, folder)
    except OSError as error:
        print(f"The lessons could not be copied to {folder}: {error.strerror or error}", file=sys.stderr)
        return 1
    for line in news:
        print(line, file=sys.stderr)
    print(folder / min((lesson.name for lesson in source.glob(LESSONS)), default="."))
    return 0


def copy_lessons(source: Path, folder: Path) -> list[str]:
    """Update the copy from the lessons in `source`. Return a line for each new version with another name."""
    folder.mkdir(parents=True, exist_ok=True)
    book = folder / GIVEN
    given = _read(book)
    news = []
    for file in sorted([*source.glob(LESSONS), *source.glob("*.md")]):
        content = without_outputs(file) if file.suffix == ".ipynb" else file.read_text(encoding="utf-8")
        version = _digest(content.encode())
        if given.get(file.name) == version and (folder / file.name).exists():
            continue
        place = _place(folder / file.name, version, given)
        write_whole(place, content, mode=0o666)
        if place.name != file.name:
            news.append(f"{file.name} has a new version. Your file is unchanged; the new one is {place}")
        given |= {file.name: version, place.name: version}
        write_whole(book, json.dumps(given, indent=1), mode=0o666)
    return news


def _place(wanted: Path, version: str, given: dict[str, str]) -> Path:
    """Where to write that version without overwriting a file that the learner has changed."""
    places = (wanted.with_suffix(f".{number}{wanted.suffix}") for number in itertools.count(2))
    free = (
        place
        for place in itertools.chain([wanted], places)
        if not place.exists() or _digest(place.read_bytes()) in (given.get(place.name), version)
    )
    return next(free)


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
