"""How far a long piece of work is: a line in a terminal, a small picture in a notebook.

A picture, since what a cell prints is stored with the lesson and compared: a text that appears only on a slow machine
would change the lesson.
"""

from __future__ import annotations

import base64
import io
import sys
import time
import uuid
from types import TracebackType
from typing import Any

_WIDTH, _HEIGHT = 420, 22
_PATIENCE_SECONDS = 0.7  # shorter work needs no words
_EVERY_SECONDS = 0.2


class Progress:
    """Say `progress.at(done, total)` now and then, within a `with`."""

    def __init__(self, words: str) -> None:
        self._words = words
        self._next = time.monotonic() + _PATIENCE_SECONDS
        self._shown = False
        self._name = uuid.uuid4().hex
        self._publisher = _notebook()

    def at(self, done: float, total: float) -> None:
        if time.monotonic() < self._next:
            return
        self._next = time.monotonic() + _EVERY_SECONDS
        self._show(f"{self._words}: {done:.0f} of {total:.0f}", min(1.0, done / total))

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._shown:
            self._show("", 0.0)

    def _show(self, words: str, share: float) -> None:
        if self._publisher is not None:
            image = base64.b64encode(_picture(words, share)).decode("ascii")
            about = {"image/png": {"alt": words}}
            name = {"display_id": self._name}
            self._publisher.publish({"image/png": image}, about, transient=name, update=self._shown)
        elif sys.stderr is not None and sys.stderr.isatty():
            print(f"\r{words:<60}" if words else f"\r{'':<60}\r", end="", file=sys.stderr, flush=True)
        self._shown = True


def _notebook() -> Any:
    """What shows things in a notebook, where this is one. Not imported: elsewhere nobody needs it."""
    shell: Any = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return shell.display_pub if hasattr(shell, "kernel") else None


def _picture(words: str, share: float) -> bytes:
    """A bar with words on it; without words, a dot that nobody sees."""
    from PIL import Image, ImageDraw, ImageFont

    image = Image.new("RGB", (_WIDTH, _HEIGHT), "#FFFFFF") if words else Image.new("RGBA", (1, 1))
    if words:
        pen = ImageDraw.Draw(image)
        pen.rectangle((0, 0, round(share * (_WIDTH - 1)), _HEIGHT - 1), fill="#D5DAE1")
        pen.text((6, 3), words, fill="#111820", font=ImageFont.load_default(13))
    file = io.BytesIO()
    image.save(file, "png")
    return file.getvalue()
