"""Some of the digits that the networks are trained on, each with its label below."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.colors import LinearSegmentedColormap

from ddp_lessons.run.diagnosis.wording import count as counted
from ddp_lessons.show.charts.chart import FAINT, INK, PAPER, Chart, drawn_in_house_style, new_figure

PER_ROW = 10
CELL, LABEL, GAP = 36, 16, 3  # points
_INK_ON_PAPER = LinearSegmentedColormap.from_list("ink on paper", [PAPER, INK])


@drawn_in_house_style
def digits(data: Any, count: int = 20) -> Chart:
    """Draw the first digits with their labels.

    Args:
        data: what `digits()` returned, or torchvision's MNIST, where `data[i]` is an image, as a tensor, and its label.
        count: how many digits to draw, at most.
    """
    if count < 1:
        raise ValueError(f"count must be at least 1, not {count}")
    shown = min(count, len(data))
    width, height = min(PER_ROW, shown) * (CELL + GAP) + GAP, -(-shown // PER_ROW) * (CELL + LABEL) + GAP
    figure = new_figure(width / 72, height / 72)
    axes = figure.add_axes((0, 0, 1, 1))
    for index in range(shown):
        image, label = data[index]
        pixels = np.asarray(image[0])
        x, y = GAP + index % PER_ROW * (CELL + GAP), GAP + index // PER_ROW * (CELL + LABEL)
        low = float(pixels.min())  # the background, whatever its value is after normalizing
        high = max(float(pixels.max()), low + 1e-6)
        place = x, x + CELL, y + CELL, y
        axes.imshow(pixels, cmap=_INK_ON_PAPER, vmin=low, vmax=high, extent=place, interpolation="none")
        axes.text(x + CELL / 2, y + CELL + LABEL / 2, str(int(label)), ha="center", va="center", color=FAINT)
    axes.set(xlim=(0, width), ylim=(height, 0))  # each image moves the limits
    axes.set_axis_off()
    text = f"{counted(shown, 'digit')} and {'its label' if shown == 1 else 'their labels'}"
    return Chart(figure, axes, text, f"{text}.")
