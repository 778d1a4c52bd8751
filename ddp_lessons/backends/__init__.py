"""Backends: which ones this machine has, which calls each of them supports, and programs under mpirun.

Names are loaded on first use, so running a program under mpirun does not import torch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ddp_lessons.backends.backend_trials import Trials as Trials, try_backends as try_backends
    from ddp_lessons.backends.under_mpirun import Ended as Ended, NoMPI as NoMPI, mpirun as mpirun

__all__ = ["Ended", "NoMPI", "Trials", "mpirun", "try_backends"]

_HOME = {
    "Ended": "under_mpirun",
    "NoMPI": "under_mpirun",
    "Trials": "backend_trials",
    "mpirun": "under_mpirun",
    "try_backends": "backend_trials",
}


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
