"""Waits that ended with torch's own timeout: which rank waited, for which rank, and what follows.

gloo closes a rank's connections when one of its waits times out. From then on all calls in that group fail, even on
other ranks and much later.
"""

from __future__ import annotations

import re
from dataclasses import replace

from ddp_lessons.record.event import Event
from ddp_lessons.record.events import Events
from ddp_lessons.run.diagnosis.advice import Reason
from ddp_lessons.run.diagnosis.hang_reasons import why_a_message_is_not_taken
from ddp_lessons.run.diagnosis.waits import Waits
from ddp_lessons.run.diagnosis.wording import called, ranks_named

_TIMED_OUT = re.compile(r"timed out|wait timeout|failed to pass monitoredBarrier", re.I)
_NO_ANSWER = "while trying to connect to"  # no process is at that address: a longer wait would not help
_MILLISECONDS = re.compile(r"(\d+) ?ms\b")


def why_it_timed_out(events: Events, rank: int) -> Reason | None:
    """If the last call of this rank timed out: which rank was it waiting for?"""
    own = [event for event in events.of(rank) if event.error]
    if not own or not _has_timed_out(own[-1]):
        return None
    event, waits = own[-1], Waits(events)
    missing = [other for other in waits.waited_for(event) or () if other != rank]
    told = f"Timeout: rank {rank} waited{_how_long(event)} in {called(event)}"
    if reason := why_a_message_is_not_taken(event, events):
        return replace(reason, sentences=[f"{told}.", *reason.sentences])
    if not missing:
        return Reason("late-call", [f"{told}, but the matching call was made too late."], rank)
    what = "call it" if event.is_collective else "make the matching call"
    return Reason("late-call", [f"{told}, but {ranks_named(missing)} did not {what}."], rank)


def why_connections_are_closed(events: Events, rank: int) -> Reason | None:
    """The call failed because an earlier wait in that group, on this rank or another, had timed out."""
    failed = [event for event in events.of(rank) if event.error and event.took_part]
    if not failed:
        return None
    earlier = [event for event in events if event.group == failed[-1].group and event is not failed[-1]]
    timed_out = next((event for event in earlier if _has_timed_out(event)), None)
    if timed_out is None:
        return None
    wait = f"Rank {timed_out.rank} timed out in {called(timed_out)} ({timed_out.place})"
    sentence = f"{wait}{_how_long(timed_out, 'after')}, so gloo closed its connections."
    return Reason("after-a-timeout", [sentence, "Every later call that uses them fails."], timed_out.rank)


def _has_timed_out(event: Event) -> bool:
    is_of_a_wait = event.waited is not None and _NO_ANSWER not in event.error
    return is_of_a_wait and bool(_TIMED_OUT.search(event.error))


def _how_long(event: Event, word: str = "for") -> str:
    found = _MILLISECONDS.search(event.error)
    if found is None:
        return ""
    seconds = int(found[1]) / 1000
    return f" {word} {seconds:g} second{'s' * (seconds != 1)}"
