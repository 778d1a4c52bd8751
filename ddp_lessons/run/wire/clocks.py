"""The times in a message of a rank on another node, on this machine's clock."""

from __future__ import annotations

from dataclasses import dataclass, replace

from ddp_lessons.record.event import Event
from ddp_lessons.record.rank_record import Recorded, Told
from ddp_lessons.run.wire.messages import Answer, Message, Raised, Returned


@dataclass(frozen=True)
class Clock:
    """Of a node, compared with this machine's."""

    node: str
    seconds_ahead: float
    error: float  # seconds by which that may be wrong


def on_our_clock(message: Message, clock: Clock) -> Message:
    """The message with all its times as this machine's clock shows them."""
    if isinstance(message, Told):
        return replace(message, seconds=message.seconds - clock.seconds_ahead)
    if isinstance(message, Returned | Raised | Answer) and message.recorded is not None:
        message = replace(message, recorded=_moved_record(message.recorded, clock))
    if isinstance(message, Raised):
        return replace(message, moment=message.moment - clock.seconds_ahead)
    return message


def _moved_record(recorded: Recorded, clock: Clock) -> Recorded:
    seconds = -clock.seconds_ahead
    return replace(
        recorded,
        node=clock.node,
        clock_error=clock.error,
        began=recorded.began + seconds,
        until=recorded.until + seconds,
        calls=tuple(_moved_call(call, seconds) for call in recorded.calls),
        gaps=tuple((begin + seconds, end + seconds, busy) for begin, end, busy in recorded.gaps),
    )


def _moved_call(call: Event, seconds: float) -> Event:
    def later(moment: float | None) -> float | None:
        return None if moment is None else moment + seconds

    return replace(
        call,
        begin=call.begin + seconds,
        issued=call.issued + seconds,
        waited=later(call.waited),
        end=later(call.end),
        untouched=later(call.untouched),
    )
