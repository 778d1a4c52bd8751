"""Inside a rank of a plain script: record its calls, and write a dump whenever it has called nothing for a while.

For jobs that `explain` cannot start itself, such as those on several machines. Nothing is sent anywhere: each rank
writes a file, and `explain` reads them afterwards.
"""

from __future__ import annotations

import contextlib
import os
import runpy
import sys
import threading
import time
from collections.abc import Sequence

from ddp_lessons.record.garbage import nothing_collected
from ddp_lessons.record.rank_record import Standing
from ddp_lessons.run.rank.what_blocks import Surroundings, standing
from ddp_lessons.run.recording.flight_dump import write_dump
from ddp_lessons.run.recording.interception import install, recorder

_NEWEST = 2_000  # calls in a dump
_LONG_SECONDS = 600.0  # a wait with a shorter timeout is left to torch
_TICK_SECONDS = 0.5
WAIT_SECONDS = 10.0


def run_recorded(prefix: str, script: Sequence[str], wait_seconds: float = WAIT_SECONDS) -> int:
    """Run a script (its path and arguments) as this rank. Its dump is PREFIX followed by the rank."""
    if "RANK" not in os.environ:
        how = "torchrun ... -m ddp_lessons record --to PREFIX train.py"
        print(f"record runs a single rank of a job. Next: start it with `{how}`", file=sys.stderr)
        return 2
    folder = os.path.dirname(prefix)
    if folder:
        os.makedirs(folder, exist_ok=True)
    install()
    recorder.begin(keeps_values=False)
    watch = Watch(prefix, wait_seconds)
    threading.Thread(target=watch.keep, daemon=True).start()
    sys.argv = list(script)
    sys.path[0] = os.path.dirname(os.path.abspath(script[0]))
    try:
        runpy.run_path(script[0], run_name="__main__")
    except BaseException as error:
        if not isinstance(error, SystemExit) or error.code not in (None, 0):
            watch.end(f"raised {type(error).__name__}: {error}".partition("\n")[0])
            raise
    watch.end("returned")
    return 0


class Watch:
    """A thread that looks whether this rank still makes calls."""

    def __init__(self, prefix: str, wait_seconds: float) -> None:
        self._prefix, self._wait_seconds = prefix, wait_seconds
        from ddp_lessons.run.rank.script_rank import linger  # a process that imports it counts as a rank

        self._here = Surroundings(threading.main_thread().ident, linger.__name__, _LONG_SECONDS)
        self._has_ended = threading.Event()
        self._calls_in_dump = -1
        self._writing = threading.Lock()

    def keep(self) -> None:
        written = self._progress()
        seen, since = written, time.monotonic()
        while not self._has_ended.wait(_TICK_SECONDS):
            now = self._progress()
            if now != seen:
                seen, since = now, time.monotonic()
            elif now != written and time.monotonic() - since >= self._wait_seconds:
                written = now
                with contextlib.suppress(OSError), nothing_collected():
                    self._write(standing(recorder, self._here), "", time.monotonic() - since)

    def end(self, how: str) -> None:
        """The script is over. An exception that ends a long wait is a consequence: then the dump of the wait stays."""
        self._has_ended.set()
        if how != "returned" and self._calls_in_dump == recorder.count:
            return
        with contextlib.suppress(OSError):
            self._write(Standing(is_free=False), how, 0.0)

    def _progress(self) -> tuple[int, int]:
        """Changes with each call that begins or ends."""
        return recorder.count, sum(call.end is not None for call in list(recorder.calls)[-_NEWEST:])

    def _write(self, where: Standing, ended: str, quiet_seconds: float) -> None:
        rank, world_size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
        with self._writing:
            if self._has_ended.is_set() and not ended:
                return
            self._calls_in_dump = recorder.count
            write_dump(self._prefix, rank, world_size, recorder.recorded(_NEWEST, where), ended, quiet_seconds)
