"""One chart of each kind, of numbers that are the same in every run."""

from __future__ import annotations

import math
from collections.abc import Callable

from recorded import token_round

from ddp_lessons import Results, show
from ddp_lessons.record.rank_record import Told

MEASURED = [(8 * 4**k, 60e-6 + 8 * 4**k / 3e9 * (1 + 0.2 * math.sin(k))) for k in range(12)]


def told(world_size: int, steps: int, *names: str) -> Results[None]:
    """Numbers that fall and shake."""

    def number(rank: int, step: int, turn: int) -> float:
        return 2 * math.exp(-step / 300 * turn) + 0.1 * math.sin(97.3 * step + rank)

    def one(rank: int, step: int) -> Told:
        return Told(step / 1e3, "", {"step": step} | {name: number(rank, step, i) for i, name in enumerate(names, 1)})

    by_rank = tuple(tuple(one(rank, step) for step in range(steps)) for rank in range(world_size))
    return Results((None,) * world_size, ([],) * world_size, 1.0, token_round(world_size), by_rank)


def speed(ranks: int, batch_size: int, cores: int, latency: float, bandwidth: float) -> float:
    return batch_size / (batch_size / min(ranks, cores) / 5000 + 2 * (ranks - 1) * (latency + 4e5 / ranks / bandwidth))


CHARTS: dict[str, Callable[[], show.Chart]] = {
    "latency": lambda: show.latency(MEASURED, show.fit_line(MEASURED)),
    "cost": lambda: show.cost({"ring": MEASURED, "tree": MEASURED[:3]}, {"ring": lambda size: 1e-4 + size / 1e9}),
    "cost by ranks": lambda: show.cost({"ring": [(2, 0.05), (3, 0.1), (4, 0.16)]}, x="ranks", from_zero=True),
    "distance": lambda: show.distance(
        {"by hand": [0.0, *[1e-9] * 1999], "forgotten": [0.0, 1e-3, float("nan")]}, title="The weights of 2 ranks"
    ),
    "scaling": lambda: show.scaling({1: 5e3, 2: 9e3, 4: 9.5e3}, {1: 5e3, 4: 1e4}, cores=2, title="<title>"),
    "speed-ups": lambda: (
        show.explore_scaling(speed, {256: {1: 5e3, 2: 8e3}}, cores=4, latency=1e-4, bandwidth=3e9).picture
    ),
    "training": lambda: show.training(told(2, 20, "loss", "accuracy"), title="MNIST"),
    "long training": lambda: show.training(told(4, 3000, "loss", "accuracy", "rate")),
    "nothing": lambda: show.training(told(2, 0)),
}
