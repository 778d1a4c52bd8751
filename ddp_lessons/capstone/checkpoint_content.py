"""What a learner's checkpoint lacks, as far as it can be read."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any


def holds_only_weights(checkpoint: Path, weights: int) -> bool:
    """True if it has fewer tensor elements than weights and momentum; False also if it can't be read."""
    import torch

    try:
        saved = torch.load(checkpoint, map_location="cpu", weights_only=True)
    except Exception:  # the learner chooses the format
        return False
    return weights <= _elements(saved) < 2 * weights


def _elements(saved: Any) -> int:
    if isinstance(saved, Mapping):
        return sum(map(_elements, saved.values()))
    if isinstance(saved, (list, tuple)):
        return sum(map(_elements, saved))
    return saved.numel() if hasattr(saved, "numel") else 0
