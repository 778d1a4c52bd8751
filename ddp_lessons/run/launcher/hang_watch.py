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
from ddp_lessons.run.launcher.patience import SECONDS_TO_LOOK_AT_A_RANK
from ddp_lessons.run.wire.messages import Answer, Ask

_SECONDS_BETWEEN_LOOKS = 0.15
_NEWEST_CALLS = 200  # of older calls only the number is needed
_numbers = itertools.count(1)


class HangWatch:
    """Pass it what the ranks report, and ask it from time to time whether all of them hang."""

    def __init__(self, world_size: int, ask: Callable[[int, Ask], None]) -> None:
        self._ranks = range(world_size)
        self._ask = ask
        self._question = Ask()
        self._begin = time.monotonic()
        self._asked = self._begin
        self._is_waiting = False
        self._answers: dict[int, Standing] = {}
        self.calls: dict[int, Recorded] = {}
        self._before: dict[int, Standing] = {}
        self._thought_of: dict[int, Standing] = {}
        self._found: dict[int, Standing] = {}  # a hang, found once
        self._since: dict[int, tuple[object, float]] = {}

    def heard(self, rank: int, answer: Answer) -> None:
        """Note an answer. One to an older question is about an earlier moment, and is ignored."""
        if answer.number != self._question.number:
            return
        told = self._answers[rank] = answer.standing
        if answer.recorded is not None:
            self.calls[rank] = answer.recorded
        if rank not in self._since:
            self._since[rank] = told.at, self._begin
        elif told.at != self._since[rank][0]:
            self._since[rank] = told.at, time.monotonic()

    def sees_a_standstill(self) -> bool:
        """Continue checking; True once it is certain that no rank can make progress."""
        now = time.monotonic()
        if self._is_waiting and len(self._answers) == len(self._ranks):
            self._is_waiting = False
            return self._think() if self._question.calls else self._compare()
        if now >= self._asked + (SECONDS_TO_LOOK_AT_A_RANK if self._is_waiting else _SECONDS_BETWEEN_LOOKS):
            self._put()
        return False

    def seconds_at_one_line(self, rank: int) -> float:
        """Or since the beginning, if it never answered because it was too busy."""
        return time.monotonic() - self._since.get(rank, (None, self._begin))[1]

    def _put(self, calls: int = 0) -> None:
        self._question, self._asked, self._is_waiting = Ask(next(_numbers), calls), time.monotonic(), True
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
