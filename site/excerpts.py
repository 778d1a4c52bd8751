"""The texts of all pages in one script, so that the search can show excerpts even from disk.

From disk a page may not read another page, but it may load a script. Only the search page loads it.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

from docutils import nodes
from sphinx.application import Sphinx

FILE = "_static/texts.js"
LEFT_OUT = (nodes.comment, nodes.raw, nodes.Invisible)


def write_texts(app: Sphinx, error: Exception | None) -> None:
    if error or app.builder.name != "html":
        return
    searched = (page for page in app.env.found_docs if "no-search" not in app.env.metadata[page])
    texts = {page: text_of(app.env.get_doctree(page)) for page in sorted(searched)}
    script = f"globalThis.ddpTexts = {json.dumps(texts, ensure_ascii=False, separators=(',', ':'))}\n"
    (Path(app.outdir) / FILE).write_text(script, encoding="utf-8")


def text_of(page: nodes.document) -> str:
    """The page's text without pictures, quizzes and other raw HTML."""
    found = (node for node in page.findall(nodes.TextElement) if not isinstance(node, LEFT_OUT))
    texts = [node.astext() for node in found if not isinstance(node.parent, nodes.TextElement)]
    return re.sub(r"\s+", " ", " ".join(texts)).strip()


def load_texts(app: Sphinx, page: str) -> None:
    if page == "search":
        app.add_js_file(Path(FILE).name)
