"""In the notebook: ask the person at the keyboard, while another thread goes on reading what the ranks send."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from types import FrameType

from ddp_lessons.record.line_names import notebook_shell

_TICK_SECONDS = 0.05


class Interrupt(Exception):
    """The person pressed the stop button or Ctrl+C."""


def why_no_prompt() -> str:
    """Why nobody can answer; "" if a person can."""
    shell = notebook_shell()
    if shell is not None:
        is_deaf = not getattr(shell.kernel, "_allow_stdin", True)
        return "this notebook runs without input, as under papermill or nbconvert" if is_deaf else ""
    try:
        return "" if sys.stdin is not None and os.isatty(sys.stdin.fileno()) else "stdin is not a terminal"
    except (OSError, ValueError):
        return "stdin is not a terminal"


def asked(prompt: str, meanwhile: Callable[[float], object], is_pointless: Callable[[], bool]) -> str:
    """What the person types; "" if it has become pointless to ask.

    Raises:
        Interrupt: the person wants to stop.
        EOFError: there is no more input.
    """
    answered, cut_short = threading.Event(), threading.Event()
    is_main = threading.current_thread() is threading.main_thread()

    def read_on() -> None:
        while not answered.is_set():
            meanwhile(_TICK_SECONDS)
            if is_main and is_pointless() and not answered.is_set():
                cut_short.set()
                signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
                return

    reader = threading.Thread(target=read_on, daemon=True)
    try:
        with _interruptible(cut_short) as asking:
            reader.start()
            line = input(prompt)
            asking.clear()
            return line
    except KeyboardInterrupt:
        if cut_short.is_set():
            return ""
        raise Interrupt from None
    finally:
        answered.set()
        if reader.is_alive():
            reader.join()


@contextlib.contextmanager
def _interruptible(cut_short: threading.Event) -> Iterator[threading.Event]:
    """While the event is set, an interrupt is raised at once; otherwise the handler from before gets a person's."""
    asking, before = threading.Event(), signal.getsignal(signal.SIGINT)

    def handle(number: int, frame: FrameType | None) -> None:
        if asking.is_set():
            asking.clear()
            raise KeyboardInterrupt
        if callable(before) and not cut_short.is_set():
            before(number, frame)

    is_main = threading.current_thread() is threading.main_thread()
    if is_main:
        signal.signal(signal.SIGINT, handle)
    asking.set()
    try:
        yield asking
    finally:
        asking.clear()
        if is_main:
            signal.signal(signal.SIGINT, before)
