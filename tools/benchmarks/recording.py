"""The cost of recording, and our hand-written ring all-reduce compared with gloo's."""

import argparse
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from statistics import median
from subprocess import Popen
from sys import executable

import torch
import torch.distributed as dist
from torch import nn

from ddp_lessons import launch
from ddp_lessons.train.ring import ring_all_reduce
from tools.benchmarks.tables import Target, print_table

CALLS = 200
RING_BYTES = 16_000_000
RING_RANKS = 4


@contextmanager
def busy_cores(cores: int) -> Iterator[None]:
    """Keep this many cores busy."""
    busy = [Popen([executable, "-c", "while True: pass"]) for _ in range(cores)]
    try:
        yield
    finally:
        for process in busy:
            process.kill()
            process.wait()


def time_calls(rank: int, world_size: int, rounds: int) -> tuple[float, float]:
    """Time calls with and without recording, in turns, in one process. Only this thread's CPU time counts."""
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
    """Time training steps on images of MNIST's size, with one call per parameter to average its gradient."""
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
    """Time gloo's ring and ours in turns, from barrier to barrier, and compare the results."""
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


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--rounds", type=int, default=10, help="(10)")


def measure(asked: argparse.Namespace) -> list[Target]:
    # keep one core awake: a processor that sleeps while a rank waits is slow afterwards
    with busy_cores(1):
        recorded, bare = launch(time_calls, 1, 10 * asked.rounds, quiet=True)[0]
    training = launch(time_steps, 2, 10 * asked.rounds, quiet=True)
    gloo, ring = launch(time_ring, RING_RANKS, 2 * asked.rounds, quiet=True, timeout_seconds=300, record=False)[0]
    calls = sum(event.operation == "all_reduce" for event in training.events.of(0)) // (10 * asked.rounds)
    per_call, step = recorded - bare, training[0]
    rows = [
        ("recording, per call", f"{per_call * 1e6:.1f} microseconds"),
        (f"a training step, {calls} calls", f"{step * 1e3:.1f} ms"),
        ("recording, share of that step", f"{per_call * calls / step:.2%}"),
        (f"gloo's all_reduce, {RING_BYTES // 1_000_000} MB, {RING_RANKS} ranks", f"{gloo * 1e3:.1f} ms"),
        ("our hand-written ring", f"{ring * 1e3:.1f} ms"),
        ("speed of our ring / gloo", f"{gloo / ring:.2f}"),
    ]
    print_table(("per rank", "measured"), rows)
    return [
        Target("recording, per call", per_call * 1e6, 5, "us"),
        Target("recording, share of a step", 100 * per_call * calls / step, 2, "%"),
        Target("our ring / gloo: at least", gloo / ring, 0.8, "x"),
    ]
