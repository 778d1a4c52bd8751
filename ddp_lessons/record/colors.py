"""One colour for each rank, the same in text, curves and timelines, and never the only sign: a label is always there.

The eight colours can be told apart by colour-blind readers (Okabe and Ito's set; its black and yellow, which vanish on
a dark or a white page, are replaced by grey and brown).
"""

from __future__ import annotations

RANK_COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#8A8A8A", "#9C6B30")


def rank_color(rank: int) -> str:
    return RANK_COLORS[rank % len(RANK_COLORS)]
