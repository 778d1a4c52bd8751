"""Prepare the sources of the site: `python site/staging.py FOLDER` fills a folder for Sphinx.

The pages are README.md, the lessons with stored outputs, docs/, and the docstrings. landing.py makes the first page. A
link to another file of the project (a script, a test) leads to a page that shows the file.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from urllib.parse import unquote

import nbformat
from committed import ROOT, lessons, number_of, read_lesson, title_of as title_of_lesson
from landing import first_page
from lesson_pages import page_of
from living import FIRST_PAGE
from reference import api_pages, plural

from authoring.hosted import repository

FRONT = "README.md"
LIST = "contents.md"  # all pages
# the other texts of docs/ are for reference
TO_TEACH = ("docs/instructor", "docs/participants.md", "docs/room.md", "docs/offline.md", "docs/grading.md")
OF_THE_PROJECT = ("CONTRIBUTING.md", "CHANGELOG.md")
GLOSSARY = "notebooks/glossary.md"
PICTURES = (".png", ".svg", ".gif", ".jpg")
LANGUAGES = {".py": "python", ".yaml": "yaml", ".yml": "yaml", ".toml": "toml", ".sbatch": "bash", ".sh": "bash"}

FENCED = re.compile(r"^( {0,3})(`{3,}|~{3,}).*?^ {0,3}\2[`~]*[ \t]*$", re.M | re.S)
LINK = re.compile(r"(?<=\]\()(?![a-z][a-z0-9+.-]*:|#)([^)\s#]+)(#[^)\s]*)?(?=[)\s])")
ANCHOR = re.compile(r"(?<=\]\()#([^)\s]+)(?=[)\s])")  # within the page


def texts() -> list[str]:
    """The Markdown files under docs/; a folder's index page comes before its other pages."""
    found = [name(path) for path in (ROOT / "docs").rglob("*.md")]
    return sorted(found, key=lambda text: (str(Path(text).parent), Path(text).stem not in ("README", "index"), text))


def name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


class Staging:
    """A folder being filled. A file is written only if it changed, so that Sphinx rereads only changed pages."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.pages = {FRONT, GLOSSARY, *lessons(), *texts(), *OF_THE_PROJECT}
        self._linked: set[str] = set()
        self._laid: set[Path] = set()

    def fill(self) -> None:
        for page in sorted(self.pages):
            self._lay_page(page)
        self._write(LIST, contents())
        self._write(FIRST_PAGE, json.dumps(first_page()))
        for page, text in api_pages(ROOT / "ddp_lessons").items():
            self._write(page, text)
        for file in sorted(self._linked):
            self._write(f"{file}.md", shown(file))
        self._forget_the_rest()

    def _lay_page(self, page: str) -> None:
        if page.endswith(".ipynb"):
            self._write(page, self._notebook(page))
        else:
            self._write(page, self._relink((ROOT / page).read_text(encoding="utf-8"), page))

    def _notebook(self, page: str) -> str:
        notebook = page_of(read_lesson(page), Path(page).name, repository(ROOT))
        for cell in notebook.cells:
            if cell.cell_type == "markdown":
                cell.source = self._relink(cell.source, page)
        return str(nbformat.writes(notebook))  # type: ignore[no-untyped-call]

    def _relink(self, text: str, page: str) -> str:
        """Make the links of a text lead to pages of the site."""

        def relinked(link: re.Match[str]) -> str:
            return self._goal(unquote(link[1]), page) + (f"#{slug(link[2][1:])}" if link[2] else "")

        def prose(part: str) -> str:
            return ANCHOR.sub(lambda anchor: f"#{slug(anchor[1])}", LINK.sub(relinked, part))

        return outside_of_fences(text, prose)

    def _goal(self, link: str, page: str) -> str:
        """The target of this page's link on the site. Missing targets are left for Sphinx to report."""
        path = (ROOT / page).parent / link
        target = os.path.relpath(path, ROOT).replace(os.sep, "/")
        if path.is_dir():
            inside = [text for text in (f"{target}/README.md", f"{target}/index.md") if text in self.pages]
            return self._goal(f"{link.rstrip('/')}/{Path(inside[0]).name}", page) if inside else link
        if target in self.pages or not path.is_file() or target.startswith(".."):
            return link
        if path.suffix in PICTURES:
            self._copy(target)
            return link
        self._linked.add(target)
        return f"{link}.md"

    def _copy(self, file: str) -> None:
        goal = self.folder / file
        self._laid.add(goal)
        goal.parent.mkdir(parents=True, exist_ok=True)
        if not goal.exists() or goal.read_bytes() != (ROOT / file).read_bytes():
            shutil.copy(ROOT / file, goal)

    def _write(self, page: str, text: str) -> None:
        goal = self.folder / page
        self._laid.add(goal)
        goal.parent.mkdir(parents=True, exist_ok=True)
        if not goal.exists() or goal.read_text(encoding="utf-8") != text:
            goal.write_text(text, encoding="utf-8")

    def _forget_the_rest(self) -> None:
        """Remove pages whose source is gone."""
        for path in self.folder.rglob("*"):
            if path.is_file() and path not in self._laid:
                path.unlink()


def outside_of_fences(text: str, change: Callable[[str], str]) -> str:
    """Change a text except the code in it."""
    parts, end = [], 0
    for fence in FENCED.finditer(text):
        parts += [change(text[end : fence.start()]), fence[0]]
        end = fence.end()
    return "".join([*parts, change(text[end:])])


def slug(anchor: str) -> str:
    """A heading's anchor as GitHub and Sphinx write it; JupyterLab keeps capitals and signs."""
    return re.sub(r"[^\w-]", "", unquote(anchor).lower())


def title_of(page: str) -> str:
    """A page's title in the list of pages; a lesson's title includes its number."""
    if page.endswith(".ipynb"):
        return f"{number_of(page)}. {title_of_lesson(page)}"
    if page == FRONT:
        return "The whole course on one page"
    heading = re.search(r"^# (.+)$", (ROOT / page).read_text(encoding="utf-8"), re.M)
    return heading[1].replace("`", "") if heading else page


def shown(file: str) -> str:
    """A page that shows a file. It is not in the list of pages, and not searched."""
    text = (ROOT / file).read_text(encoding="utf-8")
    fence = "`" * max(3, 1 + max((len(run) for run in re.findall(r"`{3,}", text)), default=0))
    language = LANGUAGES.get(Path(file).suffix, "text")
    about = "---\norphan: true\nno-search: true\n---\n"
    return f"{about}# {file}\n\n{fence}{{code-block}} {language}\n:linenos:\n\n{text}\n{fence}\n"


def contents() -> str:
    """The list of pages, grouped by purpose."""
    teach = [text for place in TO_TEACH for text in texts() if text == place or text.startswith(f"{place}/")]
    look_up = [text for text in texts() if text not in teach]
    groups = {
        "Learn": [*lessons(), GLOSSARY],
        "Teach": teach,
        "Look up": [FRONT, "api/index.md", *look_up],
        "Take part": list(OF_THE_PROJECT),
    }
    return "# All pages\n" + "".join(listed(caption, group) for caption, group in groups.items() if group)


def listed(caption: str, pages: list[str]) -> str:
    entries = [page if page.startswith("api/") else f"{title_of(page)} <{page}>" for page in pages]
    options = [f":caption: {caption}", ":maxdepth: 1"]
    return "\n".join(["", "```{toctree}", *options, "", *entries, "```", ""])


def main() -> None:
    folder = Path(sys.argv[1])
    staging = Staging(folder)
    staging.fill()
    print(f"{folder}: {plural(len(staging.pages), 'page')} laid out")


if __name__ == "__main__":
    main()
