"""Hold one rank until each other rank waits for it or has returned, so that no sleep is long enough.

For that, every rank writes what it is doing into a part of the group's store that learners do not use.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator

import torch.distributed as dist
from torch.distributed.distributed_c10d import PrefixStore, _get_default_store

BETWEEN_LOOKS_SECONDS = 0.004
_RETURNED, _RUNS, _WAITS = "returned", "runs", "waits"


class Whereabouts:
    """What each rank does in one call of the learner's function."""

    # per process: a loop that polls neither waits nor returns, and may be right, so the held rank goes on in the end
    seconds_left = 2.5

    def __init__(self, name: str) -> None:
        self._store = PrefixStore(f"whereabouts {name}", _get_default_store())
        self._rank, self._world_size = dist.get_rank(), dist.get_world_size()
        self._waits = 0

    @contextlib.contextmanager
    def waiting(self, for_what: str = "") -> Iterator[None]:
        self.waits(for_what)
        try:
            yield
        finally:
            self.runs()

    def waits(self, for_what: str = "") -> None:
        self._waits += 1
        self._say(f"{_WAITS} {self._waits} {for_what}")

    def runs(self) -> None:
        self._say(_RUNS)

    def has_returned(self) -> None:
        self._say(_RETURNED)

    def hold(self) -> list[int]:
        """Wait until all others wait, more often than this rank did, or have returned; list those that returned."""
        end, before = time.monotonic() + Whereabouts.seconds_left, None
        while time.monotonic() < end:
            now = self._of_others()
            # twice the same: one of them may just have been leaving its wait
            if now == before and all(one == _RETURNED or _number_of(one) > self._waits for one in now.values()):
                break
            before = now
            time.sleep(BETWEEN_LOOKS_SECONDS)
        Whereabouts.seconds_left = end - time.monotonic()
        return [rank for rank, what in self._of_others().items() if what == _RETURNED]

    def nobody_runs(self) -> list[str] | None:
        """The keys that the other ranks wait for, if all that have not returned wait for a known key."""
        now = self._of_others()
        if any(what == _RUNS or what.endswith(" ") for what in now.values()):
            return None
        time.sleep(BETWEEN_LOOKS_SECONDS)
        if now != self._of_others():
            return None
        return [what.split(" ", 2)[2] for what in now.values() if what != _RETURNED]

    def notes(self, more: int = 0) -> int:
        """How many values the store holds; `more` were written just now."""
        return self._store.add("notes", more)

    def _of_others(self) -> dict[int, str]:
        return {rank: self._of(rank) for rank in range(self._world_size) if rank != self._rank}

    def _of(self, rank: int) -> str:
        return self._store.get(str(rank)).decode() if self._store.check([str(rank)]) else _RUNS

    def _say(self, what: str) -> None:
        self._store.set(str(self._rank), what)


def _number_of(what: str) -> int:
    """The number of a wait."""
    return int(what.split(" ", 2)[1]) if what.startswith(_WAITS) else 0
