"""What a check asks before it wraps a learner's function into one of its own, which `examine` then sees instead."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from ddp_lessons.check.judging.report import Report, not_right, not_started
from ddp_lessons.check.judging.unwritten_functions import is_untouched, why_not_callable
from ddp_lessons.run.launch import launch
from ddp_lessons.run.wire.travel import pack_call

_SECONDS_WITH_IT_AT_HAND = 0.5


def refusal(name: str, function: Callable[..., object], parameters: Sequence[str]) -> Report | None:
    """Return what there is to say of a function that cannot be tried, or is not begun."""
    if sentence := why_not_callable(function, name, parameters):
        return not_right(name, sentence)
    if is_untouched(function):
        return not_started(name)
    try:
        pack_call(function, ())
    except TypeError as cannot_travel:
        return not_right(name, f"{cannot_travel}.")
    return None


def compiler_at_hand() -> None:
    """Let the ranks to come have imported what DistributedDataParallel imports when the first model is wrapped.

    That takes seconds, and a rank that has to do it would look as if it were stuck.
    """
    if launch(_wrap_a_model, 1, timeout_seconds=None, quiet=True)[0] > _SECONDS_WITH_IT_AT_HAND:
        # the launcher has noticed, and does it for all; this one comes back when that is done
        launch(_wrap_a_model, 1, timeout_seconds=None, quiet=True)


def _wrap_a_model(rank: int, world_size: int) -> float:
    import torch

    begin = time.perf_counter()
    torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(1, 1))
    return time.perf_counter() - begin
