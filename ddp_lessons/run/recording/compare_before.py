"""Inside a rank that outlives failures: compare each call with those of the other ranks before it is made.

gloo may abort the whole process on mismatched calls, and the learner's variables are lost with it. So each rank
announces the call that it is about to make, and reads what the ranks at the same call announced. Of two mismatched
calls, at least the later one is never made.

On several nodes, announcements go through a store that has no password. So they are plain text, which nothing runs, and
what is not an announcement is ignored.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple, TypeAlias

from ddp_lessons.record.event import Event
from ddp_lessons.record.rank_record import MeetingPoint
from ddp_lessons.record.what_must_agree import what_must_agree
from ddp_lessons.run.recording.announced_calls import KEY, Announcements
from ddp_lessons.run.recording.recorder import Call, Recorder

Parts: TypeAlias = "tuple[tuple[int, ...], tuple[int, ...]]"


MOST_WORDS = 200  # letters that are shown of what another rank announced


class Mismatch(RuntimeError):
    """Two ranks are about to make mismatched calls."""


class Guard:
    """Compares the calls of this rank with those that the others have announced."""

    def __init__(self, announcements: Announcements, recorder: Recorder, rank: int) -> None:
        self._announcements = announcements
        self._recorder = recorder
        self._rank = rank
        self._turns: Counter[MeetingPoint] = Counter()

    def compare(self, call: Call) -> None:
        """Raises Mismatch if another rank has already announced a call here that does not match."""
        point, others = self._meeting(call)
        self._turns[point] += 1
        turn = _digest((point, self._turns[point]))
        mine, place = _brought(self._recorder.told(call)), call.home.ranks.index
        for other, announced in self._announcements.exchange(turn, json.dumps(mine).encode(), others).items():
            theirs = _read(announced)
            if theirs is not None and not _fit(mine, theirs, place(self._rank), place(other)):
                raise Mismatch(f"mismatched calls: {mine.words} here, {theirs.words} on rank {other}")

    def take_back(self, call: Call) -> None:
        """torch rejected the call before anything was sent, so it does not count."""
        self._turns[self._meeting(call)[0]] -= 1

    def _meeting(self, call: Call) -> tuple[MeetingPoint, Sequence[int]]:
        """The meeting point, with the same value on all its ranks, and the other ranks that may come."""
        point = self._recorder.meeting_point(call)
        if call.operation not in ("send", "recv"):
            return point, [rank for rank in call.home.ranks if rank != self._rank]
        kind, group, peer, tag = point
        if peer is None:  # from any rank: the sender is not known yet
            return point, []
        sender, receiver = (self._rank, peer) if kind == "send" else (peer, self._rank)
        return ("message", group, sender, receiver, tag), [peer]


class Brought(NamedTuple):
    """What a rank passes to a call."""

    fits: str  # a digest of what must agree
    words: str
    to: Sequence[int] = ()  # bytes to and from each rank, if they may differ by rank
    out_of: Sequence[int] = ()


def _read(announced: bytes) -> Brought | None:
    """What another rank has announced. None if no rank announces this."""
    try:
        fits, words, to, out_of = json.loads(announced)
        is_one = isinstance(fits, str) and isinstance(words, str) and len(words) <= MOST_WORDS and words.isprintable()
        is_one = is_one and all(isinstance(size, int) for size in [*to, *out_of])
    except (ValueError, TypeError, RecursionError):
        return None
    return Brought(fits, words, to, out_of) if is_one else None


def _fit(mine: Brought, theirs: Brought, my_place: int, their_place: int) -> bool:
    if mine.fits != theirs.fits:
        return False
    if min(map(len, (mine.to, mine.out_of, theirs.to, theirs.out_of))) <= max(my_place, their_place):
        return True  # equal on all ranks, or too few for torch, which says so
    return mine.to[their_place] == theirs.out_of[my_place] and mine.out_of[their_place] == theirs.to[my_place]


def parts_of(ranks: int, outputs: Any, inputs: Any, expected: Any = (), sent: Any = (), *rest: Any) -> Parts:
    """How many bytes an all_to_all sends to each rank, and expects from each."""
    if isinstance(inputs, list):
        return tuple(one.nbytes for one in inputs), tuple(one.nbytes for one in outputs)
    return _bytes_by_rank(ranks, inputs, sent), _bytes_by_rank(ranks, outputs, expected)


def _bytes_by_rank(ranks: int, tensor: Any, rows: Sequence[int]) -> tuple[int, ...]:
    if not rows:  # even split
        return (tensor.nbytes // ranks,) * ranks
    of_a_row = tensor.nbytes // max(1, tensor.shape[0])
    return tuple(of_a_row * int(count) for count in rows)


def _brought(event: Event) -> Brought:
    words = event.call + (f" of {event.dtype} {list(event.shape)}" if event.dtype else "")
    words += "" if event.root is None else f" with root {event.root}"
    words += f" with {event.reduce_op}" if event.reduce_op not in (None, "sum") else ""
    return Brought(_digest(tuple(what_must_agree(event).values())).hex(), words, *event.parts)


def _digest(agreed: object) -> bytes:
    return hashlib.blake2b(repr(agreed).encode(), digest_size=KEY).digest()
