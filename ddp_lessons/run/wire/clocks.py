"""The times in a message of a rank on another node, on this machine's clock."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from ddp_lessons.record.event import of_rank
from ddp_lessons.record.rank_record import Recorded, Told
from ddp_lessons.run.wire.messages import Raised


@dataclass(frozen=True)
class Clock:
    """Of a node, compared with this machine's."""

    node: str
    seconds_ahead: float
    error: float  # seconds by which that may be wrong


def on_our_clock(message: Any, clock: Clock) -> Any:
    """The message with all its times as this machine's clock shows them."""
    ahead = clock.seconds_ahead
    if isinstance(message, Recorded):
        calls = tuple(of_rank(call.rank, call, ahead) for call in message.calls)
        gaps = tuple((begin - ahead, end - ahead, busy) for begin, end, busy in message.gaps)
        began, until = message.began - ahead, message.until - ahead
        here = replace(message, began=began, until=until, calls=calls, gaps=gaps)
        return replace(here, node=clock.node, clock_error=clock.error)
    if isinstance(message, Told):
        return replace(message, seconds=message.seconds - ahead)
    if isinstance(message, Raised):
        message = replace(message, moment=message.moment - ahead)
    if recorded := getattr(message, "recorded", None):
        return replace(message, recorded=on_our_clock(recorded, clock))
    return message
