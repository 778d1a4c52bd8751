"""What runs on the ranks while a program is recorded to be played again: it looks at their tensors between messages.

It imports nothing that a rank would have to wait for.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

Held = list[list[Any]]  # tensors, each as a list of its numbers
Look = tuple[int, Held]  # for how many messages a call was, and what the rank held before it
# what one rank begins with, the function's arguments, and if they are changed in place
Prepared = tuple[list[Any], tuple[Any, ...], bool]
Prepare = Callable[..., Prepared]


@dataclass(frozen=True)
class Part:
    """What one rank held before each of its calls, and in the end."""

    looks: Sequence[Look]
    after: Held
    is_in_place: bool

    def held(self, messages: int, received: Held) -> Held:
        """After so many messages of its own; `received` is what came with them."""
        calls = itertools.accumulate((number for number, _ in self.looks), initial=0)
        done = sum(before <= messages for before in calls) - 1
        if done == len(self.looks):
            return self.after
        return self.looks[done][1] + ([] if self.is_in_place else received)


def run_and_look(
    rank: int, world_size: int, function: Callable[..., Any], prepare: Prepare, options: tuple[Any, ...]
) -> Part:
    """What runs on each rank. After each call of torch.distributed it notes what the rank's own tensors hold."""
    __tracebackhide__ = True
    given, arguments, is_in_place = prepare(rank, world_size, *options)
    looks: list[Look] = []
    with _looking(lambda messages: looks.append((messages, _numbers(given)))):
        result = function(*arguments)
    is_in_place = is_in_place or any(result is tensor for tensor in given)
    return Part(looks, _numbers(given if is_in_place or result is None else result), is_in_place)


def prepare_chunks(rank: int, world_size: int) -> Prepared:
    """A tensor of as many numbers as there are ranks: rank 2 brings 100, 200, 300, ..."""
    import torch

    tensor = torch.arange(1, world_size + 1, dtype=torch.int32) * 10**rank
    return [tensor], (tensor,), True


@contextlib.contextmanager
def _looking(look: Callable[[int], object]) -> Iterator[None]:
    """Look before each call that sends or receives and waits until that is done."""
    import torch.distributed as dist

    def looked_at(call: Callable[..., Any], is_batch: bool) -> Callable[..., Any]:
        def look_and_call(*args: Any, **kwargs: Any) -> Any:
            __tracebackhide__ = True
            look(len(args[0] if args else kwargs["p2p_op_list"]) if is_batch else 1)
            return call(*args, **kwargs)

        return look_and_call

    names = ("send", "recv", "batch_isend_irecv")
    calls = {name: getattr(dist, name) for name in names}
    for name, call in calls.items():
        setattr(dist, name, looked_at(call, name == names[-1]))
    try:
        yield
    finally:
        for name, call in calls.items():
            setattr(dist, name, call)


def _numbers(tensors: Any) -> Held:
    """Of a tensor, or of a list of them; nothing of what is neither."""
    if hasattr(tensors, "flatten"):
        tensors = [tensors]
    if not isinstance(tensors, (list, tuple)):
        return []
    return [tensor.flatten().tolist() for tensor in tensors if hasattr(tensor, "flatten")]
