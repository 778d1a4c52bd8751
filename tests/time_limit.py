"""A test that has not ended after five minutes fails, and shows where each of its processes is."""

from __future__ import annotations

import contextlib
import faulthandler
import os
import shutil
import signal
import subprocess
import sys
import threading
import traceback
from collections.abc import Generator
from typing import NoReturn

import psutil
import pytest

SECONDS = 300.0
SECONDS_TO_CLEAN_UP = 30.0  # then this process ends, whatever keeps it


class TimeLimit:
    def __init__(self) -> None:
        self._terminal = os.dup(2)  # during a test, 2 is captured

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        marker = item.get_closest_marker("time_limit")
        seconds = float(marker.args[0]) if marker else SECONDS
        signal.signal(signal.SIGALRM, lambda *_: _fail(seconds))
        signal.setitimer(signal.ITIMER_REAL, seconds)
        faulthandler.dump_traceback_later(seconds + SECONDS_TO_CLEAN_UP, exit=True, file=self._terminal)
        try:
            return (yield)
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            faulthandler.cancel_dump_traceback_later()


def _fail(seconds: float) -> NoReturn:
    started = psutil.Process().children(recursive=True)
    others = [frame for thread, frame in sys._current_frames().items() if thread != threading.main_thread().ident]
    stacks = [*map(_stack_of, started), *("".join(traceback.format_stack(frame)) for frame in others)]
    for process in started:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()  # so that nothing waits for them when the test cleans up
    pytest.fail("\n\n".join([f"The test has not ended after {seconds:.0f} seconds. Where it was:", *stacks]))


def _stack_of(process: psutil.Process) -> str:
    py_spy = shutil.which("py-spy", path=os.path.dirname(sys.executable))
    if py_spy is None:
        return f"Process {process.pid}: py-spy, which shows stacks, is not installed"
    dump = subprocess.run([py_spy, "dump", "--pid", str(process.pid)], capture_output=True, text=True, timeout=20)
    return dump.stdout or f"Process {process.pid}: {dump.stderr}"
