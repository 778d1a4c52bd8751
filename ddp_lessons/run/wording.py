"""How messages name several ranks."""

from __future__ import annotations

from collections.abc import Sequence


def listed(ranks: Sequence[int]) -> str:
    """As in: 1; 0 and 2; 0, 1 and 3."""
    *front, last = map(str, ranks)
    return f"{', '.join(front)} and {last}" if front else last


def ranks_named(ranks: Sequence[int]) -> str:
    """As in: rank 1; ranks 0 and 2."""
    return f"{'rank' if len(ranks) == 1 else 'ranks'} {listed(ranks)}"
