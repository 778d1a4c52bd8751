"""Several machines for a lesson or a test, made on this one: with networks, cables and a batch system of their own.

Where this machine cannot make them, `attempt` shows what was recorded on one that could.
"""

from __future__ import annotations

from ddp_lessons.machines.attempts import Attempt, Said
from ddp_lessons.machines.live_or_recorded import attempt, troubles
from ddp_lessons.machines.namespaces import Machines
from ddp_lessons.machines.places import NotHere
from ddp_lessons.machines.slurm import Slurm

__all__ = ["Attempt", "Machines", "NotHere", "Said", "Slurm", "attempt", "troubles"]
