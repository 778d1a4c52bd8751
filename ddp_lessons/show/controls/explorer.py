"""A picture with controls above it: turn one, and the picture is drawn again.

An explorer draws nothing of its own: it maps the values of its controls to a function that returns a `Picture` or a
`Figure`. Where there is no notebook, or no ipywidgets, it is that picture.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

from ddp_lessons.record.line_names import notebook_shell
from ddp_lessons.show.controls.explorer_controls import Choice, Values, nearest
from ddp_lessons.show.figures.figure import Figure
from ddp_lessons.show.page.picture import Picture, write_picture

if TYPE_CHECKING:
    from ddp_lessons.show.controls.explorer_panel import Panel


Shown = TypeVar("Shown", bound="Picture | Figure")


class Explorer(Generic[Shown]):
    """`draw(**values)` gives the picture for the controls' values: at each change or, with `run`, when asked to.

    Args:
        draw: takes the value of every control by its name; what it raises is shown in the place of the picture.
        title: what is explored, for those who cannot see the controls.
        controls: the controls by the names of draw's parameters.
        run: the label of a button, "Launch again": it alone draws. For what starts ranks.
    """

    def __init__(
        self, draw: Callable[..., Shown], *, title: str, controls: Mapping[str, Choice], run: str | None = None
    ) -> None:
        self.title, self.controls, self.run_label = title, dict(controls), run
        self.options: dict[str, dict[str, Any]] = {}  # of each control, by the names under which they are shown
        self._draw: Callable[..., Shown] = draw
        self._values: dict[str, Any] = {name: control.value for name, control in self.controls.items()}
        self._picture: Shown | None = None
        self._failure = ""
        self._panel: Panel | None = None
        self._fit()

    @property
    def values(self) -> Values:
        return dict(self._values)

    @property
    def picture(self) -> Shown:
        """As it is now; drawn on first use."""
        if self._picture is None:
            self.run()
        assert self._picture is not None
        return self._picture

    @property
    def failure(self) -> str:
        """What the drawing raised that should have become the picture, or ""."""
        if self._picture is None:
            self.run()
        return self._failure

    def set(self, **values: Any) -> None:
        """Turn controls, as by hand.

        Raises:
            ValueError: there is no such control, or it has no such value.
        """
        before = self.values
        for name, value in values.items():
            if name not in self.controls:
                raise ValueError(f"no control has the name {name!r}; these have: {', '.join(self.controls)}")
            self._values[name] = value
        self._fit()
        wrong = [name for name, value in values.items() if self._values[name] != value]
        if wrong:
            has = ", ".join(self.options[wrong[0]])
            value, self._values = values[wrong[0]], dict(before)
            self._fit()
            raise ValueError(f"{wrong[0]} cannot be {value!r} here; it can be: {has}")
        if self._panel:
            self._panel.turn_controls()  # before the drawing, which may take a second
        if self.run_label is None and self._values != before:
            self.run()
        if self._panel:
            self._panel.show()
            if self.run_label:
                self._panel.tell(f'Press "{self.run_label}" to see it for these values.')

    def run(self) -> None:
        """Draw for the values that there are."""
        if self._panel and self.run_label:
            self._panel.tell("Running …")
        try:
            picture, self._failure = self._draw(**self._values), ""
        except Exception as error:
            self._failure = f"{type(error).__name__}: {error}"
            picture = cast(Shown, _instead_of_a_picture(self._failure))
        self.show(picture)

    def show(self, picture: Shown) -> None:
        """Put this picture in the place of the one that is there."""
        self._picture = picture
        if self._panel:
            self._panel.show()

    def fail(self, why: str) -> None:
        """Put these words in the place of the picture."""
        self._failure = why
        self.show(cast(Shown, _instead_of_a_picture(why)))

    def close(self) -> None:
        """Take the controls away; the picture remains."""
        if self._panel:
            self._panel.close()
            self._panel = None

    def _fit(self) -> None:
        """What a control can be may depend on those before it."""
        fitted: dict[str, Any] = {}
        for name, control in self.controls.items():
            value = self._values[name]
            try:
                options = control.options_for(fitted)
            except Exception:  # the drawing will fail as well, and say why
                options = {str(value): value}
            fitted[name], self.options[name] = nearest(value, list(options.values())), options
        self._values = fitted

    def _ipython_display_(self) -> None:
        """One output: the controls where they can be shown, and the picture and its text for all other readers."""
        if self._panel is None and not _has_widgets():
            self.picture._ipython_display_()
            return
        from IPython.display import publish_display_data

        data, about = self.picture._repr_mimebundle_()
        from ddp_lessons.show.controls.explorer_panel import Panel, close_what_this_cell_showed

        close_what_this_cell_showed(self)
        self._panel = self._panel or Panel(self)
        publish_display_data({**data, **self._panel.view()}, about)

    def __repr__(self) -> str:
        return self.picture.text


def _has_widgets() -> bool:
    """There is a front end that could show controls, and what makes them."""
    if notebook_shell() is None:
        return False
    try:
        import ipywidgets  # noqa: F401
    except ImportError:
        return False
    return True


def _instead_of_a_picture(why: str) -> Picture:
    first = why.splitlines()[0] if why else "no picture"
    return replace(write_picture(first if len(first) <= 140 else first[:139] + "…"), text=why)
