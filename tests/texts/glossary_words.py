"""The words of the glossary, and every place where the lessons use them: text alone, nothing is run.

A use is a word in the prose of a lesson: not in a heading, not in code, not in the text of a link that leads elsewhere.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import nbformat

NOTEBOOKS = Path(__file__).parents[2] / "notebooks"
GLOSSARY = NOTEBOOKS / "glossary.md"
LINK = re.compile(r"(?<!!)\[((?:[^\[\]`]|`[^`\n]*`)+)\]\(([^()\s]*)\)")
NO_PROSE = re.compile(r"```.*?```|<!--.*?-->|(?:^|(?<=\n\n)) {4}.*?(?=\n\n|\Z)|^#+ .*?$|`[^`\n]*`", re.S | re.M)
HEADING = re.compile(r"^#+ (.+)$", re.M)
OPENING = re.compile(r"\*\*(You will|You need):\*\*")


@dataclass(frozen=True)
class Place:
    """A section, as a link names it."""

    notebook: str
    anchor: str


@dataclass(frozen=True)
class Entry:
    word: str
    also: tuple[str, ...]
    explained: tuple[Place, ...]  # first where it is met, perhaps in half a sentence; then where it is said at length
    text: str

    @property
    def link(self) -> str:
        return f"glossary.md#{anchor_of(self.word)}"

    @property
    def forms(self) -> list[str]:
        return [self.word, *self.also, *map(plural, (self.word, *self.also))]


@dataclass(frozen=True, order=True)
class Use:
    cell: int
    paragraph: int
    at: int
    word: str
    form: str
    is_link: bool
    is_emphasized: bool
    is_announced: bool  # in the first cell, among what the lesson will give and what it needs
    section: str


@dataclass(frozen=True)
class Lesson:
    path: Path
    cells: tuple[tuple[int, str], ...] = field(repr=False)  # number and source, Markdown only

    @property
    def name(self) -> str:
        return self.path.name


def anchor_of(heading: str) -> str:
    """As JupyterLab makes it, and nbconvert, and so GitHub; our site is told to do the same."""
    return re.sub(r"[`*]", "", heading).strip().replace(" ", "-")


def plural(word: str) -> str:
    if word.endswith(("s", "x", "ch", "sh")):
        return word + "es"
    return word[:-1] + "ies" if re.search(r"[^aeiou]y$", word) else word + "s"


def read(path: Path) -> Lesson:
    if path == GLOSSARY:
        return Lesson(path, tuple(enumerate(re.split(r"\n+(?=## )", path.read_text(encoding="utf-8").rstrip()))))
    load: Any = nbformat.read
    cells = enumerate(load(path, as_version=4).cells)
    return Lesson(path, tuple((number, cell.source) for number, cell in cells if cell.cell_type == "markdown"))


@cache
def lessons() -> list[Lesson]:
    return [read(path) for path in sorted(NOTEBOOKS.glob("[0-9][0-9]_*.ipynb"))]


@cache
def entries() -> list[Entry]:
    return [entry_of(source) for _, source in read(GLOSSARY).cells if source.startswith("## ")]


def entry_of(source: str) -> Entry:
    """One word of the glossary: its heading, its text, and the lines that begin with *Also* and *Explained*."""
    heading, text = source.split("\n", 1)
    also = re.search(r"^Also: ([^.]+)\.", text, re.M)
    explained = re.search(r"\bExplained in .*", text)
    targets = [target for _, target in LINK.findall(explained[0])] if explained else []
    places = [Place(notebook, unquote(anchor)) for notebook, _, anchor in (target.partition("#") for target in targets)]
    forms = [form.strip(" *") for form in also[1].split(",")] if also else []
    return Entry(heading.removeprefix("## "), tuple(forms), tuple(places), text)


@cache
def anchors(path: Path) -> set[str]:
    return {anchor for _, source in read(path).cells for anchor in headings(source)}


@cache
def pattern() -> tuple[re.Pattern[str], dict[str, tuple[str, str]]]:
    """One search for all words, the longest first: a process group is not a use of *process*."""
    known = {key(form): (entry.word, form) for entry in entries() for form in reversed(entry.forms)}
    either = "|".join(form.replace(" ", "[-_ \\n]") for form in sorted(known, key=len, reverse=True))
    return re.compile(rf"(?<![\w\0])(?<!\w-)(?:{either})(?!\w|-\w)", re.I), known


def key(form: str) -> str:
    return re.sub(r"[-_\s]", " ", form).lower()


@cache
def uses(lesson: Lesson) -> list[Use]:
    """All uses in a lesson, in the order of reading."""
    section, found = "", []
    for cell, source in lesson.cells:
        found += list(_uses_in_cell(cell, source, section))
        section = [section, *headings(source)][-1]
    return sorted(found)


def _uses_in_cell(cell: int, source: str, section: str) -> Iterator[Use]:
    for begin, end, word, form, is_link in _spots(source):
        paragraph = source.count("\n\n", 0, begin)
        is_announced = cell == 0 and bool(OPENING.match(source.split("\n\n")[paragraph]))
        stars_around = source[begin - 1 : begin] == "*" and bool(re.match(r"[.:]?\*", source[end:]))
        is_emphasized = stars_around or (is_link and source[begin + 1] in "*`")
        where = [section, *headings(source[:begin])][-1]
        yield Use(cell, paragraph, begin, word, form, is_link, is_emphasized, is_announced, where)


def _spots(source: str) -> Iterator[tuple[int, int, str, str, bool]]:
    """From where to where each word stands, which one it is, how it is written, and whether it is a link."""
    word_of_link = {entry.link: entry.word for entry in entries()}
    for match in LINK.finditer(source):
        if match[2] in word_of_link:
            yield *match.span(), word_of_link[match[2]], match[1].strip("*`"), True
    search, known = pattern()
    for match in search.finditer(NO_PROSE.sub(_hidden, LINK.sub(_hidden, source))):
        word, form = known[key(match[0])]
        if form.islower() or form in match[0]:  # a form with capitals is a name: MPI is one, mpi is none
            yield *match.span(), word, match[0], False


def _hidden(match: re.Match[str]) -> str:
    return re.sub(r"[^\n]", "\0", match[0])


def headings(source: str) -> list[str]:
    """The anchors of a text's headings."""
    return [anchor_of(heading) for heading in HEADING.findall(re.sub(r"```.*?```", "", source, flags=re.S))]


def explaining_use(entry: Entry) -> Use | None:
    """The emphasized word in the section that the glossary names first."""
    place = entry.explained[0]
    found = [use for lesson in lessons() if lesson.name == place.notebook for use in uses(lesson)]
    here = (use for use in found if use.word == entry.word and use.section == place.anchor and use.is_emphasized)
    return next(here, None)
