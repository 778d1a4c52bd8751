"""Call a function that needs no other rank in its own process, where it cannot harm the notebook.

An endless loop, `sys.exit()`, a crash or running out of memory ends only that process. Answers come back as Python's
own types, so that no `__eq__` or `__repr__` of an answer influences how it is judged.
"""

from __future__ import annotations

import contextlib
import itertools
import operator
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ddp_lessons.check.judging.check_launches import launch
from ddp_lessons.check.judging.trial_ranks import Thing, without_output
from ddp_lessons.run.diagnosis.failures import WorkerFailed, WorkersStuck
from ddp_lessons.run.output.transcript import without_middle
from ddp_lessons.run.rank.tell import tell

PATIENCE_SECONDS = 2.0  # for calls that take microseconds
_MORE_BYTES = 1 << 30
_MOST_ITEMS, _LONGEST = 1000, 100
_WHERE = re.compile(r"^    rank 0   is (at .*?)(?:   \(the whole time\))?$", re.M)


@dataclass(frozen=True)
class Answer:
    """The answer of one call, or why it has none."""

    value: object = None  # None, a bool, int, float or str, a list of these, or a `Thing`
    trouble: str = ""  # "raises ValueError: ..."


def answers_of(function: Callable[..., object], calls: Sequence[tuple[object, ...]]) -> list[Answer]:
    """Call `function` with each of these arguments, up to the first call without an answer."""
    try:
        return launch(_answer, 1, function, calls, timeout_seconds=PATIENCE_SECONDS)[0]
    except WorkersStuck as stuck:
        place = _WHERE.search(str(stuck))
        trouble, results = f"does not return{f' and is {place[1].rstrip()}' if place else ''}", stuck.results
    except WorkerFailed as failed:
        trouble, results = "ends its process instead of returning", failed.results
    begun = len(results.told[0]) if results.told else 0
    # the answers of the earlier calls were lost with the process
    earlier = answers_of(function, calls[: begun - 1]) if begun > 1 else []
    return [*earlier, Answer(trouble=trouble)]


def _answer(
    rank: int, world_size: int, function: Callable[..., object], calls: Sequence[tuple[object, ...]]
) -> list[Answer]:
    from ddp_lessons.run.rank.own_process import take_no_more_than

    with contextlib.suppress(OSError, ValueError, StopIteration):
        take_no_more_than(_MORE_BYTES)
    answers: list[Answer] = []
    for arguments in calls:
        tell("call")
        try:
            with without_output():
                answers.append(Answer(_plain(function(*arguments))))
        except BaseException as error:  # SystemExit too
            return [*answers, Answer(trouble=_raises(error))]
    return answers


def _raises(error: BaseException) -> str:
    if isinstance(error, SystemExit):
        return "calls sys.exit() instead of returning"
    try:
        words = without_middle(" ".join(str(error)[: 10 * _LONGEST].split()), _LONGEST)
    except Exception:
        words = "(its message cannot be shown)"
    return f"raises {type(error).__name__}: {words}".rstrip(": ")


def _plain(value: Any) -> object:
    kind = type(value)
    if issubclass(kind, list | tuple | range):
        items = next(one for one in (list, tuple, range) if issubclass(kind, one)).__iter__(value)
        return [_one(item) for item in itertools.islice(items, _MOST_ITEMS)]
    return _one(value)


def _one(value: Any) -> object:
    """A string or a number; NumPy numbers and one-element tensors count too."""
    kind = type(value)
    if value is None or kind is bool:
        return value
    if issubclass(kind, str):
        return str.__str__(value)[:_LONGEST]
    if issubclass(kind, int):
        return int.__int__(value)
    if issubclass(kind, float):
        return float.__float__(value)
    if kind.__module__.partition(".")[0] in ("numpy", "torch") and not getattr(value, "shape", None):
        with contextlib.suppress(Exception):
            return operator.index(value)
    return Thing(kind.__name__)
