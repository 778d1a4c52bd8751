"""A command that runs on several nodes, and its output while it runs."""

from __future__ import annotations

import queue
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence

from ddp_lessons.machines.attempts import Attempt, Said

_SECONDS_FOR_LAST_WORDS = 2.0


class Job:
    """A running command. Wait for output with `wait_for`, and for the end with `finish`."""

    def __init__(self, stop: Callable[[int], object], happened_since: Callable[[float], tuple[Said, ...]]) -> None:
        self._stop = stop
        self._happened_since = happened_since
        self._begin = time.monotonic()
        self._said: list[Said] = []
        self._news: queue.SimpleQueue[Said] = queue.SimpleQueue()
        self._processes: dict[int, subprocess.Popen[str]] = {}
        self._readers: list[threading.Thread] = []

    def run_also(self, commands: Mapping[int, Sequence[str]], environment: Mapping[str, str]) -> None:
        """Run these, in the same log. Earlier commands on the same node must have ended."""
        for machine, command in commands.items():
            process = subprocess.Popen(
                command,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                errors="replace",
                start_new_session=True,
            )
            self._processes[machine] = process
            self._readers.append(threading.Thread(target=self._read, args=(machine, process), daemon=True))
            self._readers[-1].start()

    @property
    def seconds(self) -> float:
        return time.monotonic() - self._begin

    def is_over(self) -> bool:
        return all(process.poll() is not None for process in self._processes.values())

    def wait_for(self, words: str, timeout_seconds: float = 180.0, times: int = 1) -> Said:
        """Wait until a node has printed these words so many times.

        Raises:
            TimeoutError: it did not; the message contains the whole output.
        """
        deadline = time.monotonic() + timeout_seconds
        while True:
            found = [said for said in self._said if words in said.line]
            if len(found) >= times:
                return found[times - 1]
            if not self._take(min(0.1, deadline - time.monotonic())) and (
                time.monotonic() > deadline or (self.is_over() and not any(r.is_alive() for r in self._readers))
            ):
                raise TimeoutError(f"no node printed {words!r} ({times} times):\n{self._attempt()!r}")

    def finish(self, timeout_seconds: float = 60.0) -> Attempt:
        """Wait until it has ended on all nodes; stop it on the others when the time is over."""
        deadline = time.monotonic() + timeout_seconds
        while not self.is_over() and time.monotonic() < deadline:
            self._take(min(0.1, deadline - time.monotonic()))
        return self.end()

    def end(self) -> Attempt:
        """Stop what still runs, and return the output so far."""
        running = [machine for machine, process in self._processes.items() if process.poll() is None]
        for machine in running:
            self._stop(machine)
            self._processes[machine].wait()
        for reader in self._readers:  # a process that it left behind may keep the pipe open
            reader.join(_SECONDS_FOR_LAST_WORDS)
        while self._take(0):
            pass
        return self._attempt(running)

    def _attempt(self, stopped: Sequence[int] = ()) -> Attempt:
        statuses = [None if machine in stopped else process.poll() for machine, process in self._processes.items()]
        said = tuple(sorted(self._said, key=lambda said: said.seconds))
        return Attempt(tuple(statuses), said, self.seconds, happened=self._happened_since(self._begin))

    def _take(self, patience_seconds: float) -> bool:
        try:
            self._said.append(self._news.get(timeout=max(0.0, patience_seconds)))
        except queue.Empty:
            return False
        return True

    def _read(self, machine: int, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        for line in process.stdout:
            self._news.put(Said(machine, self.seconds, line.rstrip()))
