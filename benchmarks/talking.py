"""The cost of recording, and a ring all-reduce of Python functions compared with gloo's."""

import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median

import torch
import torch.distributed as dist
from torch import nn

from ddp_lessons import launch
from ddp_lessons.train.ring import ring_all_reduce

from .measurement import Target
from .tables import table

CALLS = 200
RING_BYTES = 16_000_000
RING_RANKS = 4


@dataclass(frozen=True)
class Talking:
    recorded_call: float  # seconds of the rank's CPU time for one all_reduce of four floats, recorded
    bare_call: float
    calls_per_step: int
    step: float
    gloo: float
    ring: float

    @property
    def per_call(self) -> float:
        return self.recorded_call - self.bare_call

    @property
    def share_of_step(self) -> float:
        return self.per_call * self.calls_per_step / self.step

    @property
    def ring_beside_gloo(self) -> float:
        """The speed relative to gloo."""
        return self.gloo / self.ring


def measure_talking(rounds: int) -> Talking:
    # a processor that sleeps whenever a rank waits is slow afterwards, so keep one awake
    awake = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        recorded, bare = launch(time_calls, 1, 10 * rounds, quiet=True)[0]
    finally:
        awake.kill()
        awake.wait()
    training = launch(time_steps, 2, 10 * rounds, quiet=True)
    ring = launch(time_ring, RING_RANKS, 2 * rounds, quiet=True, timeout_seconds=300, record=False)
    calls = sum(event.operation == "all_reduce" for event in training.events.of(0)) // (10 * rounds)
    return Talking(recorded, bare, calls, training[0], *ring[0])


def time_calls(rank: int, world_size: int, rounds: int) -> tuple[float, float]:
    """Calls with and without recording, in turns, in one process. Counts only this thread's CPU time."""
    from ddp_lessons.run.recording.interception import install, uninstall

    tensor = torch.zeros(4)
    taken: dict[Callable[[], None], list[float]] = {install: [], uninstall: []}
    uninstall()
    for _ in range(rounds):
        for switch, seconds in taken.items():
            switch()
            begin = time.thread_time()
            for _ in range(CALLS):
                dist.all_reduce(tensor)
            seconds.append((time.thread_time() - begin) / CALLS)
    return median(taken[install]), median(taken[uninstall])


def time_steps(rank: int, world_size: int, steps: int) -> float:
    """Training steps on images of MNIST's size, with one call per parameter to average its gradient."""
    model = nn.Sequential(
        *(nn.Conv2d(1, 10, 5), nn.MaxPool2d(2), nn.ReLU(), nn.Conv2d(10, 20, 5), nn.MaxPool2d(2), nn.ReLU()),
        *(nn.Flatten(), nn.Linear(320, 50), nn.ReLU(), nn.Linear(50, 10)),
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    pictures, digits = torch.randn(64, 1, 28, 28), torch.randint(10, (64,))
    seconds = []
    for _ in range(steps):
        begin = time.perf_counter()
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(pictures), digits).backward()
        for parameter in model.parameters():
            assert parameter.grad is not None
            dist.all_reduce(parameter.grad)
            parameter.grad /= world_size
        optimizer.step()
        seconds.append(time.perf_counter() - begin)
    return median(seconds)


def time_ring(rank: int, world_size: int, rounds: int) -> tuple[float, float]:
    """Gloo's and ours in turns, from barrier to barrier. The results are compared."""
    taken: dict[str, list[float]] = {"gloo": [], "ring": []}
    for number in range(rounds + 1):
        for name, all_reduce in (("gloo", dist.all_reduce), ("ring", ring_all_reduce)):
            tensor = torch.full((RING_BYTES // 4,), float(rank))
            dist.barrier()
            begin = time.perf_counter()
            all_reduce(tensor)
            dist.barrier()
            if number:  # the first is a warm-up
                taken[name].append(time.perf_counter() - begin)
            assert tensor.eq(sum(range(world_size))).all()
    return median(taken["gloo"]), median(taken["ring"])


def talking_table(found: Talking, markdown: bool) -> str:
    rows = [
        ("recording, per call", f"{found.per_call * 1e6:.1f} microseconds"),
        (f"a training step, {found.calls_per_step} calls", f"{found.step * 1e3:.1f} ms"),
        ("recording, share of that step", f"{found.share_of_step:.2%}"),
        (f"gloo's all_reduce, {RING_BYTES // 1_000_000} MB, {RING_RANKS} ranks", f"{found.gloo * 1e3:.1f} ms"),
        ("the ring by hand, beside it", f"{found.ring * 1e3:.1f} ms"),
        ("speed of the ring, gloo's being 1", f"{found.ring_beside_gloo:.2f}"),
    ]
    return table(("what ranks say", "measured"), rows, markdown)


def talking_promises(found: Talking) -> list[Target]:
    per_call, ratio = found.per_call * 1e6, found.ring_beside_gloo
    return [
        Target("recording, per call", f"{per_call:.1f} us", "5 us", per_call <= 5),
        Target("recording, share of a step", f"{found.share_of_step:.2%}", "2 %", found.share_of_step <= 0.02),
        Target("the ring by hand / gloo: at least", f"{ratio:.2f} x", "0.8 x", ratio >= 0.8),
    ]


if __name__ == "__main__":
    print(talking_table(measure_talking(10), markdown=False))
