"""Sum or mean, equal or unequal shares: where the ranks go, and where one process would go."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from typing import Any

from ddp_lessons.show.controls.explorer import Explorer
from ddp_lessons.show.controls.explorer_controls import Choice, Slider, Values
from ddp_lessons.show.page.chart import Chart
from ddp_lessons.show.trainings.weight_paths import WAYS, Shares, Training, paths

RATES = (0.05, 0.1, 0.125, 0.25, 0.5, 0.75, 1.0, 1.25)


def explore_averaging(
    samples: Iterable[Any] = (1, 3, 5, 7), world_size: int = 2, learning_rate: float = 0.25
) -> Explorer[Chart]:
    """Turn how gradients are combined, the learning rate and the shares of a model of one weight.

    Raises:
        ValueError: there are fewer samples than ranks.
    """
    numbers = [float(sample) for sample in samples]
    if not 1 <= world_size <= len(numbers):
        raise ValueError(f"each rank needs a sample: there are {len(numbers)} for a world size of {world_size}")

    def draw(world_size: int, first: int, way: str, learning_rate: float) -> Chart:
        return paths(Training(share(numbers, world_size, first), way, learning_rate))

    def sizes_of_rank_0(now: Values) -> range:
        return (
            range(1, len(numbers) - now["world_size"] + 2)
            if now["world_size"] > 1
            else range(len(numbers), len(numbers) + 1)
        )

    controls = {
        "world_size": Slider("ranks", range(1, min(len(numbers), 8) + 1), world_size),
        "first": Slider("samples of rank 0", sizes_of_rank_0, len(numbers) // world_size),
        "way": Choice("combine by", list(WAYS), "mean"),
        "learning_rate": Slider("learning rate", sorted({*RATES, learning_rate}), learning_rate),
    }
    return Explorer(draw, title="Where the ranks go", controls=controls)


def share(samples: Sequence[float], world_size: int, first: int) -> Shares:
    """So many samples for rank 0; the others share the rest as equally as can be."""
    rest, others = list(samples[first:]), world_size - 1
    ends = [len(rest) * rank // others for rank in range(others + 1)] if others else []
    return [list(samples[:first]), *(rest[a:b] for a, b in itertools.pairwise(ends))]
