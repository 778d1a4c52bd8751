"""In the notebook: ask the person at the keyboard."""

from __future__ import annotations

import os
import signal
import sys
import threading
from types import FrameType

from ddp_lessons.record.line_names import notebook_shell


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


def asked(prompt: str) -> str:
    """What the person types.

    Raises:
        KeyboardInterrupt: the person pressed the stop button or Ctrl+C, which a launch otherwise only notes.
        EOFError: there is no more input.
    """
    if threading.current_thread() is not threading.main_thread():
        return input(prompt)
    before = signal.getsignal(signal.SIGINT)

    def stop(number: int, frame: FrameType | None) -> None:
        signal.signal(signal.SIGINT, before)  # a second press must not interrupt what follows
        raise KeyboardInterrupt

    signal.signal(signal.SIGINT, stop)
    try:
        return input(prompt)
    finally:
        signal.signal(signal.SIGINT, before)
