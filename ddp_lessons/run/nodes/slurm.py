"""Nodes of a Slurm cluster."""

from __future__ import annotations

import operator
import os
import sys
from collections.abc import Sequence
from types import TracebackType

from ddp_lessons.run.launcher.launch_arguments import refused_plainly
from ddp_lessons.run.nodes.allocation import Allocation, HeldAllocation, allocation_here
from ddp_lessons.run.nodes.node_commands import NodeCommand, agent_command
from ddp_lessons.run.nodes.node_group import disconnect
from ddp_lessons.run.nodes.slurm_commands import SlurmCommands


class Slurm:
    """Nodes of a Slurm cluster, for `launch(..., on=cluster)` and `Workers(..., on=cluster)`::

        with Slurm(nodes=2, gpus_per_node=4, time_minutes=30) as cluster:
            results = launch(train, 8, on=cluster)

    One job holds the nodes for all launches, also in later cells if you write `cluster = Slurm(...)` without `with`.
    Then the first launch requests them, and `cluster.close()` gives them back. The job also ends with the notebook,
    however that ends. After another end, such as the time limit, the next launch requests nodes again. While the job
    waits in the queue, the cell shows why; the stop button cancels it.

    In a notebook that runs in a job itself (SLURM_JOB_ID is set), the nodes are those of that job, and only `nodes`
    and `python` have a meaning. Each node needs the same Python, torch and version of this package as the notebook,
    which a shared file system usually provides.

    Args:
        nodes: the number of nodes; the default is 1, or all nodes of the job that the notebook runs in.
        time_minutes: how long the job may take.
        partition, account, qos, constraint, mem: as in the options of Slurm's `salloc`.
        gpus_per_node: the number of GPUs on each node, or "type:number".
        cpus_per_task: the number of CPUs on each node, for all of its ranks together.
        exclusive: no other job may use the nodes.
        options: further options of `salloc`, such as ("--reservation=course",).
        python: the path of the Python on the nodes; the default is this notebook's.
        prefix: words before each of Slurm's commands, for example to enter a container that has them.
    """

    def __init__(
        self,
        nodes: int | None = None,
        *,
        time_minutes: int | None = None,
        partition: str | None = None,
        account: str | None = None,
        qos: str | None = None,
        constraint: str | None = None,
        mem: str | int | None = None,
        gpus_per_node: int | str | None = None,
        cpus_per_task: int | None = None,
        exclusive: bool = False,
        options: Sequence[str] = (),
        python: str = sys.executable,
        prefix: Sequence[str] = (),
    ) -> None:
        self._nodes = _whole("nodes", nodes)
        wanted = {
            "time": _whole("time_minutes", time_minutes),
            "partition": partition,
            "account": account,
            "qos": qos,
            "constraint": constraint,
            "mem": mem,
            "gpus-per-node": gpus_per_node or None,
            "cpus-per-task": _whole("cpus_per_task", cpus_per_task),
        }
        self._options = [
            f"--nodes={self._nodes or 1}",
            *(f"--{name}={value}" for name, value in wanted.items() if value is not None),
            *(["--exclusive"] if exclusive else []),
            *_checked_options(options),
        ]
        self._python = python
        self._commands = SlurmCommands(prefix)
        self._allocation: Allocation | None = None

    def __repr__(self) -> str:
        held = self._allocation
        about = f": job {held.job} on {', '.join(held.nodes)}" if held is not None and held.is_held() else ""
        return f"Slurm({' '.join(self._options)}){about}"

    def __enter__(self) -> Slurm:
        with refused_plainly():
            self._allocated()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, path: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End all ranks and the job."""
        disconnect(self)
        self._release()

    def commands(self) -> list[NodeCommand]:
        allocation, agent = self._allocated(), agent_command(self._python)
        return [
            NodeCommand(node, allocation.agent(node, agent), why_ended=allocation.why_ended)
            for node in allocation.nodes
        ]

    def _allocated(self) -> Allocation:
        """What there is, or else a new one."""
        self._commands.check()
        if job := os.environ.get("SLURM_JOB_ID", ""):
            self._allocation = allocation_here(self._commands, job, self._nodes)
        elif self._allocation is None or self._allocation.has_ended():
            self._release()
            own = ("--ntasks-per-node=1", "--job-name=ddp_lessons", "--kill-command=TERM")
            self._allocation = HeldAllocation(self._commands, (*own, *self._options))
        return self._allocation

    def _release(self) -> None:
        if self._allocation is not None:
            self._allocation.release()
            self._allocation = None


def _whole(name: str, value: int | None) -> int | None:
    if value is None:
        return None
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise TypeError(f"{name} must be an integer, not {value!r}")
    if (number := operator.index(value)) < 1:
        raise ValueError(f"{name} must be at least 1, not {number}")
    return number


def _checked_options(options: Sequence[str]) -> list[str]:
    if isinstance(options, str):
        raise TypeError(f'options must be a list of options, such as options=["{options}"], not one string')
    if wrong := [option for option in options if not option.startswith("-")]:
        raise ValueError(
            f'{wrong[0]!r} is no option of salloc: write each as one string, such as "--reservation=course"'
        )
    return list(options)
