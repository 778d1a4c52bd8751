"""A program of messages, run for real once and kept, so that it can be played again one message at a time.

The messages are those that the ranks recorded. In a real run many are on their way at once; here they come one after
the other, in an order in which they could have come: none before the calls that its two ranks had to make first.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ddp_lessons.record.event import Delivery, Event
from ddp_lessons.record.events import Events
from ddp_lessons.run.launch import launch
from ddp_lessons.show.messages.watched_tensors import Held, Look, Part, Prepare, run_and_look


@dataclass(frozen=True)
class Message:
    sender: int
    receiver: int
    values: tuple[float, ...]
    bytes: int


@dataclass(frozen=True)
class Played:
    """All messages of a program in an order, and what each rank holds between them."""

    messages: tuple[Message, ...]
    parts: tuple[Part, ...]

    @property
    def world_size(self) -> int:
        return len(self.parts)

    def held(self, rank: int, messages: int) -> Held:
        """What a rank holds when so many messages of all have come."""
        own = [message for message in self.messages[:messages] if rank in (message.sender, message.receiver)]
        received = [list(message.values) for message in own if message.receiver == rank]
        return self.parts[rank].held(len(own), received)

    def bytes_sent(self, rank: int, messages: int) -> int:
        return sum(message.bytes for message in self.messages[:messages] if message.sender == rank)


MOST_SECONDS = 10.0  # programs to be played are small


def play(function: Callable[..., Any], world_size: int, prepare: Prepare, *options: Any) -> Played:
    """Run a function on ranks; each calls it with what `prepare(rank, world_size, *options)` gives it there."""
    about: dict[str, Any] = {"quiet": True, "record": "values", "timeout_seconds": MOST_SECONDS}
    results = launch(run_and_look, world_size, function, prepare, options, **about)
    messages = [_message(delivery) for delivery in _in_order(results.events, [part.looks for part in results])]
    return Played(tuple(messages), tuple(results))


def _message(delivery: Delivery) -> Message:
    send = delivery.send
    assert send.peer is not None
    return Message(send.rank, send.peer, send.values or (), send.bytes)


def _in_order(events: Events, looks: Sequence[Sequence[Look]]) -> list[Delivery]:
    """One by one: those whose ranks have made the fewest calls before them come first."""
    by_event = {id(event): one for one in events.deliveries for event in (one.send, one.recv)}
    calls = [_calls(events.of(rank), looks[rank], by_event) for rank in range(events.world_size)]
    done, ordered = [0] * events.world_size, list[Delivery]()

    def urgency(one: Delivery) -> tuple[bool, int, int, int]:
        both = (one.send.rank, calls[one.send.rank]), (one.recv.rank, calls[one.recv.rank])
        is_next = all(any(event in (id(one.send), id(one.recv)) for event in own[0]) for _, own in both)
        return not is_next, max(done[rank] for rank, _ in both), one.send.rank, one.recv.rank

    while any(calls):
        heads = {id(by_event[event]): by_event[event] for own in calls if own for event in own[0]}
        one = min(heads.values(), key=urgency)
        ordered.append(one)
        for event in (one.send, one.recv):
            own = next(call for call in calls[event.rank] if id(event) in call)
            own.remove(id(event))
            if not own:
                calls[event.rank].remove(own)
                done[event.rank] += 1
    return ordered


def _calls(events: Sequence[Event], looks: Sequence[Look], by_event: dict[int, Delivery]) -> list[list[int]]:
    """The messages of one rank, those of one call together."""
    own = [id(event) for event in events if id(event) in by_event]
    sizes = [number for number, _ in looks]
    if sum(sizes) != len(own):
        sizes = [1] * len(own)
    rest = iter(own)
    return [list(itertools.islice(rest, size)) for size in sizes]
