"""What the nets are trained on: some digits, and under each the class that it belongs to."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap

from ddp_lessons.show.page.picture import FAINT, INK, PAPER, Picture, count as counted, drawn_in_house_style, new_figure

PER_ROW = 10
CELL, LABEL, HEAD, EDGE = 40, 16, 26, 4  # points
_INK_ON_PAPER = LinearSegmentedColormap.from_list("ink on paper", [PAPER, INK])


@drawn_in_house_style
def digits(data: Any, count: int = 20) -> Picture:
    """Draw the first digits with their labels. The title says whether they are MNIST's.

    Args:
        data: what `digits()` returned: with `images`, `labels`, `name` and `is_real`.
        count: how many, at most.
    """
    if count < 1:
        raise ValueError(f"count must be at least 1, and it is {count}")
    shown = min(count, len(data))
    across, rows = min(PER_ROW, shown), -(-shown // PER_ROW)
    title = data.name if data.is_real else f"{data.name}, not MNIST"
    width = max(across * CELL, 230) + 2 * EDGE
    height = HEAD + rows * (CELL + LABEL) + EDGE
    figure = new_figure(width / 72, height / 72)
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set(xlim=(0, width), ylim=(height, 0))
    axes.set_axis_off()
    axes.text(EDGE, HEAD / 2, title, weight="bold", fontsize=10, va="center", gid="title", parse_math=False)
    for index in range(shown):
        x, y = EDGE + index % PER_ROW * CELL, HEAD + index // PER_ROW * (CELL + LABEL)
        _draw(axes, x, y, np.asarray(data.images[index, 0]), int(data.labels[index]), index)
    axes.set(xlim=(0, width), ylim=(height, 0))  # an image moves the limits
    # Neither the name nor a label: what a lesson stores as text is the same, whichever digits it has found.
    text = f"{counted(shown, 'digit')} and {'its label' if shown == 1 else 'their labels'}"
    return Picture(figure, axes, text, f"{text}.")


def _draw(axes: Axes, x: float, y: float, pixels: Any, label: int, index: int) -> None:
    inner = CELL - 3
    axes.imshow(
        pixels,
        cmap=_INK_ON_PAPER,
        extent=(x, x + inner, y + inner, y),
        vmin=float(pixels.min()),  # the paper, whatever it is after normalising
        vmax=max(float(pixels.max()), float(pixels.min()) + 1e-6),
        interpolation="nearest",
        aspect="auto",
        gid=f"digit {index}",
    )
    axes.text(
        x + inner / 2, y + inner + LABEL / 2, str(label), ha="center", va="center", color=FAINT, gid=f"label {index}"
    )
