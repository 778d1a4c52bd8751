"""Where ranks that run the same code diverged: one skipped a call, or another made an extra one.

Each call is compared with what the same rank did earlier, after the same call. Before any call was made twice, only the
order of the lines is known.
"""

from __future__ import annotations

import ast
import functools
import itertools
from collections.abc import Sequence
from dataclasses import dataclass

from ddp_lessons.record.event import Event, Meeting
from ddp_lessons.record.events import Events
from ddp_lessons.run.diagnosis.source_lines import lines_of
from ddp_lessons.run.diagnosis.wording import ranks_named

_MOST_LOOKED_AT = 100  # collectives in which the ranks were on different lines
NEXT_SKIPPED = (
    "look for what makes a rank skip that line: a swallowed exception, an `if`, a `continue` or `break`, or fewer "
    "batches."
)


@dataclass(frozen=True)
class Parting:
    """Some ranks made a call that others skipped."""

    made: tuple[Event, ...]
    gone_on: tuple[Event, ...]
    times: int  # how often the ranks that skipped it had made it before

    @property
    def sentence(self) -> str:
        """As in: Rank 1 skipped the call at x.py line 9 after making it 4 times, or rank 0 makes one too many."""
        makers, others = ([event.rank for event in side] for side in (self.made, self.gone_on))
        times = "once" if self.times == 1 else f"{self.times:,} times"
        after = f" after making it {times}" if self.times else ""
        make = "makes" if len(makers) == 1 else "make"
        skipped = f"{ranks_named(others).capitalize()} skipped the call at {self.made[0].place}{after}"
        order = "" if self.is_certain else ", or their order differs"
        return f"{skipped}, or {ranks_named(makers)} {make} one too many{order}."

    @property
    def is_certain(self) -> bool:
        """They had made that call before, after the same earlier call."""
        return self.times > 0


def first_parting(events: Events, group: str) -> Parting | None:
    """Among calls that matched in spite of it."""
    of_group = (meeting for meeting in events.meetings if meeting.events[0].group == group)
    apart = (meeting for meeting in of_group if len({event.line for event in meeting.events}) > 1)
    partings = (parting_at(events, meeting) for meeting in itertools.islice(apart, _MOST_LOOKED_AT))
    return next((found for found in partings if found is not None), None)


def parting_at(events: Events, meeting: Meeting) -> Parting | None:
    """None: all ranks seem to be in the same step, or it is unclear which rank skipped what."""
    if any(events.dropped):
        return None
    sides: dict[tuple[str, int], list[Event]] = {}
    for event in meeting.events:
        sides.setdefault((event.file, event.line), []).append(event)
    if len(sides) != 2:
        return None
    one, other = sides.values()
    if _has_gone_on(events, one[0], other[0]):
        one, other = other, one
    elif not _has_gone_on(events, other[0], one[0]):
        return None
    return Parting(tuple(one), tuple(other), _times(events, other[0], at=one[0]))


def _has_gone_on(events: Events, event: Event, other: Event) -> bool:
    """Is this the rank that skipped a call?"""
    if (event.file, event.function) != (other.file, other.function) or _are_alternatives(event.file, event, other):
        return False
    if _has_come_round(events, other, event) or _has_come_round(events, event, other):
        return event.line < other.line
    mine, its = _departs(events, event), _departs(events, other)
    if mine is not None and its is not None and mine != its:
        return mine
    if mine is not None or its is not None:
        return False
    was_here, was_there = _times(events, event, event) > 0, _times(events, other, other) > 0
    return was_here if was_here != was_there else not was_here and event.line > other.line


def _has_come_round(events: Events, event: Event, other: Event) -> bool:
    """Was this call made before, and is the other a new one on a later line of the same loop?"""
    if _times(events, other, other) or not _times(events, event, event) or event.line > other.line:
        return False
    return other.line in _innermost_loop(event.file, event.line)


def _departs(events: Events, event: Event) -> bool | None:
    """Does this call differ from those that followed the previous one in the past? None: that was called only once."""
    before = [_signature(one) for one in _before(events, event)]
    followers = {second for first, second in itertools.pairwise(before) if first == before[-1]}
    return _signature(event) not in followers if followers else None


def _times(events: Events, event: Event, at: Event) -> int:
    """How many such calls this rank made before this one."""
    return sum(_signature(one) == _signature(at) for one in _before(events, event))


def _before(events: Events, event: Event) -> list[Event]:
    point = event.meeting_point
    mine = [one for one in events.of(event.rank) if one.took_part and one.meeting_point == point]
    return mine[: next(number for number, one in enumerate(mine) if one is event)]


def _signature(event: Event) -> tuple[object, ...]:
    return event.file, event.line, event.call, event.operation


def _are_alternatives(file: str, one: Event, other: Event) -> bool:
    """Are these lines in the two branches of one `if`? Then the two calls are meant to match."""
    return any(
        (one.line in first and other.line in second) or (one.line in second and other.line in first)
        for first, second in _branches(file)
    )


def _innermost_loop(file: str, line: int) -> range:
    nodes = ast.walk(_tree(file))
    loops = [_lines(node.body) for node in nodes if isinstance(node, ast.For | ast.AsyncFor | ast.While)]
    return min((loop for loop in loops if line in loop), key=len, default=range(0))


def _branches(file: str) -> list[tuple[range, range]]:
    return _branches_in(_tree(file))


def _tree(file: str) -> ast.Module:
    return _parsed("".join(lines_of(file)))


@functools.lru_cache(maxsize=32)
def _parsed(source: str) -> ast.Module:
    try:
        return ast.parse(source)
    except (SyntaxError, ValueError, RecursionError):
        return ast.Module([], [])


@functools.lru_cache(maxsize=32)
def _branches_in(tree: ast.Module) -> list[tuple[range, range]]:
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and node.orelse:
            found.append((_lines(node.body), _lines(node.orelse)))
        elif isinstance(node, ast.Match):
            cases = [_lines(case.body) for case in node.cases]
            found += [(cases[i], cases[j]) for i in range(len(cases)) for j in range(i)]
    return found


def _lines(statements: Sequence[ast.stmt]) -> range:
    return range(statements[0].lineno, (statements[-1].end_lineno or statements[-1].lineno) + 1)
