"""The launches of a check: on this machine, or on the nodes that the learner named. The report is the same."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from typing import Any, TypeVar

from ddp_lessons.record.results import Results
from ddp_lessons.run.diagnosis.failures import WorkerFailed, WorkersStuck
from ddp_lessons.run.launch import launch as launch_anywhere
from ddp_lessons.run.launcher.launch_arguments import checked
from ddp_lessons.run.nodes.hosts import NodeLost, Nodes
from ddp_lessons.run.workers import Workers

T = TypeVar("T")
# they hand files of this machine to the ranks, or start scripts
_ONLY_HERE = ("job_script", "restartable", "save_checkpoint")
_BEFORE_THE_CALL = "trial.arguments(rank"  # a line of ours; what raises later does so because of the answer
_SECONDS_WITH_IT_AT_HAND = 0.5
_nodes: ContextVar[Nodes | None] = ContextVar("nodes of this check", default=None)


class CheckFailed(Exception):
    """Code of a check raised; the message is the traceback."""


@contextlib.contextmanager
def launches_on(nodes: Nodes | None, check: str) -> Iterator[None]:
    """Inside the with block, the launches of this check start their ranks there; None: on this machine."""
    if nodes is not None and check in _ONLY_HERE:
        raise ValueError(f"check.{check} runs only on this machine; leave out on=")
    before = _nodes.set(checked("on", nodes))
    try:
        yield
    finally:
        _nodes.reset(before)


def launch(function: Callable[..., T], world_size: int, *args: object, **options: Any) -> Results[T]:
    """As `launch`, without output. A lost node is not a mistake of the learner's function, so it is no failure here.

    Raises:
        NodeLost: the connection to a node was lost.
        CheckFailed: a rank raised in code of the check.
    """
    try:
        return launch_anywhere(function, world_size, *args, quiet=True, on=_nodes.get(), **options)
    except (WorkerFailed, WorkersStuck) as failure:
        if failure.lost_node:
            raise NodeLost(str(failure)) from None
        if failure.is_exception and _BEFORE_THE_CALL in failure.traceback(failure.rank):
            raise CheckFailed(failure.traceback(failure.rank)) from None
        raise failure.without_nodes() from None


def workers(world_size: int, timeout_seconds: float) -> Workers:
    """Ranks for several runs, without output."""
    return Workers(world_size, timeout_seconds=timeout_seconds, quiet=True, record="values", on=_nodes.get())


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
