"""Backends: which ones this machine has, which calls each of them supports, and programs under mpirun."""

from ddp_lessons.backends.backend_trials import Trials as Trials, try_backends as try_backends
from ddp_lessons.backends.under_mpirun import Ended as Ended, mpirun as mpirun

__all__ = ["Ended", "Trials", "mpirun", "try_backends"]
