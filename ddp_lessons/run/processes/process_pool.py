"""A few processes that wait for work, so that a launch does not have to wait for them."""

from __future__ import annotations

import atexit
import contextlib
import os
import threading
from collections.abc import Sequence, Set

from ddp_lessons.run.processes.process_sources import Forks, Nursery, Process, Spawns, start_method

AHEAD_AT_FIRST = 4
_AHEAD_AT_MOST = 8
IDLE_SECONDS = 60.0  # after which processes of a non-default start method are stopped


class Pool:
    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """Start empty, as in a child forked from the notebook: the processes are not its own."""
        self._lock = threading.RLock()
        self._is_closed = False
        self._nurseries: dict[str, Nursery] = {}
        self._waiting: dict[str, list[Process]] = {"fork": [], "spawn": []}
        self._idle = threading.Timer(IDLE_SECONDS, self._release)

    def take(self, count: int, method: str) -> list[Process]:
        with self._lock:
            nursery = self._nursery(method)
            waiting = self._waiting[method]
            taken, self._waiting[method] = waiting[:count], waiting[count:]
            nursery.is_ready_within(0)  # so that it is known what it has imported
            lost = [process for process in taken if not process.is_there() or process.imported < nursery.imported]
            if lost:
                _end(nursery, lost)
            good = [process for process in taken if process not in lost]
            return good + nursery.bear(count - len(good))

    def prepare(self, count: int, method: str) -> None:
        """Start this many processes for the next launch, without waiting for them."""
        with self._lock, contextlib.suppress(OSError):
            if self._is_closed:
                return
            nursery = self._nursery(method)
            missing = min(count, _AHEAD_AT_MOST) - len(self._waiting[method])
            if missing > 0:
                self._waiting[method] += nursery.bear(missing)
            if method != _own_method():  # each spawned process takes 300 to 500 MB, none of it shared
                self._idle.cancel()
                self._idle = threading.Timer(IDLE_SECONDS, self._release, (method,))
                self._idle.daemon = True
                self._idle.start()

    def import_ahead(self, modules: Set[str], method: str) -> None:
        """Import these for future processes, when there is time.

        Not on a machine with a GPU: a process that touched it must not be forked.
        """
        with self._lock, contextlib.suppress(OSError):
            if method in self._nurseries and not _has_gpu():
                self._nurseries[method].import_ahead(modules)

    def _release(self, method: str) -> None:
        with self._lock, contextlib.suppress(OSError):
            idle, self._waiting[method] = self._waiting[method], []
            if idle:
                _end(self._nurseries[method], idle)

    def close(self) -> None:
        with self._lock:
            self._is_closed = True
            self._idle.cancel()
            for method, nursery in self._nurseries.items():
                if nursery.is_ready_within(0):  # otherwise they end with it
                    _end(nursery, self._waiting[method])
            self._nurseries, self._waiting = {}, {"fork": [], "spawn": []}

    def _nursery(self, method: str) -> Nursery:
        nursery = self._nurseries.get(method)
        if nursery is None or not nursery.is_usable():
            if nursery is not None:
                _end(nursery, self._waiting[method])
                self._waiting[method] = []
            nursery = self._nurseries[method] = Forks() if method == "fork" else Spawns()
        return nursery


def _own_method() -> str:
    try:
        return start_method(None)
    except ValueError:  # a wrong setting is reported at the first launch
        return "fork"


def _has_gpu() -> bool:
    return os.path.exists("/dev/nvidiactl") or os.path.exists("/dev/kfd")


def _end(nursery: Nursery, processes: Sequence[Process]) -> None:
    nursery.stop(processes)
    for process in processes:
        process.close()


pool = Pool()
atexit.register(pool.close)
os.register_at_fork(after_in_child=pool.forget)
