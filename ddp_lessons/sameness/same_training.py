"""`same_as_one`: run a training function on one rank and on several, and say whether the training is the same."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from ddp_lessons.run.launch import launch
from ddp_lessons.run.launcher.launch_arguments import check_function, checked_world_size, refused_plainly
from ddp_lessons.sameness import RANDOM

if TYPE_CHECKING:
    import torch

    from ddp_lessons.run.nodes.hosts import Nodes
    from ddp_lessons.sameness.run_records import Run
    from ddp_lessons.sameness.sameness_report import SamenessReport


def same_as_one(
    train: Callable[..., object],
    *args: object,
    ranks: Sequence[int] = (1, 2, 4),
    steps: int = 20,
    dtype: torch.dtype | None = None,
    random: Iterable[str] = (),
    timeout_seconds: float | None = 60.0,
    on: Nodes | None = None,
) -> SamenessReport:
    """Run `train(rank, world_size, *args)` on one rank and on several, and report whether they train the same model.

    The function needs no change, but it must use the same global batch for any number of ranks. In each optimizer step,
    samples, parameters, gradients and buffers are compared. The report names the first difference and, if the values
    show it, the cause.

    Args:
        train: any training function that uses an optimizer from torch.optim.
        *args: further arguments, the same for every rank.
        ranks: the numbers of ranks to compare; one rank is always included.
        steps: for how many optimizer steps values are compared. The training run still continues to its end.
        dtype: the default dtype during training. torch.float64 makes rounding errors, and so the limits, much smaller.
        random: what is random by design. "dropout" is switched off in every run. With "augmentation", samples are only
            counted, and the ranks are compared with each other.
        timeout_seconds: how long each run may take; None for no limit.
        on: the nodes to run on, as for `launch`; the run on one rank uses the first of them.

    Raises:
        WorkerFailed, WorkersStuck: the function itself failed, as in `launch`.
    """
    __tracebackhide__ = True
    with refused_plainly():
        sizes = _checked_sizes(ranks, on)
        watch = checked_watch(steps, dtype, random)
        try:
            check_function(train, sizes[-1], args)
        except TypeError as refusal:  # it names the function that the caller has called
            raise TypeError(re.sub(r"\blaunch\b", "same_as_one", str(refusal))) from None

    from ddp_lessons.sameness.rank_watch import watched_train
    from ddp_lessons.sameness.run_records import Run
    from ddp_lessons.sameness.sameness_report import judged

    def run(size: int, in_float64: bool) -> Run:
        told = watch | {"dtype": "float64"} if in_float64 else watch
        return Run(
            tuple(launch(watched_train, size, train, args, told, timeout_seconds=timeout_seconds, quiet=True, on=on))
        )

    return judged(run, sizes, watch["random"], watch["dtype"] == "float64")


def _checked_sizes(ranks: Any, on: Any) -> list[int]:
    """The numbers of ranks to run on, one rank first."""
    if isinstance(ranks, str) or not isinstance(ranks, Iterable):
        raise TypeError(f"ranks must list the numbers of ranks to compare, such as ranks=(1, 2), not {ranks!r}")
    sizes = sorted({1, *(checked_world_size(size, on) for size in ranks)})
    if len(sizes) == 1:
        raise ValueError(f"ranks is {ranks!r}, so there is nothing to compare with one rank; write ranks=(1, 2)")
    return sizes


def checked_watch(steps: int, dtype: torch.dtype | None, random: Iterable[str]) -> dict[str, Any]:
    """What a rank is told about the watching."""
    names = (random,) if isinstance(random, str) else tuple(random)
    if unknown := [name for name in names if name not in RANDOM]:
        raise ValueError(f"random= accepts {' and '.join(map(repr, RANDOM))}, not {unknown[0]!r}")
    if isinstance(steps, bool) or not isinstance(steps, int) or steps < 1:
        raise ValueError(f"steps must be the number of optimizer steps to compare, at least 1, not {steps!r}")
    if dtype is not None and not getattr(dtype, "is_floating_point", False):
        raise TypeError(f"dtype must be a floating-point dtype such as torch.float64, not {dtype!r}")
    return {"steps": steps, "dtype": dtype and str(dtype).removeprefix("torch."), "random": names}
