"""The cost of a training step on two ranks, by how gradients are averaged: by hand, in buckets, our DDP, torch's."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median

import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional as F
from torch.nn.parallel import DistributedDataParallel

from ddp_lessons import launch
from ddp_lessons.train.gradients import average_gradients, average_gradients_bucketed
from ddp_lessons.train.networks import Net, QuickNet
from ddp_lessons.train.small_ddp import SmallDDP

from .measurement import Target
from .tables import table

RANKS = 2
BATCH = 128  # the global batch
STEPS = 10  # in a row, before the next way's turn
NETWORKS: tuple[type[nn.Module], ...] = (Net, QuickNet)

Model = nn.Module
# for each: the wrapper of the model, and the call between backward() and step()
WAYS: dict[str, tuple[Callable[[Model], Model], Callable[[Model], None]]] = {
    "no averaging at all": (lambda model: model, lambda model: None),
    "average_gradients": (lambda model: model, average_gradients),
    "average_gradients_bucketed": (lambda model: model, average_gradients_bucketed),
    "SmallDDP": (SmallDDP, lambda model: None),
    "torch's DDP": (DistributedDataParallel, lambda model: None),
}
REFERENCE = "torch's DDP"


@dataclass(frozen=True)
class Steps:
    """Seconds of a step, for each turn of each way; turns with the same number were neighbors in time."""

    network: str
    turns: dict[str, list[float]]

    def seconds(self, way: str) -> float:
        return median(self.turns[way])

    def ratio(self, way: str) -> float:
        """The time relative to torch's DDP, turn by turn, because a machine's speed varies over time."""
        return median(own / its for own, its in zip(self.turns[way], self.turns[REFERENCE], strict=True))


def measure_steps(rounds: int) -> list[Steps]:
    return [
        Steps(
            network.__name__,
            launch(time_ways, RANKS, network, rounds, quiet=True, record=False, timeout_seconds=900)[0],
        )
        for network in NETWORKS
    ]


def time_ways(rank: int, world_size: int, network: type[nn.Module], rounds: int) -> dict[str, list[float]]:
    """All ways in turns, forwards and backwards, so that the order does not matter."""
    steps = {way: prepared(network, *WAYS[way], BATCH // world_size) for way in WAYS}
    turns: dict[str, list[float]] = {way: [] for way in WAYS}
    for number in range(-1, rounds):  # the first is a warm-up
        for way in list(WAYS)[:: 1 if number % 2 else -1]:
            dist.barrier()
            begin = time.perf_counter()
            for _ in range(STEPS):
                steps[way]()
            dist.barrier()  # until both are done
            if number >= 0:
                turns[way].append((time.perf_counter() - begin) / STEPS)
    return turns


def prepared(
    network: type[nn.Module], wrap: Callable[[Model], Model], average: Callable[[Model], None], samples: int
) -> Callable[[], None]:
    torch.manual_seed(0)
    model = wrap(network())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.5)
    pictures, digits = torch.randn(samples, 1, 28, 28), torch.randint(10, (samples,))

    def step() -> None:
        optimizer.zero_grad()
        F.nll_loss(model(pictures), digits).backward()
        average(model)
        optimizer.step()

    return step


def steps_table(found: list[Steps], markdown: bool) -> str:
    rows = [
        (f"{steps.network}, {way}", f"{steps.seconds(way) * 1e3:.2f} ms", f"{steps.ratio(way):.2f}")
        for steps in found
        for way in WAYS
    ]
    return table((f"a step on {RANKS} ranks, global batch {BATCH}", "seconds", "DDP is 1"), rows, markdown)


def steps_promises(found: list[Steps]) -> list[Target]:
    limits = {"average_gradients_bucketed": 1.1, "SmallDDP": 1.15}
    return [
        Target(
            f"{way} / torch's DDP, {steps.network}",
            f"{steps.ratio(way):.2f} x",
            f"{limit} x",
            steps.ratio(way) <= limit,
        )
        for steps in found
        for way, limit in limits.items()
    ]


if __name__ == "__main__":
    print(steps_table(measure_steps(30), markdown=False))
