"""Hold back the stop button while a launch must not be interrupted, and for a moment after it."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Any

_DEAF_SECONDS = 0.5


class HeldInterrupts:
    """Note an interrupt instead of raising it at once; raise it at the end, unless the launch did."""

    def __init__(self) -> None:
        self.noted = False
        self._before: Any = None

    def __enter__(self) -> HeldInterrupts:
        if threading.current_thread() is threading.main_thread():
            self._before = signal.signal(signal.SIGINT, self._note)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, path: TracebackType | None
    ) -> None:
        if self._before is not None:
            was_stopped = isinstance(error, KeyboardInterrupt)
            signal.signal(signal.SIGINT, _deaf_for_a_moment(self._before) if was_stopped else self._before)
        if self.noted and error is None:
            raise KeyboardInterrupt

    def _note(self, number: int, frame: FrameType | None) -> None:
        self.noted = True


def _deaf_for_a_moment(before: Any) -> Callable[[int, FrameType | None], None]:
    """A second press of stop must not keep the notebook from showing where the ranks were."""
    until = time.monotonic() + _DEAF_SECONDS

    def handle(number: int, frame: FrameType | None) -> None:
        if time.monotonic() > until:
            signal.signal(signal.SIGINT, before)
            signal.raise_signal(signal.SIGINT)

    return handle
