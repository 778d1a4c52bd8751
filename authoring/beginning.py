"""Create a lesson: files with all parts, and a line in each list of the project.

`git status` and `git diff` show everything that it wrote; WRITE marks what is left to write.
"""

from __future__ import annotations

import json
import keyword
import re
from collections.abc import Iterable
from pathlib import Path

from authoring import lesson_stubs

TEMPLATE = Path(__file__).with_name("template.ipynb")


def lesson(project: Path, title: str) -> list[str]:
    """Write the lesson, its questions and its instructor page, and add them to the project's lists.

    Return what was done, and what is left to write.
    """
    slug = "_".join(re.findall(r"[a-z0-9]+", title.lower()))
    if not slug.isidentifier() or keyword.iskeyword(slug):
        raise ValueError(f"files get their names from the title: it must start with a word, but {title!r} does not")
    lessons = list((project / "notebooks").glob("[0-9][0-9]_*.ipynb"))
    refuse_what_is_there(project, [one for one in lessons if one.stem[3:] == slug])
    number = len(lessons)
    stem = f"{number:02}_{slug}"
    words = {"TITLE": title, "NUMBER": str(number), "STEM": stem}
    questions = "".join(filled(lesson_stubs.QUESTION, {"LETTER": letter}) for letter in "cabc")
    new = {
        project / "notebooks" / f"{stem}.ipynb": from_template(words),
        project / "ddp_lessons" / "quiz" / f"{number:02}.toml": filled(lesson_stubs.QUIZ, {**words, "MORE": questions}),
        project / "docs" / "instructor" / "lessons" / f"{stem}.md": filled(lesson_stubs.PAGE, words),
    }
    refuse_what_is_there(project, new)
    row = f"| {number} | [{title}](notebooks/{stem}.ipynb) | WRITE: minutes | WRITE: what you can do after it |"
    readme = project / "README.md"
    last = re.findall(rf"^\| {number - 1} \|.*$", readme.read_text(encoding="utf-8"), re.M)
    replace(readme, last[0] if last else f"| {number - 1} |", f"{last[0] if last else ''}\n{row}")
    for path, text in new.items():
        path.write_text(text, encoding="utf-8", newline="\n")
    written = [str(path.relative_to(project)) for path in new]
    left = f"left to write: each WRITE in {', '.join(written)} and README.md"
    return [*(f"wrote {name}" for name in written), "added it to README.md", left]


def from_template(words: dict[str, str]) -> str:
    """The notebook as text; the plan in its metadata has the sections of the template."""
    escaped = {word: json.dumps(value)[1:-1] for word, value in words.items()}
    text = filled(TEMPLATE.read_text(encoding="utf-8"), escaped)
    return text.replace("questions(1000)", f"questions({words['NUMBER']})")


def refuse_what_is_there(project: Path, new: Iterable[Path]) -> None:
    if there := [str(path.relative_to(project)) for path in new if path.exists()]:
        raise ValueError(f"there is already {', '.join(there)}: choose another name")


def filled(text: str, words: dict[str, str]) -> str:
    for word, value in words.items():
        text = text.replace(f"__{word}__", value)
    return text


def replace(path: Path, old: str, new: str) -> None:
    text = path.read_text(encoding="utf-8")
    if text.count(old) != 1:
        raise ValueError(f"{path.name} has no single place {old!r}: add it by hand")
    path.write_text(text.replace(old, new), encoding="utf-8")
