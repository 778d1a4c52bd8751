"""Several nodes for a lesson or a test, simulated on this machine, with their own networks, links and Slurm.

If this machine can't simulate them, `attempt` shows a recording.
"""

from __future__ import annotations

from ddp_lessons.machines.attempts import Attempt, Said
from ddp_lessons.machines.live_or_recorded import attempt, troubles
from ddp_lessons.machines.namespaces import Machines
from ddp_lessons.machines.slurm_on_machines import SlurmOnMachines
from ddp_lessons.record.recordings import NotHere

__all__ = ["Attempt", "Machines", "NotHere", "Said", "SlurmOnMachines", "attempt", "troubles"]
