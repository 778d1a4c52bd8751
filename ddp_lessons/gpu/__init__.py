"""Experiments that need an NVIDIA GPU: run live where there is one, otherwise shown from a recording.

`make gpu` runs all of them, checks what they measure, and writes the recordings.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ddp_lessons.gpu.gpu_experiments import on_gpu as on_gpu

__all__ = ["on_gpu"]


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from ddp_lessons.gpu.gpu_experiments import on_gpu

    return on_gpu
