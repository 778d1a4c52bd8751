"""What a check asks before it wraps a learner's function into one of its own, which `examine` then sees instead."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from ddp_lessons.check.judging.check_launches import launch
from ddp_lessons.check.judging.report import Report, not_right, not_started
from ddp_lessons.check.judging.unwritten_functions import is_untouched, why_not_callable
from ddp_lessons.run.wire.travel import pack_call

_SECONDS_WITH_IT_AT_HAND = 0.5


def refusal(name: str, function: Callable[..., object], parameters: Sequence[str]) -> Report | None:
    """The report for a function that cannot be tried or is not started; otherwise None."""
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
    """Make the coming ranks import beforehand what DistributedDataParallel imports for the first model.

    The import takes seconds, and a rank that has to do it would look as if it hangs.
    """
    if launch(_wrap_a_model, 1, timeout_seconds=None)[0] > _SECONDS_WITH_IT_AT_HAND:
        # the launcher has noticed and imports it for all ranks; this launch returns when that is done
        launch(_wrap_a_model, 1, timeout_seconds=None)


def _wrap_a_model(rank: int, world_size: int) -> float:
    import torch

    begin = time.perf_counter()
    torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(1, 1))
    return time.perf_counter() - begin
