"""Check the built site: `python -m tools.site.walk FOLDER` reports every dead link and external request.

A page may link to external pages, but must not load scripts, styles, fonts, images or frames from them.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

FETCHED_LINKS = {"stylesheet", "icon", "preload", "modulepreload", "prefetch", "preconnect", "manifest"}
IN_STYLE = re.compile(r"(?:url\(|@import\s+)[\"']?((?:https?:)?//[^\"')\s]+)")
MADE_BY_SCRIPT = "genindex"  # Sphinx creates the anchors of letters in the page


class Page(HTMLParser):
    """A page's anchors, its links, and what it loads."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.goals = {"top"}
        self.links: list[str] = []
        self.fetched: list[str] = []
        self.without_words: list[str] = []
        self.feed(text)
        self.fetched += IN_STYLE.findall(text)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        about = {name: value or "" for name, value in attributes}
        self.goals |= {about[name] for name in ("id", "name") if name in about}
        if tag == "a" and "href" in about:
            self.links.append(about["href"])
        if tag == "img" and "alt" not in about:
            self.without_words.append(about.get("src", ""))
        if "src" in about:
            self.fetched.append(about["src"])
        if tag == "link" and FETCHED_LINKS & set(about.get("rel", "").split()):
            self.fetched.append(about.get("href", ""))


@cache
def read(page: Path) -> Page:
    return Page(page.read_text(encoding="utf-8"))


def is_outside(address: str) -> bool:
    parts = urlsplit(address)
    return bool(parts.netloc or parts.scheme) and parts.scheme != "data"


def complaints(folder: Path) -> Iterator[str]:
    """Return a sentence for each fault, by page."""
    for page in sorted(folder.rglob("*.html")):
        name, content = page.relative_to(folder), read(page)
        if "_static" in name.parts:  # files of other projects
            continue
        yield from (f"{name}: loads {one}, which is external" for one in content.fetched if is_outside(one))
        yield from (f"{name}: an image without alt text: {one[:80]}" for one in content.without_words)
        inside = [one for one in content.links + content.fetched if not is_outside(one) and not one.startswith("data:")]
        yield from (f"{name}: {why}" for one in dict.fromkeys(inside) if (why := dead(one, page)))
    for style in sorted(folder.rglob("*.css")):
        found = IN_STYLE.findall(style.read_text(encoding="utf-8"))
        yield from (f"{style.relative_to(folder)}: loads {one}, which is external" for one in found)


def dead(link: str, page: Path) -> str | None:
    parts = urlsplit(link)
    goal = (page.parent / unquote(parts.path)).resolve() if parts.path else page
    if not goal.exists():
        return f"{link} is a dead link"
    anchor = unquote(parts.fragment)
    if anchor and goal.suffix == ".html" and goal.stem != MADE_BY_SCRIPT and anchor not in read(goal).goals:
        return f"{link} leads to a page without the anchor {anchor}"
    return None


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    pages, found = len(list(folder.rglob("*.html"))), list(complaints(folder))
    print(*found, f"{folder}: {pages} pages, faults: {len(found)}", sep="\n")
    sys.exit(bool(found) or not pages)
