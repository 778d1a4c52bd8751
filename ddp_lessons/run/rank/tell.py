"""What a rank logs while its function runs: numbers, for a live figure, and labels.

Outside a launch, `tell` does nothing, so a function that calls `tell` runs unchanged under torchrun.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable
from time import perf_counter
from typing import SupportsFloat

from ddp_lessons.record.rank_record import Told

_listeners: list[Callable[[Told], None]] = []


def tell(label: str = "", /, **numbers: SupportsFloat) -> None:
    """Log numbers from a rank, as in `tell(step=3, loss=0.5)`.

    A label names the phase that starts now, as in `tell("forward")`; it lasts until the next label. The log is in
    `results.told[rank]`, and `launch(..., live=show.training)` draws it while the ranks run.

    Raises:
        TypeError: a value is not a number, or the label is not a string.
    """
    if not isinstance(label, str):
        raise TypeError(f"a label must be a string, not {label!r}; to name a number, use tell(loss={label!r})")
    told = Told(perf_counter(), label, {name: _number(name, value) for name, value in numbers.items()})
    for listen in _listeners:
        with contextlib.suppress(OSError):  # in a child process of the rank, or the notebook has exited
            listen(told)


def listen(listener: Callable[[Told], None]) -> None:
    """From now on, pass on what this process logs."""
    _listeners[:] = [listener]


def _number(name: str, value: object) -> float:
    try:
        return float(value)  # type: ignore[arg-type]  # a tensor of one element, too
    except (TypeError, ValueError, RuntimeError, OverflowError):
        if isinstance(value, int):
            return math.inf if value > 0 else -math.inf
        raise TypeError(f"tell() logs numbers, but {name} is a {type(value).__name__}") from None
