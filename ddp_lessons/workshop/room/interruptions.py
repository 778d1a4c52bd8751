"""What ends a room: Ctrl+C, a `kill`, a terminal that is gone; and what none of these may cut in two."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from types import FrameType
from typing import NoReturn

_ENDING: tuple[int, ...] = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def all_as_ctrl_c() -> None:
    """Also the end of an ssh session (SIGHUP), unless the room was started with `nohup`."""
    for number in _ENDING:
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, _as_ctrl_c)


@contextlib.contextmanager
def undisturbed() -> Iterator[None]:
    """Whatever would interrupt comes at its end: not between the start of a process and the note of it."""
    if threading.current_thread() is not threading.main_thread():  # signals do not come here
        yield
        return
    came: list[tuple[int, FrameType | None]] = []
    before = {number: signal.getsignal(number) for number in _ENDING}
    changed = [number for number, handler in before.items() if callable(handler)]
    for number in changed:
        signal.signal(number, lambda which, frame: came.append((which, frame)))
    try:
        yield
    finally:
        for number in changed:
            signal.signal(number, before[number])
    for which, frame in came[:1]:
        handler = before[which]
        assert callable(handler)
        handler(which, frame)


def _as_ctrl_c(*_: object) -> NoReturn:
    """Once: a second one, as a lost terminal's shell sends it too, would come into the cleaning up."""
    for number in _ENDING:
        signal.signal(number, signal.SIG_IGN)
    raise KeyboardInterrupt
