"""Assign the layers of a model to the stages of a pipeline, one stage for each rank."""

from __future__ import annotations


def stage_of(layer: int, layers: int, stages: int) -> int:
    """Return the stage that owns this layer. Each one owns consecutive layers; their sizes differ by at most one."""
    return layer * stages // layers
