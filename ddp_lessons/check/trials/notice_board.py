"""The store of the exercise: it reports wrong types at once, and keys that no rank will ever write."""

from __future__ import annotations

import itertools
import time
from typing import Any

import torch.distributed as dist
from torch.distributed.distributed_c10d import PrefixStore, _get_default_store

from ddp_lessons.check.judging.latecomers import BETWEEN_LOOKS_SECONDS, Whereabouts
from ddp_lessons.run.diagnosis.wording import ranks_named

NO_NAME = "a key must be a string"
NO_NOTE = "a value must be bytes"
READS_FIRST = "the store is empty, and all ranks wait: this rank for the key"
NO_SUCH_NOTE = "no rank writes the key"
_POLLS = 10  # polls in a row for a missing key: it will go on until the key comes
_LOOKS_AT_OTHERS = 20


class NobodyWrites(Exception):
    """A rank waits for a key, and no rank is left that could write it."""


class ReturnedEarly(Exception):
    """Some ranks cannot have the sum, because this rank has not written yet."""


class Board(PrefixStore):
    """A part of the group's own store that no other call uses; it checks the types of keys and values.

    `is_late`: this rank writes only when all others wait for it or have given up. `may_give_up`: giving up is the
    mistake.
    """

    def __init__(self, name: str, is_late: bool, may_give_up: bool) -> None:
        super().__init__(f"exercise {name}", _get_default_store())
        self.is_used, self._has_written, self._is_late, self._misses = False, False, is_late, 0
        self.whereabouts, self._may_give_up = Whereabouts(name), may_give_up

    def set(self, name: Any, note: Any) -> None:
        _must_be_a_name(name)
        if not isinstance(note, bytes | bytearray | str):
            raise TypeError(f"{NO_NOTE}, but this is of type {type(note).__name__}")
        self._begin_to_write()
        super().set(name, note)  # type: ignore[arg-type]  # it takes bytes as well

    def add(self, name: Any, amount: int) -> int:
        _must_be_a_name(name)
        self._begin_to_write()
        return super().add(name, amount)

    def compare_set(self, name: Any, before: Any, note: Any) -> bytes:
        _must_be_a_name(name)
        self._begin_to_write()
        return super().compare_set(name, before, note)

    def get(self, name: Any) -> bytes:
        _must_be_a_name(name)
        self._until_there(name)
        return super().get(name)

    def wait(self, names: Any, *_: Any) -> None:
        for name in names:
            _must_be_a_name(name)
            self._until_there(name)

    def _begin_to_write(self) -> None:
        self.is_used = True
        if self._is_late:
            returned = self.whereabouts.hold()
            if returned and self._may_give_up and not self._has_written:
                raise ReturnedEarly(f"{ranks_named(returned)} returned before {ranks_named([dist.get_rank()])} wrote")
        self._has_written = True
        self.whereabouts.notes(more=1)

    def check(self, names: Any) -> bool:
        is_there = super().check(names)
        self._misses = 0 if is_there else self._misses + 1
        if self._misses == _POLLS:
            self.whereabouts.waits()
        elif is_there:
            self.whereabouts.runs()
        return is_there

    def _until_there(self, name: str) -> None:
        self.is_used = True
        if super().check([name]):
            return
        with self.whereabouts.waiting(name):
            for look in itertools.count(1):
                if super().check([name]):
                    return
                others = self.whereabouts.nobody_runs() if look % _LOOKS_AT_OTHERS == 0 else None
                if others is not None and not any(super(Board, self).check([one]) for one in [name, *others]):
                    why = NO_SUCH_NOTE if self.whereabouts.notes() else READS_FIRST
                    raise NobodyWrites(f"{why} {name!r}")
                time.sleep(BETWEEN_LOOKS_SECONDS)


def _must_be_a_name(name: object) -> None:
    if not isinstance(name, str):
        raise TypeError(f"{NO_NAME}, but this is of type {type(name).__name__}")
