"""Check the ranks from time to time, and notice when no rank can make progress any more.

A check is cheap: each rank reports what blocks it. If every rank is blocked or has returned, and none has moved between
two checks, fetch the newest calls of all ranks and analyze them. The two checks give one consistent moment for all
ranks: each was at its place from before all had answered the first check until after the second was sent. A hang is
certain only when it is found twice, because a rank may go on between reporting what blocks it and listing its calls.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable

from ddp_lessons.record.events import Events
from ddp_lessons.record.rank_record import Recorded, Standing
from ddp_lessons.run.diagnosis.waits import Waits
from ddp_lessons.run.launcher.patience import SECONDS_TO_LOAD, SECONDS_TO_LOOK_AT_A_RANK
from ddp_lessons.run.wire.messages import Look

_SECONDS_BETWEEN_LOOKS = 0.15
_NEWEST_CALLS = 200  # of older calls only the number is needed
_numbers = itertools.count(1)


class Lookout:
    """Pass it what the ranks report, and ask it from time to time whether all of them hang."""

    def __init__(self, world_size: int, ask: Callable[[int, Look], None]) -> None:
        self._ranks = range(world_size)
        self._ask = ask
        self._question = Look(0)
        self._begin = time.monotonic()
        self._asked = self._begin - _SECONDS_BETWEEN_LOOKS  # so that the first check is at once
        self._is_waiting = False
        self._answers: dict[int, Standing] = {}
        self.calls: dict[int, Recorded] = {}
        self._before: dict[int, Standing] = {}
        self._thought_of: dict[int, Standing] = {}
        self._found: dict[int, Standing] = {}  # a hang, found once
        self._since: dict[int, tuple[object, float]] = {}
        self._loading: set[int] = set()
        self._began: dict[int, float] = {}  # its function

    def heard(self, rank: int, answer: Standing | Recorded) -> None:
        """Process an answer. An answer to an older question is about an earlier moment, and is ignored."""
        told = answer if isinstance(answer, Standing) else answer.standing
        if told is None or told.answers != self._question.number:
            return
        self._answers[rank] = told
        if isinstance(answer, Recorded):
            self.calls[rank] = answer
        if told.is_loading:
            self._loading.add(rank)
        elif rank not in self._since:
            self._since[rank] = told.at, self._began.get(rank, self._begin)
        elif told.at != self._since[rank][0]:
            self._since[rank] = told.at, time.monotonic()

    def has_loaded(self, rank: int) -> None:
        """From now on it may be too busy to answer."""
        self._began[rank] = time.monotonic()

    def sees_a_standstill(self) -> bool:
        """Continue checking; True once it is certain that no rank can make progress."""
        now = time.monotonic()
        if self._is_waiting and len(self._answers) == len(self._ranks):
            self._is_waiting = False
            return self._think() if self._question.calls else self._compare()
        if now >= self._asked + (SECONDS_TO_LOOK_AT_A_RANK if self._is_waiting else _SECONDS_BETWEEN_LOOKS):
            self._put()
        return False

    def is_still_loading(self) -> bool:
        """Some rank imports what its function needs, which belongs to the start. It may take two minutes."""
        return bool(self._loading - self._began.keys()) and time.monotonic() < self._begin + SECONDS_TO_LOAD

    def seconds_at_one_line(self, rank: int) -> float:
        """Or since it was first asked, if it never answered because it was too busy."""
        return time.monotonic() - self._since.get(rank, (None, self._began.get(rank, self._begin)))[1]

    def is_held(self, rank: int) -> bool:
        """It waits for other ranks, and has not moved between two checks."""
        before, now = self._before.get(rank), self._answers.get(rank)
        return now is not None and bool(now.held_in) and now == before

    def moved(self, rank: int) -> None:
        """What it answered before is out of date."""
        self._before.pop(rank, None)

    def _put(self, calls: int = 0) -> None:
        self._question, self._asked, self._is_waiting = Look(next(_numbers), calls), time.monotonic(), True
        self._answers, self.calls = {}, {}
        for rank in self._ranks:
            self._ask(rank, self._question)

    def _compare(self) -> bool:
        before, self._before = self._before, self._answers
        answers = self._answers.values()
        is_hang = not any(one.is_free for one in answers) and any(one.held_in for one in answers)
        if is_hang and before == self._answers != self._thought_of:
            self._put(_NEWEST_CALLS)
        return False

    def _think(self) -> bool:
        if self._answers != self._before:
            return False
        events = Events([self.calls[rank] for rank in self._ranks])
        is_hang = not Waits(events).movable and not events.is_out_of_sight
        if not is_hang or self._found == self._answers:
            self._thought_of = self._before
            return is_hang
        self._found = self._answers
        self._put(_NEWEST_CALLS)
        return False
