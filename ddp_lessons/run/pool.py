"""A few processes of this notebook that wait for work, so that a launch need not wait for them."""

from __future__ import annotations

import atexit
import contextlib
import os
import threading
import weakref
from collections.abc import Sequence, Set

from ddp_lessons.run.nursery import Forks, Nursery, Process, Spawns

AHEAD_AT_FIRST = 4
_AHEAD_AT_MOST = 8
_SECONDS_TO_BE_READY = 15.0  # whoever launches waits for that in any case, but can stop it later


class Pool:
    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """Begin anew, as in a child that was forked from the notebook: what is there is not its own."""
        self._lock = threading.RLock()
        self._is_closed = False
        self._nurseries: dict[str, Nursery] = {}
        self._waiting: dict[str, list[Process]] = {"fork": [], "spawn": []}
        self._imported: weakref.WeakKeyDictionary[Nursery, set[str]] = weakref.WeakKeyDictionary()

    def take(self, count: int, method: str) -> list[Process]:
        with self._lock:
            nursery = self._nursery(method)
            waiting = self._waiting[method]
            taken, self._waiting[method] = waiting[:count], waiting[count:]
            dead = [process for process in taken if not process.is_there()]
            if dead:
                _end(nursery, dead)
            alive = [process for process in taken if process not in dead]
            return alive + nursery.bear(count - len(alive))

    def prepare(self, count: int, method: str) -> None:
        """Have so many processes wait for the next launch. Does not wait for them."""
        with self._lock, contextlib.suppress(OSError):
            if self._is_closed:
                return
            nursery = self._nursery(method)
            missing = min(count, _AHEAD_AT_MOST) - len(self._waiting[method])
            if missing > 0:
                self._waiting[method] += nursery.bear(missing)

    def import_ahead(self, modules: Set[str], method: str) -> None:
        """Let the processes to come have these imported. Those that wait without them are let go.

        Not where there is a GPU: what touched it could not be forked.
        """
        if not modules or _has_gpu():
            return
        with self._lock, contextlib.suppress(OSError):
            nursery = self._nurseries.get(method)
            if nursery is None or not (new := modules - self._imported.setdefault(nursery, set())):
                return
            if not nursery.is_ready_within(_SECONDS_TO_BE_READY):
                return
            self._imported[nursery] |= new
            _end(nursery, self._waiting[method])
            self._waiting[method] = []
            for module in sorted(new):
                nursery.import_ahead(module)

    def close(self) -> None:
        with self._lock:
            self._is_closed = True
            for method, nursery in self._nurseries.items():
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


def _has_gpu() -> bool:
    return os.path.exists("/dev/nvidiactl") or os.path.exists("/dev/kfd")


def _end(nursery: Nursery, processes: Sequence[Process]) -> None:
    nursery.stop(processes)
    for process in processes:
        process.close()


pool = Pool()
atexit.register(pool.close)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=pool.forget)
