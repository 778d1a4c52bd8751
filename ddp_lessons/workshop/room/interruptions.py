"""What ends a room (Ctrl+C, a `kill`, a closed terminal), and the steps that it must not interrupt."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from types import FrameType
from typing import NoReturn

_ENDING: tuple[int, ...] = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def all_as_ctrl_c() -> None:
    """Treat `kill` and the end of an ssh session (SIGHUP, unless started with `nohup`) like Ctrl+C."""
    for number in _ENDING:
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, _as_ctrl_c)


@contextlib.contextmanager
def undisturbed() -> Iterator[None]:
    """Delay interrupts until the end, so that none comes between starting a process and recording it."""
    if threading.current_thread() is not threading.main_thread():  # no signals arrive in this thread
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
    """Only once: a second signal, which a closed terminal's shell may send, would interrupt the teardown."""
    for number in _ENDING:
        signal.signal(number, signal.SIG_IGN)
    raise KeyboardInterrupt
