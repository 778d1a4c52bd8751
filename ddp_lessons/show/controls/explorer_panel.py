"""The controls of an explorer as ipywidgets, and its picture below them.

All can be reached and turned by keyboard, and have a name that a screen reader can say.
"""

from __future__ import annotations

import html
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import ipywidgets

from ddp_lessons.show.controls.control_fields import Field, Looks, Player
from ddp_lessons.show.controls.explorer_controls import Choice, Steps
from ddp_lessons.show.figures.figure import Figure
from ddp_lessons.show.figures.living import living
from ddp_lessons.show.page.chart import Chart
from ddp_lessons.show.page.picture import Picture

if TYPE_CHECKING:
    from ddp_lessons.show.controls.explorer import Explorer


class Panel:
    """One explorer's widgets, wherever it is shown."""

    def __init__(self, explorer: Explorer[Any]) -> None:
        self._explorer = explorer
        self._shown: Picture | Figure | None = None
        self._living: Any = None
        self._looks = looks = Looks()
        self._rows: dict[str, Field] = {name: self._row(name, control) for name, control in explorer.controls.items()}
        self._image, self._told, self._words = looks.html(), looks.html(), looks.html()
        self._as_text = looks.tick("the picture as text")
        self._as_text.observe(self._show_words, "value")
        buttons = [looks.button(explorer.run_label, self._careful(explorer.run))] if explorer.run_label else []
        beside = looks.layout(margin="0 1.2em 0 0", align_items="center", flex_flow="row wrap")
        controls = [ipywidgets.HBox(row.widgets, layout=beside) for row in self._rows.values()]
        row = looks.layout(flex_flow="row wrap", align_items="center")
        title = looks.html(f'<div role="heading" aria-level="4"><b>{html.escape(explorer.title)}</b></div>')
        parts = [title, ipywidgets.HBox([*controls, *buttons], layout=row)]
        self._stage = ipywidgets.VBox([self._image], layout=looks.layout())
        parts += [self._stage, self._told, self._as_text, self._words]
        self._box = ipywidgets.VBox(parts, layout=looks.layout())
        self.turn_controls()
        self.show()

    def view(self) -> dict[str, Any]:
        """What a front end with widgets shows."""
        model = {"version_major": 2, "version_minor": 0, "model_id": self._box.model_id}
        return {"application/vnd.jupyter.widget-view+json": model}

    def turn_controls(self) -> None:
        """Show the controls' values that the explorer has now."""
        for name, row in self._rows.items():
            row.follow(self._explorer.options[name], self._explorer.values[name])

    def show(self) -> None:
        """Show the picture that the explorer has now."""
        picture, failure = self._explorer.picture, self._explorer.failure
        if picture is not self._shown:
            self._shown = picture
            if isinstance(picture, Figure):
                self._show_figure(picture)
            else:
                self._image.value = _message(failure) if failure else _image(picture)
                self._stage.children = [self._image]
            self._show_words()
        speaks = isinstance(picture, Figure) and picture.document["kind"] != "drawing"  # itself
        self.tell("" if failure or speaks else picture.alt)

    def _show_figure(self, figure: Figure) -> None:
        if self._living is None:
            self._living = living(figure.document)
        self._living.document = dict(figure.document)
        self._stage.children = [self._living]

    def tell(self, sentence: str) -> None:
        """Say it under the picture; a screen reader reads it out when it is free to."""
        self._told.value = f'<div role="status" aria-live="polite">{html.escape(sentence)}</div>'

    def close(self) -> None:
        for row in self._rows.values():
            row.stop()
        for widget in list(_all_widgets(self._box)):
            if getattr(widget, "style", None):
                widget.style.close()
            widget.close()
        self._looks.close()

    def _show_words(self, change: object = None) -> None:
        text = html.escape(self._shown.text if self._shown else "")
        self._words.value = f'<pre tabindex="0" style="overflow-x:auto">{text}</pre>' if self._as_text.value else ""

    def _row(self, name: str, control: Choice) -> Field:
        def turn(value: Any) -> None:
            self._careful(lambda: self._explorer.set(**{name: value}))()

        options, value = self._explorer.options[name], self._explorer.values[name]
        if isinstance(control, Steps):
            return Player(control, options, value, turn, self._looks)
        return Field(control, options, value, turn, self._looks)

    def _careful(self, action: Callable[[], object]) -> Callable[[], None]:
        """Nobody sees a traceback from here: it would go to the log of the notebook."""

        def act() -> None:
            try:
                action()
            except KeyboardInterrupt:
                self._explorer.fail("Interrupted.")
            except Exception as error:
                self._explorer.fail(f"{type(error).__name__}: {error}")

        return act


_shown_by_cells: dict[str, tuple[str, list[Explorer[Any]]]] = {}


def close_what_this_cell_showed(explorer: Explorer[Any]) -> None:
    """A cell that runs again shows something else: its former widgets would stay in the kernel and in the file."""
    cell, run = _running_cell()
    if not cell:
        return
    last, explorers = _shown_by_cells.get(cell, ("", []))
    if last != run:
        for former in explorers:
            if former is not explorer:
                former.close()
        explorers = []
    _shown_by_cells[cell] = run, [*explorers, explorer]


def _running_cell() -> tuple[str, str]:
    """Its name, if the front end gives it one, and that of this run."""
    from IPython.core.getipython import get_ipython

    shell: Any = get_ipython()
    parent = shell.kernel.get_parent()
    return str(parent.get("metadata", {}).get("cellId", "")), str(parent.get("header", {}).get("msg_id", ""))


def _image(picture: Picture) -> str:
    if isinstance(picture, Chart):
        return picture._repr_html_()
    data, about = picture._repr_mimebundle_()
    alt, width = html.escape(about["image/png"]["alt"], quote=True), about["image/png"]["width"]
    style = f"width:{width}px;max-width:100%;height:auto"
    return f'<img alt="{alt}" style="{style}" src="data:image/png;base64,{data["image/png"].strip()}">'


def _message(failure: str) -> str:
    return f'<pre role="alert" style="white-space:pre-wrap">{html.escape(failure)}</pre>'


def _all_widgets(box: Any) -> Iterator[Any]:
    for child in getattr(box, "children", ()):
        yield from _all_widgets(child)
    yield box
