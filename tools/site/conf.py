"""Sphinx settings of the site. Nothing is executed, and no page loads anything external."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from docutils import nodes
from sphinx.application import Sphinx

import ddp_lessons
from tools.site.first_page import first_page

project = "ddp-lessons"
author = "the authors of ddp-lessons"
version = release = ddp_lessons.__version__
language = "en"

extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]

# the lessons with stored outputs
nb_execution_mode = "off"
nb_ipywidgets_js: dict[str, object] = {}  # otherwise, a page with a widget loads require.js from an external server
nb_merge_streams = True
nb_code_prompt_show = "Reveal"
nb_code_prompt_hide = "Hide"
suppress_warnings = ["misc.highlighting_failure"]  # a job script in a cell is not Python
myst_heading_anchors = 4
myst_enable_extensions = ["attrs_inline"]

# the reference; names in backticks are code, as in the rest of the project
default_role = "code"
autodoc_typehints_format = "short"
autodoc_member_order = "bysource"
autodoc_inherit_docstrings = False
python_use_unqualified_type_names = True
python_maximum_signature_line_length = 88
add_module_names = False
napoleon_numpy_docstring = False

# a dead link is an error; links to other projects would need their lists, which are external
nitpicky = True
# type variables, and types under an alias
ALIASES = r"hosts\.Node(s|Command)|drawing\.Drawing|printed\.Ended|printed\.Trials"
OURS_WITHOUT_A_PLACE = rf".*\.([TPD]|{ALIASES})"
nitpick_ignore_regex = [(r"py:.*", r"(?!ddp_lessons\.).*"), (r"py:class", OURS_WITHOUT_A_PLACE)]

root_doc = "contents"  # index.html is the first page, made from a template
html_theme = "furo"
html_title = "ddp-lessons"
html_static_path = ["static"]
templates_path = ["templates"]
html_additional_pages = {"index": "landing.html"}
html_css_files = ["site.css"]
html_js_files = ["site.js"]
html_copy_source = False
html_show_sphinx = False
html_show_copyright = False
html_theme_options = {"navigation_with_keys": False}


def readable(app: object, what: str, name: str, thing: object, options: object, signature: str, returns: str) -> object:
    """Remove the signatures of types whose fields have factories, because users don't construct them."""
    return ("", None) if signature and "<factory>" in signature else (signature, returns)


def prepare_page(app: Sphinx, page: str, template: str, context: dict[str, object], tree: object) -> None:
    if page == "index":
        context |= first_page()
    if page == "search":
        app.add_js_file("texts.js")


def write_texts(app: Sphinx, error: Exception | None) -> None:
    """Write the texts of all pages into one script, so that the search can show excerpts even from disk.

    A page opened from disk may not read other pages, but it may load scripts.
    """
    if error or app.builder.name != "html":
        return
    searched = (page for page in sorted(app.env.found_docs) if "no-search" not in app.env.metadata[page])
    script = f"globalThis.ddpTexts = {json.dumps({page: text_of(app.env.get_doctree(page)) for page in searched})}\n"
    (Path(app.outdir) / "_static" / "texts.js").write_text(script, encoding="utf-8")


def text_of(page: nodes.document) -> str:
    """The page's text without figures, quizzes and other raw HTML."""
    left_out = (nodes.comment, nodes.raw, nodes.Invisible)
    found = (node for node in page.findall(nodes.TextElement) if not isinstance(node, left_out))
    texts = [node.astext() for node in found if not isinstance(node.parent, nodes.TextElement)]
    return re.sub(r"\s+", " ", " ".join(texts)).strip()


def setup(app: Sphinx) -> None:
    app.connect("html-page-context", prepare_page)
    app.connect("build-finished", write_texts)
    app.connect("autodoc-process-signature", readable)
