"""One control of an explorer as ipywidgets: a field of the browser's own with a label and, for some, what goes with it.

A slider's handle has no name in ipywidgets, so each slider comes with a field of the same value.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable, Iterator
from typing import Any

import ipywidgets

from ddp_lessons.show.controls.explorer_controls import Choice, Slider, Steps, Tick

LABELS = {"description_width": "initial"}


class Looks:
    """The layouts of a panel, each made once: a saved notebook keeps every one that there is."""

    def __init__(self) -> None:
        self._layouts: dict[Any, Any] = {}

    def layout(self, **what: str) -> Any:
        key = tuple(sorted(what.items()))
        if key not in self._layouts:
            self._layouts[key] = ipywidgets.Layout(**what)
        return self._layouts[key]

    def of(self, kind: Any, width: str = "auto", **about: Any) -> Any:
        """A widget of this kind."""
        return kind(layout=self.layout(width=width), **about)

    def html(self, text: str = "") -> Any:
        return self.of(ipywidgets.HTML, value=text)

    def tick(self, label: str) -> Any:
        return self.of(ipywidgets.Checkbox, description=label, indent=False)

    def button(self, label: str, action: Callable[[], object]) -> Any:
        made = self.of(ipywidgets.Button, description=label)
        made.on_click(lambda clicked: action())
        return made

    def close(self) -> None:
        for layout in self._layouts.values():
            layout.close()


class _Following(threading.local):
    """If widgets are being set right now, by this thread: what another one turns meanwhile counts all the same."""

    now = False


class Field:
    """The widgets of one control."""

    def __init__(
        self, control: Choice, options: dict[str, Any], value: Any, turn: Callable[[Any], None], looks: Looks
    ) -> None:
        self._turn, self._names, self._values = turn, list(options), list(options.values())
        self._following = _Following()
        self._field = self._make_field(control, looks)
        self._slider = None
        if isinstance(control, Slider):
            self._slider = looks.of(ipywidgets.IntSlider, "12em", readout=False)
        self.widgets: list[Any] = [self._field, *[self._slider] * (self._slider is not None)]
        self.follow(options, value)
        self._field.observe(self._field_turned, "value")
        if self._slider:
            self._slider.observe(lambda change: self._choose(change["new"]), "value")

    def follow(self, options: dict[str, Any], value: Any) -> None:
        self._names, self._values = list(options), list(options.values())
        place = self._values.index(value) if value in self._values else 0
        with self._follow():
            if self._is_number:
                _bound(self._field, self._values[0], self._values[-1], value)
            elif self._is_tick:
                self._field.value = bool(value)
            else:
                pairs = tuple(zip(self._names, self._values, strict=True))
                if tuple(self._field.options) != pairs:
                    self._field.options = pairs
                self._field.index = place if pairs else None
            for widget in self.widgets:
                widget.disabled = len(self._values) < 2
            if self._slider:
                _bound(self._slider, 0, max(len(self._values) - 1, 0), place)

    def stop(self) -> None:
        pass

    def _make_field(self, control: Choice, looks: Looks) -> Any:
        steps = {b - a for a, b in zip(self._values, self._values[1:], strict=False)} if self._all_are_integers else {0}
        self._is_tick = isinstance(control, Tick)
        self._is_number = not self._is_tick and steps <= {1} and self._names == [str(value) for value in self._values]
        if self._is_tick:
            return looks.tick(control.label)
        kind = ipywidgets.BoundedIntText if self._is_number else ipywidgets.Dropdown
        width = f"calc({len(control.label)}ch + 6em)" if self._is_number else "auto"
        field = looks.of(kind, width, description=control.label, style=LABELS)
        if self._is_number:
            field.continuous_update = True
        return field

    @property
    def _all_are_integers(self) -> bool:
        return bool(self._values) and all(type(value) is int for value in self._values)

    def _field_turned(self, change: Any) -> None:
        if not self._following.now:
            self._turn(change["new"])

    def _choose(self, place: int) -> None:
        if not self._following.now and 0 <= place < len(self._values):
            self._turn(self._values[place])

    @contextlib.contextmanager
    def _follow(self) -> Iterator[None]:
        before, self._following.now = self._following.now, True
        try:
            yield
        finally:
            self._following.now = before


class Player(Field):
    """Play, Back and Step before a slider. The kernel keeps the time, so playing pauses while a cell runs."""

    def __init__(
        self, control: Steps, options: dict[str, Any], value: Any, turn: Callable[[Any], None], looks: Looks
    ) -> None:
        self._seconds, self._place = control.seconds, 0
        self._timer: asyncio.TimerHandle | None = None
        self._play = looks.button("Play", self._play_or_pause)
        self._back, self._step = looks.button("Back", lambda: self._go(-1)), looks.button("Step", lambda: self._go(1))
        super().__init__(control, options, value, turn, looks)
        self.widgets = [self._play, self._back, self._step, *self.widgets]

    def follow(self, options: dict[str, Any], value: Any) -> None:
        super().follow(options, value)
        self._place = self._values.index(value) if value in self._values else 0

    def stop(self) -> None:
        if self._timer:
            self._timer.cancel()
        self._timer, self._play.description = None, "Play"

    def _go(self, steps: int) -> None:
        self.stop()
        self._choose(self._place + steps)

    def _play_or_pause(self) -> None:
        if self._timer:
            self.stop()
            return
        self._play.description = "Pause"
        if self._place == len(self._values) - 1:
            self._choose(0)
        self._wait()

    def _wait(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(self._seconds, self._tick)

    def _tick(self) -> None:
        self._choose(self._place + 1)
        if self._place < len(self._values) - 1:
            self._wait()
        else:
            self.stop()


def _bound(widget: Any, low: int, high: int, value: int) -> None:
    """New bounds and a new value, never one of them outside of the others."""
    widget.min, widget.max = min(low, widget.min), max(high, widget.max)
    widget.value = value
    widget.min, widget.max = low, high
