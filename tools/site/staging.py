"""Prepare the sources of the site: `python -m tools.site.staging FOLDER` makes a folder for Sphinx.

The pages are README.md, the lessons with stored outputs, docs/, and the docstrings. A link to another file of the
project, such as a script or a test, leads to a page that shows it.
"""

from __future__ import annotations

import re
import shutil
import sys
from pathlib import Path
from urllib.parse import unquote

import nbformat

from tools.site.lesson_pages import LESSONS, ROOT, lesson_page, read_lesson, title_of
from tools.site.reference import api_pages

# the other pages of docs/ are reference
TO_TEACH = ("docs/instructor/", "docs/participants.md", "docs/room.md", "docs/offline.md", "docs/grading.md")
LANGUAGES = {".py": "python", ".yaml": "yaml", ".toml": "toml", ".sbatch": "bash", ".sh": "bash"}
# Code, which has no links, or the target of a link inside the project: a file, an anchor, or both.
CODE_OR_LINK = re.compile(
    r"^ {0,3}(?P<fence>`{3,}|~{3,}).*?^ {0,3}(?P=fence)[`~]*[ \t]*$"
    r"|(?<=\]\()(?![a-z][a-z0-9+.-]*:)(?P<file>[^)\s#]*)(?P<anchor>#[^)\s]*)?(?=[)\s])",
    re.M | re.S,
)


def groups() -> dict[str, list[str]]:
    """All pages with a source, grouped by purpose; a folder's index page comes before its other pages."""
    found = [path.relative_to(ROOT) for path in (ROOT / "docs").rglob("*.md")]
    texts = [path.as_posix() for path in sorted(found, key=lambda path: (path.parent, path.stem != "index", path))]
    teach = [text for place in TO_TEACH for text in texts if text.startswith(place)]
    return {
        "Learn": [*LESSONS, "notebooks/glossary.md"],
        "Teach": teach,
        "Look up": ["README.md", "api/index.md", *(text for text in texts if text not in teach)],
        "Take part": ["CONTRIBUTING.md", "CHANGELOG.md"],
    }


def list_of_pages() -> str:
    lines = ["# All pages"]
    for caption, pages in groups().items():
        lines += ["", "```{toctree}", f":caption: {caption}", ":maxdepth: 1", "", *map(entry, pages), "```"]
    return "\n".join(lines) + "\n"


def entry(page: str) -> str:
    if page in LESSONS:
        return f"{int(Path(page).name[:2])}. {title_of(page)} <{page}>"
    return f"The whole course on one page <{page}>" if page == "README.md" else page


def fill(folder: Path) -> int:
    """Write all pages, and return how many have a source."""
    pages = {page for group in groups().values() for page in group if not page.startswith("api/")}
    files: set[str] = set()
    for page in sorted(pages):
        if page in LESSONS:
            notebook = lesson_page(read_lesson(page), Path(page).name)
            for cell in notebook.cells:
                if cell.cell_type == "markdown":
                    cell.source = relinked(cell.source, page, pages, files)
            write(folder / page, nbformat.writes(notebook))  # type: ignore[no-untyped-call]
        else:
            write(folder / page, relinked((ROOT / page).read_text(encoding="utf-8"), page, pages, files))
    for name, text in {"contents.md": list_of_pages(), **api_pages()}.items():
        write(folder / name, text)
    for file in files:
        if Path(file).suffix in (".png", ".svg"):
            write(folder / file, (ROOT / file).read_bytes())
        else:
            write(folder / f"{file}.md", page_with(file))
    return len(pages)


def relinked(text: str, page: str, pages: set[str], files: set[str]) -> str:
    """Point the links of a text to pages of the site, and add the other files that they link to."""

    def replaced(found: re.Match[str]) -> str:
        if found["fence"]:
            return found[0]
        goal, anchor = unquote(found["file"]), found["anchor"] or ""
        path = ((ROOT / page).parent / goal).resolve()
        if goal and path.is_file() and path.is_relative_to(ROOT):  # Sphinx reports dead links
            target = path.relative_to(ROOT).as_posix()
            if target not in pages:
                files.add(target)
                goal += "" if path.suffix in (".png", ".svg") else ".md"
        # as GitHub and Sphinx write anchors; JupyterLab keeps capitals and signs
        return goal + anchor[:1] + re.sub(r"[^\w-]", "", unquote(anchor).lower())

    return CODE_OR_LINK.sub(replaced, text)


def page_with(file: str) -> str:
    """Make a page that shows a file. It is neither listed nor searched."""
    text = (ROOT / file).read_text(encoding="utf-8")
    fence = "`" * max(3, 1 + max(map(len, re.findall(r"`{3,}", text)), default=0))
    language = LANGUAGES.get(Path(file).suffix, "text")
    about = "---\norphan: true\nno-search: true\n---\n"
    return f"{about}# {file}\n\n{fence}{{code-block}} {language}\n:linenos:\n\n{text}\n{fence}\n"


def write(goal: Path, content: str | bytes) -> None:
    goal.parent.mkdir(parents=True, exist_ok=True)
    goal.write_bytes(content.encode() if isinstance(content, str) else content)


if __name__ == "__main__":
    shutil.rmtree(sys.argv[1], ignore_errors=True)
    print(f"{sys.argv[1]}: {fill(Path(sys.argv[1]))} pages prepared")
