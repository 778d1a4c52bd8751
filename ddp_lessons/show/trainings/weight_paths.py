"""Sum or mean, equal or unequal shares: the path of a weight on every rank, and on one process that has all samples.

The model is one number whose loss is its mean squared distance from the samples, so that a head can follow it.
"""

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ddp_lessons.record.colors import rank_color
from ddp_lessons.show.controls.explorer import Explorer
from ddp_lessons.show.controls.explorer_controls import Choice, Slider, Values
from ddp_lessons.show.costs.cost_curves import MARKERS
from ddp_lessons.show.page.chart import Chart
from ddp_lessons.show.page.lines import WIDTH, draw_key_above, new_axes
from ddp_lessons.show.page.picture import FAINT, INK, PAPER, count, drawn_in_house_style

Shares = Sequence[Sequence[float]]
Combine = Callable[[Sequence[float], Sequence[int]], list[float]]  # gradients and numbers of samples, by rank
STEPS = 8
EQUAL = 1e-9
RATES = (0.05, 0.1, 0.125, 0.25, 0.5, 0.75, 1.0, 1.25)
LEFT, RIGHT, HIGH, HEAD, FOOT = 0.5, 0.9, 2.84, 0.32, 0.44  # inches


WAYS: Mapping[str, Combine] = {
    "mean": lambda gradients, samples: [sum(gradients) / len(gradients)] * len(gradients),
    "sum": lambda gradients, samples: [sum(gradients)] * len(gradients),
    "weighted mean": lambda gradients, samples: (
        [sum(map(operator.mul, gradients, samples)) / sum(samples)] * len(gradients)
    ),
    "nothing": lambda gradients, samples: list(gradients),
}


@dataclass(frozen=True)
class Training:
    """Of one weight, from 0 on."""

    shares: Shares
    way: str
    learning_rate: float

    def paths(self) -> list[list[float]]:
        """Where each rank is before the first step and after every step."""
        weights, numbers = [0.0] * len(self.shares), [len(share) for share in self.shares]
        after = [weights]
        for _ in range(STEPS):
            gradients = [2 * (w - sum(share) / len(share)) for w, share in zip(weights, self.shares, strict=True)]
            combined = WAYS[self.way](gradients, numbers)
            weights = [w - self.learning_rate * gradient for w, gradient in zip(weights, combined, strict=True)]
            after.append(weights)
        return [list(path) for path in zip(*after, strict=True)]

    def alone(self) -> list[float]:
        """The path of one process that has all samples."""
        everything = [sample for share in self.shares for sample in share]
        return Training([everything], "mean", self.learning_rate).paths()[0]


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
        others = now["world_size"] - 1
        return range(1 if others else len(numbers), len(numbers) - others + 1)

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


@drawn_in_house_style
def paths(training: Training) -> Chart:
    """Draw the ranks' weights over those of one process; the axes hang on the samples alone."""
    alone, by_rank = training.alone(), training.paths()
    figure, axes = _draw(training, alone, by_rank)
    numbers = " + ".join(str(len(share)) for share in training.shares)
    head = f"{count(len(by_rank), 'rank')}, {numbers} samples, combined by {training.way}, "
    head += f"learning rate {training.learning_rate:g}."
    names = {"one process": alone} | {f"rank {rank}": path for rank, path in enumerate(by_rank)}
    table = [f"{name:11} | {'  '.join(f'{weight:8.4g}' for weight in path)}" for name, path in names.items()]
    said = _say(training, alone, by_rank)
    text = "\n".join([head, f"{'after step':11} | {'  '.join(f'{step:8}' for step in range(STEPS + 1))}", *table, said])
    return Chart(figure, axes, text, f"{head} {said}")


def _say(training: Training, alone: Sequence[float], by_rank: Sequence[Sequence[float]]) -> str:
    first, last = (max(abs(path[step] - alone[step]) for path in by_rank) for step in (1, STEPS))
    furthest = max(abs(weight - other) for path in by_rank for weight, other in zip(path, alone, strict=True))
    if furthest <= EQUAL:
        said = "Every rank is where one process is, at every step"
    else:
        said = f"The furthest rank is {first:.4g} away from one process after step 1, {last:.4g} after step {STEPS}"
    apart = max(path[-1] for path in by_rank) - min(path[-1] for path in by_rank)
    said += f"; the ranks are up to {apart:.4g} apart from each other." if apart > EQUAL else "."
    if training.way == "sum" and len(by_rank) > 1:
        rate = training.learning_rate * len(by_rank)
        said += f" A sum is the mean with a learning rate of {rate:g}."
    return said


def _draw(training: Training, alone: Sequence[float], by_rank: Sequence[Sequence[float]]) -> tuple[Figure, Axes]:
    figure, axes = new_axes(LEFT, RIGHT, HIGH, HEAD, FOOT)
    everything = sorted(sample for share in training.shares for sample in share)
    low, high = min(0.0, everything[0]), max(0.0, everything[-1])
    room = 0.3 * (high - low or 1.0)
    axes.set(xlim=(-0.3, STEPS + 0.3), ylim=(low - room, high + room))
    axes.set_xlabel("after step", labelpad=2)
    axes.set_ylabel("weight", labelpad=2)
    best = sum(everything) / len(everything)
    axes.axhline(best, color=FAINT, lw=1.0, ls=(0, (4, 3)), zorder=1, gid="best")
    steps = range(STEPS + 1)
    style: dict[str, Any] = {"color": INK, "lw": 5.0, "alpha": 0.25, "solid_capstyle": "round", "zorder": 2}
    axes.plot(steps, alone, label="one process", gid="one process", **style)
    for rank, path in enumerate(by_rank):
        style = {"color": rank_color(rank), "lw": max(1.0, 3.0 - 0.7 * rank), "mec": PAPER, "mew": 0.5}
        style |= {"zorder": 3 + rank, "marker": MARKERS[rank % len(MARKERS)], "ms": max(3.5, 9.5 - 2.0 * rank)}
        axes.plot(steps, path, label=f"rank {rank}", gid=f"path {rank}", **style)
    _draw_samples(axes, training.shares, best)
    draw_key_above(axes, (WIDTH - LEFT - RIGHT) * 72)
    return figure, axes


def _draw_samples(axes: Axes, shares: Shares, best: float) -> None:
    """At the right edge: every sample at its height, with the rank that has it."""
    side: dict[str, Any] = {"transform": axes.get_yaxis_transform(), "clip_on": False}
    for rank, share in enumerate(shares):
        for sample in share:
            axes.plot([1.03], [sample], "s", color=rank_color(rank), ms=6.5, gid=f"sample {rank}", **side)
            axes.text(1.06, sample, f"{sample:g}: rank {rank}", fontsize=8, va="center", color=INK, **side)
    axes.text(1.01, best, "best", fontsize=8, va="center", color=FAINT, gid="name of the best", **side)
