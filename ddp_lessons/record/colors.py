"""One color for each rank, the same in text, curves and timelines. A label always accompanies the color.

Color-blind readers can distinguish the eight colors. They are Okabe and Ito's set, but with gray and brown instead of
black and yellow, which are invisible on a dark or a white page.
"""

from __future__ import annotations

RANK_COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#8A8A8A", "#9C6B30")


def rank_color(rank: int) -> str:
    return RANK_COLORS[rank % len(RANK_COLORS)]
