"""Keep the alt texts of stored pictures, which myst-nb drops."""

from __future__ import annotations

import base64
import hashlib
from pathlib import Path
from typing import Any

import nbformat
from docutils import nodes
from sphinx.application import Sphinx


def alternative_texts(notebook: Path) -> dict[str, str]:
    """The alt texts, by myst-nb's name of the image, which is the hash of its bytes."""
    found: dict[str, str] = {}
    for cell in nbformat.read(notebook, as_version=4).cells:  # type: ignore[no-untyped-call]
        for output in cell.get("outputs", []):
            image = output.get("data", {}).get("image/png")
            if image:
                found[hashlib.sha256(base64.b64decode(image)).hexdigest()] = output.metadata["image/png"]["alt"]
    return found


def give_words(app: Sphinx, tree: nodes.document) -> None:
    page = Path(app.env.doc2path(app.env.docname))
    if page.suffix != ".ipynb":
        return
    words = alternative_texts(page)
    for image in tree.findall(nodes.image):
        name = Path(image["uri"]).stem
        if name in words:
            image["alt"] = words[name]


def setup(app: Sphinx) -> dict[str, Any]:
    app.connect("doctree-read", give_words)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
