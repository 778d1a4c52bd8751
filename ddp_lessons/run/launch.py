"""From a cell to N ranks and back, in one call."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable
from typing import Any, TypeVar

from ddp_lessons.record.results import Results
from ddp_lessons.run.launcher.launch_arguments import (
    check_function,
    check_not_inside_a_rank,
    checked_world_size,
    is_inside_a_rank,
    refused_plainly,
)
from ddp_lessons.run.launcher.limits import limits
from ddp_lessons.run.nodes.hosts import Nodes
from ddp_lessons.run.output.cards import note_cells
from ddp_lessons.run.processes.process_pool import AHEAD_AT_FIRST, pool
from ddp_lessons.run.processes.process_sources import start_method as default_start_method
from ddp_lessons.run.wire.messages import THE_COMPILER
from ddp_lessons.run.workers import Workers

T = TypeVar("T")


def launch(
    function: Callable[..., T],
    world_size: int = 2,
    *args: object,
    timeout_seconds: float | None = 60.0,
    backend: str | None = None,
    join: bool = True,
    start_method: str | None = None,
    quiet: bool = False,
    record: bool | str = True,
    live: Callable[[Results[Any]], object] | None = None,
    on: Nodes | None = None,
    debug: bool = False,
) -> Results[T]:
    """Run `function(rank, world_size, *args)` in new processes and return their results by rank.

    The processes have already joined one process group: gloo, and also NCCL if each rank has its own GPU.

    Args:
        function: any function, even one defined in a cell; it is called once on every rank.
        world_size: the number of ranks.
        *args: further arguments, the same for every rank.
        timeout_seconds: how long the function may take, once every rank has imported what it needs; None for no limit.
        backend: "gloo", "nccl", or another backend of torch.
        join: if False, the function calls `init_process_group` itself; RANK, WORLD_SIZE, MASTER_ADDR and so on are set.
        start_method: "fork" or "spawn"; by default, the faster one that is safe on this machine.
        quiet: don't show what the ranks print; it is still in `results.lines`.
        record: record the calls of torch.distributed in `results.events`; "values" adds the elements of small tensors.
        live: a function that draws what the ranks have logged with `tell`, such as `show.training`; the figure is
            updated while they run.
        on: the nodes to run on, such as Hosts("alpha", "beta"); the default is this machine.
        debug: open the debugger at the line where a rank raises an exception, as `breakpoint()` does.

    Raises:
        WorkerFailed: a rank raised an exception or died; the message names the rank and shows its line.
        WorkersStuck: the ranks hang, or don't return in time; the message shows where each one is.
        NodeLost: no rank could start, because a node can't be reached, or the nodes can't reach each other.
    """
    __tracebackhide__ = True
    with refused_plainly():
        check_not_inside_a_rank()
        check_function(function, checked_world_size(world_size, on), args)
    with Workers(
        world_size,
        timeout_seconds=timeout_seconds,
        backend=backend,
        join=join,
        start_method=start_method,
        quiet=quiet,
        record=record,
        live=live,
        on=on,
        debug=debug,
    ) as workers:
        return workers.run(function, *args)


if not is_inside_a_rank():
    note_cells()
    with contextlib.suppress(ValueError):  # a wrong setting is reported at the first launch
        # importing torch takes a second or more: do it while the learner is still reading
        pool.prepare(min(AHEAD_AT_FIRST, limits().ranks), default_start_method(None))
        if "ipykernel" in sys.modules:
            pool.import_ahead({THE_COMPILER}, default_start_method(None))
