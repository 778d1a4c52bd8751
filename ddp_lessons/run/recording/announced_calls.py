"""Inside a rank that outlives failures: announce the call that it is about to make, and see what others announced.

On one machine, all ranks map one file into memory. Ranks on several nodes use a connection to the store at which they
met, which costs two round trips for each call.
"""

from __future__ import annotations

import contextlib
import mmap
import struct
from collections import deque
from collections.abc import Sequence
from datetime import timedelta
from typing import Protocol

from ddp_lessons.run.wire.messages import BYTES_OF_A_TURN, GUARDED_TURNS, size_of_guard

KEY = 16  # bytes of the digest that identifies a turn
_HEAD = struct.Struct("<II")  # rank, number of bytes
_SECONDS_TO_ANSWER = 5
_KEPT_TURNS = 1000  # after which each rank has read what was announced there


class Announcements(Protocol):
    def exchange(self, turn: bytes, mine: bytes, others: Sequence[int]) -> dict[int, bytes]:
        """Announce mine; return what these ranks have announced so far. Of two ranks, at least the later sees both."""


class SharedPages:
    """The pages of all ranks. Each rank writes only its own."""

    def __init__(self, file: str, rank: int, world_size: int) -> None:
        self._rank = rank
        with open(file, "r+b") as pages:
            self._pages = mmap.mmap(pages.fileno(), size_of_guard(world_size))

    def exchange(self, turn: bytes, mine: bytes, others: Sequence[int]) -> dict[int, bytes]:
        self._write(turn, mine)
        read = {other: self._read(other, turn) for other in others}
        return {other: theirs for other, theirs in read.items() if theirs is not None}

    def _write(self, turn: bytes, brought: bytes) -> None:
        begin, size = self._place(self._rank, turn), len(brought)
        if size <= BYTES_OF_A_TURN - KEY - 2:
            self._pages[begin : begin + KEY] = bytes(KEY)  # no rank must read half of it
            self._pages[begin + KEY : begin + KEY + 2 + size] = size.to_bytes(2, "little") + brought
            self._pages[begin : begin + KEY] = turn

    def _read(self, rank: int, turn: bytes) -> bytes | None:
        begin = self._place(rank, turn)
        place = self._pages[begin : begin + BYTES_OF_A_TURN]
        if place[:KEY] != turn or self._pages[begin : begin + KEY] != turn:
            return None
        size = int.from_bytes(place[KEY : KEY + 2], "little")
        return bytes(place[KEY + 2 : KEY + 2 + size])

    def _place(self, rank: int, turn: bytes) -> int:
        return (rank * GUARDED_TURNS + int.from_bytes(turn[:4], "little") % GUARDED_TURNS) * BYTES_OF_A_TURN


class StoredPages:
    """One value of the store for each turn, to which each rank appends."""

    def __init__(self, address: str, port: int, rank: int) -> None:
        from torch._C._distributed_c10d import TCPStore

        self._rank = rank
        # a connection of its own: the other one may be waiting for a rank
        self._store = TCPStore(address, port, is_master=False, wait_for_workers=False)
        self._store.set_timeout(timedelta(seconds=_SECONDS_TO_ANSWER))
        self._complete: deque[str] = deque()

    def exchange(self, turn: bytes, mine: bytes, others: Sequence[int]) -> dict[int, bytes]:
        found: dict[int, bytes] = {}
        if not others:
            return found
        with contextlib.suppress(RuntimeError):  # the rank with the store is gone: the call itself will say so
            self._store.append(turn.hex(), _HEAD.pack(self._rank, len(mine)) + mine)  # type: ignore[attr-defined]
            found = dict(_parts_of(self._store.get(turn.hex())))
            if len(found) > len(others):
                self._forget_later(turn.hex())
        return {rank: theirs for rank, theirs in found.items() if rank in others}

    def _forget_later(self, turn: str) -> None:
        self._complete.append(turn)
        if len(self._complete) > _KEPT_TURNS:
            self._store.delete_key(self._complete.popleft())


def _parts_of(whole: bytes) -> list[tuple[int, bytes]]:
    parts, at = [], 0
    while len(whole) - at >= _HEAD.size:
        rank, size = _HEAD.unpack_from(whole, at)
        at += _HEAD.size + size
        parts.append((rank, whole[at - size : at]))
    return parts
