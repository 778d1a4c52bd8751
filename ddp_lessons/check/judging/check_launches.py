"""The launches of a check: on this machine, or on the nodes that the learner named. The report is the same."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from typing import Any, TypeVar

from ddp_lessons.record.results import Results
from ddp_lessons.run.diagnosis.failures import WorkerFailed, WorkersStuck
from ddp_lessons.run.launch import launch as launch_anywhere
from ddp_lessons.run.launcher.launch_arguments import checked_nodes
from ddp_lessons.run.nodes.node_commands import NodeLost, Nodes

T = TypeVar("T")
# they hand files of this machine to the ranks, start scripts, or launch nothing
_ONLY_HERE = ("capstone", "diagnosis", "job_script", "reading", "replicas_agree", "restartable", "save_checkpoint")
_nodes: ContextVar[Nodes | None] = ContextVar("nodes of this check", default=None)


@contextlib.contextmanager
def launches_on(nodes: Nodes | None, check: str) -> Iterator[None]:
    """Inside the with block, the launches of this check start their ranks there; None: on this machine."""
    if nodes is not None and check in _ONLY_HERE:
        raise ValueError(f"check.{check} runs on this machine only; leave out on=")
    before = _nodes.set(checked_nodes(nodes) if nodes is not None else None)
    try:
        yield
    finally:
        _nodes.reset(before)


def launch(function: Callable[..., T], world_size: int, *args: object, **options: Any) -> Results[T]:
    """As `launch`, without output. A lost node is not a mistake of the learner's function, so it is no failure here.

    Raises:
        NodeLost: the connection to a node was lost.
    """
    try:
        return launch_anywhere(function, world_size, *args, quiet=True, on=_nodes.get(), **options)
    except (WorkerFailed, WorkersStuck) as failure:
        if failure.lost_node:
            raise NodeLost(str(failure)) from None
        raise failure.without_nodes() from None
