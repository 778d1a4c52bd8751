"""A look at a Slurm on simulated nodes: its queue, and the words of a notebook that uses it."""

from __future__ import annotations

import contextlib
import shlex
from typing import Any

from processes import eventually

from ddp_lessons import Slurm
from ddp_lessons.machines import SlurmOnMachines

CLUSTER = "from ddp_lessons import Slurm, launch; cluster = Slurm(nodes=2, through={prefix!r})\n"


def command_prefix(site: SlurmOnMachines) -> str:
    """The words before a command that runs on machine0 as one of this cluster's."""
    return shlex.join(site.machines.command(0, ["env", f"SLURM_CONF={site.folder}/slurm.conf"]))


def allocate(site: SlurmOnMachines, **placement: Any) -> Slurm:
    """What `Slurm(**placement)` is for a user of this cluster."""
    return Slurm(through=command_prefix(site), **placement)


def queue(site: SlurmOnMachines, options: str = "") -> list[str]:
    return site.run(f"squeue --noheader --format=%i {options}").split()


def is_empty_soon(site: SlurmOnMachines) -> bool:
    """A job that has ended is there for another moment, COMPLETING."""
    return eventually(lambda: not queue(site))


def is_repaired(site: SlurmOnMachines) -> bool:
    """A node that was set down may come back by itself, and then refuses to be resumed."""
    with contextlib.suppress(RuntimeError):
        site.run("scontrol update nodename=machine1 state=resume")
    return set(site.run("sinfo --noheader --Node --format=%T").split()) == {"idle"}


def prefix_of(site: SlurmOnMachines) -> str:
    return CLUSTER.format(prefix=command_prefix(site))
