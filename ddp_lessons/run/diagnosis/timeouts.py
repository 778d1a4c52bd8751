"""Waits that torch gave up by itself, since the learner gave them a time limit: who waited, for whom, and what follows.

gloo closes a rank's connections when one of its waits times out. From then on all calls in that group fail, be it on
other ranks and much later.
"""

from __future__ import annotations

import re

from ddp_lessons.record.event import Event
from ddp_lessons.record.events import Events
from ddp_lessons.run.diagnosis.hang_reasons import why_a_message_is_not_taken
from ddp_lessons.run.diagnosis.waits import Waits
from ddp_lessons.run.diagnosis.wording import Reason, called, ranks_named

_TIMED_OUT = re.compile(r"timed out|wait timeout|failed to pass monitoredBarrier", re.I)
_MILLISECONDS = re.compile(r"(\d+) ?ms\b")
_NEXT_LATE = (
    "let the missing call come in time, or allow more of it: wait(timeout), monitored_barrier(timeout=...), and "
    "init_process_group or new_group(timeout=...) for all calls of a group."
)
_NEXT_SPENT = "give that wait more time; once one has timed out, its group cannot be used any more."


def why_it_timed_out(events: Events, rank: int) -> Reason | None:
    """The last call of this rank did: what was it waiting for?"""
    own = [event for event in events.of(rank) if event.error]
    if not own or not _has_timed_out(own[-1]):
        return None
    event, waits = own[-1], Waits(events)
    missing = [other for other in waits.waited_for(event) or () if other != rank]
    told = f"Rank {rank} waited{_how_long(event)} in {called(event)}"
    if reason := why_a_message_is_not_taken(event, events):
        return Reason([f"{told}.", *reason.sentences], reason.advice, reason.rank)
    if not missing:
        return Reason([f"{told}, and the others came too late."], _NEXT_LATE, rank)
    have = "has" if len(missing) == 1 else "have"
    what = "called it" if event.is_collective else "made the other side of that message"
    return Reason([f"{told}, and {ranks_named(missing)} {have} not {what}."], _NEXT_LATE, rank)


def why_connections_are_closed(events: Events, rank: int) -> Reason | None:
    """The call of this rank failed, since an earlier wait, its own or another rank's, had timed out in that group."""
    failed = [event for event in events.of(rank) if event.error and event.took_part]
    if not failed:
        return None
    earlier = [event for event in events if event.group == failed[-1].group and event is not failed[-1]]
    timed_out = next((event for event in earlier if _has_timed_out(event)), None)
    if timed_out is None:
        return None
    wait = f"The wait of rank {timed_out.rank} in {called(timed_out)} ({timed_out.place}) timed out"
    sentence = f"{wait}{_how_long(timed_out, 'after')}, and gloo closed the connections of that rank."
    return Reason([sentence, "Every later call that needs them fails."], _NEXT_SPENT, timed_out.rank)


def _has_timed_out(event: Event) -> bool:
    return event.waited is not None and bool(_TIMED_OUT.search(event.error))


def _how_long(event: Event, word: str = "for") -> str:
    found = _MILLISECONDS.search(event.error)
    if found is None:
        return ""
    seconds = int(found[1]) / 1000
    return f" {word} {seconds:g} second{'s' * (seconds != 1)}"
