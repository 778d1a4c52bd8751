"""What the nets are trained on: some digits, and under each the class that it belongs to."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap

from ddp_lessons.show.page.picture import FAINT, INK, PAPER, Picture, count as counted, drawn_in_house_style, new_figure

PER_ROW = 10
CELL, LABEL, EDGE = 40, 16, 4  # points
_INK_ON_PAPER = LinearSegmentedColormap.from_list("ink on paper", [PAPER, INK])


@drawn_in_house_style
def digits(data: Any, count: int = 20) -> Picture:
    """Draw the first digits with their labels.

    Args:
        data: what `digits()` returned, or torchvision's MNIST: `data[i]` is an image, as a tensor, and its label.
        count: how many, at most.
    """
    if count < 1:
        raise ValueError(f"count must be at least 1, and it is {count}")
    shown = min(count, len(data))
    across, rows = min(PER_ROW, shown), -(-shown // PER_ROW)
    width = across * CELL + 2 * EDGE
    height = rows * (CELL + LABEL) + 2 * EDGE
    figure = new_figure(width / 72, height / 72)
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set(xlim=(0, width), ylim=(height, 0))
    axes.set_axis_off()
    for index in range(shown):
        image, label = data[index]
        x, y = EDGE + index % PER_ROW * CELL, EDGE + index // PER_ROW * (CELL + LABEL)
        _draw(axes, x, y, np.asarray(image[0]), int(label), index)
    axes.set(xlim=(0, width), ylim=(height, 0))  # an image moves the limits
    text = f"{counted(shown, 'digit')} and {'its label' if shown == 1 else 'their labels'}"
    return Picture(figure, axes, text, f"{text}.")


def _draw(axes: Axes, x: float, y: float, pixels: Any, label: int, index: int) -> None:
    inner = CELL - 3
    axes.imshow(
        pixels,
        cmap=_INK_ON_PAPER,
        extent=(x, x + inner, y + inner, y),
        vmin=float(pixels.min()),  # the paper, whatever it is after normalizing
        vmax=max(float(pixels.max()), float(pixels.min()) + 1e-6),
        interpolation="nearest",
        aspect="auto",
        gid=f"digit {index}",
    )
    axes.text(
        x + inner / 2, y + inner + LABEL / 2, str(label), ha="center", va="center", color=FAINT, gid=f"label {index}"
    )
