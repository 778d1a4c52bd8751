"""The renderer in the browser: its source as one module, and the widget that it lives in.

The modules are joined as they are: nothing is built, so nothing can be older than its source.
"""

from __future__ import annotations

import functools
import html
import pathlib
import re
from collections.abc import Mapping
from typing import Any

HERE = pathlib.Path(__file__).parent
MODULES = ("marks", "timeline", "player", "exchange", "drawing", "questions", "mount")  # each uses only those before it


@functools.cache
def joined_modules() -> str:
    """All of them in one scope: their imports of each other are gone, and so is the word `export`."""
    sources = [(HERE / f"{name}.js").read_text(encoding="utf-8") for name in MODULES]
    alone = (re.sub(r"^import .* from .*\n|^export (?!default)", "", source, flags=re.MULTILINE) for source in sources)
    return "\n".join(map(_without_comments, alone))


def _without_comments(source: str) -> str:
    """A notebook keeps the source once for each figure. No text of ours in it has two lines."""
    lines = re.sub(r"/\*\*.*?\*/", "", source, flags=re.DOTALL).splitlines()
    return "\n".join(line.strip() for line in lines if line.strip() and not line.strip().startswith("//"))


@functools.cache
def theme() -> str:
    """The colors of the page, for everything in a figure."""
    return (HERE / "theme.css").read_text(encoding="utf-8")


@functools.cache
def style_sheet() -> str:
    return theme() + "".join((HERE / name).read_text(encoding="utf-8") for name in ("figures.css", "questions.css"))


def script_of_page() -> str:
    """For a page without a kernel: a plain script, since a page read from disk may not load modules."""
    return f"(() => {{\n{joined_modules().replace('export default', 'globalThis.ddpFigures =')}\n}})()\n"


def publish(shown: Any, view: Mapping[str, Any]) -> None:
    """Alive or still; and below it a caption that opens to the drawing in text."""
    from IPython.display import publish_display_data

    image, about = shown._repr_mimebundle_()
    words = f"<details><summary>{html.escape(shown.alt)}</summary><pre>{html.escape(shown.text)}</pre></details>"
    publish_display_data({**view, **image}, about)
    publish_display_data({"text/html": words, "text/plain": shown.alt})


def view_of(document: Mapping[str, Any]) -> dict[str, Any]:
    """For a front end with widgets; nothing where there is no kernel that could talk to one, or no anywidget."""
    from IPython import get_ipython

    if not hasattr(get_ipython(), "kernel"):
        return {}
    try:
        model_id = living(document).model_id
    except ImportError:
        return {}
    model = {"version_major": 2, "version_minor": 0, "model_id": model_id}
    return {"application/vnd.jupyter.widget-view+json": model}


def living(document: Mapping[str, Any]) -> Any:
    """A widget that shows the document; it shows another one when it is given it as `document`."""
    return _widget_class()(document=dict(document))


@functools.cache
def _widget_class() -> Any:
    import anywidget
    import traitlets

    class Living(anywidget.AnyWidget):
        _esm = joined_modules()
        _css = style_sheet()
        document = traitlets.Dict().tag(sync=True)

    return Living
