"""Train on MNIST: accuracy, throughput, and a comparison with two processes that don't communicate."""

import argparse
import multiprocessing
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from statistics import median
from typing import Any

import torch
import torch.distributed as dist
from PIL import Image
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from torch.optim import SGD
from torch.utils.data import DataLoader, Dataset

from ddp_lessons import launch
from ddp_lessons.train.digits import Digits, digits
from ddp_lessons.train.evaluation import evaluate
from ddp_lessons.train.loops import train_alone, train_by_hand, train_with_ddp
from ddp_lessons.train.networks import Net, QuickNet
from ddp_lessons.train.sampling import GlobalBatches
from tools.benchmarks.tables import Target, print_table

BATCH = 128  # of all ranks together
RANKS = 2
SHORT, LONG = 3, 10  # epochs
MEAN, STD = 0.1307, 0.3081
PATIENCE_SECONDS = 1800.0


def learn(rank: int, world_size: int, notes: bool, seed: int, training: Digits, test: Digits) -> dict[int, float]:
    """Return the test accuracy after some epochs, of our program or of the notes' program with its settings."""
    torch.manual_seed(seed)
    model = DistributedDataParallel(Net() if notes else QuickNet())
    optimizer = SGD(model.parameters(), lr=0.01 if notes else 0.05, momentum=0.5 if notes else 0.9)
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, step_size=1, gamma=1.0 if notes else 0.7)
    if notes:
        torch.manual_seed(seed * world_size + rank)  # different dropout on every rank
    batches = GlobalBatches(training, BATCH, seed)
    accuracy = {}
    for epoch in range(1, LONG + 1):
        train_with_ddp(model, batches, optimizer, epoch)
        schedule.step()
        if epoch in (SHORT, LONG):
            accuracy[epoch] = evaluate(model, test)
    return accuracy


class Pictures(Dataset[Any]):
    """The same digits as torchvision provides them, each one converted from its pixels on access."""

    def __init__(self, data: Digits) -> None:
        from torchvision import transforms

        self.pixels = ((data.images * STD + MEAN) * 255).round().to(torch.uint8).squeeze(1)
        self.labels = data.labels
        self.transform = transforms.Compose([transforms.ToTensor(), transforms.Normalize((MEAN,), (STD,))])

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        return self.transform(Image.fromarray(self.pixels[index].numpy())), int(self.labels[index])


def epoch_of_the_notes(data: Digits) -> float:
    """Time an epoch in one process and one thread, with a DataLoader."""
    torch.set_num_threads(1)
    loader = DataLoader(Pictures(data), batch_size=BATCH, shuffle=True)
    model = Net()
    optimizer = SGD(model.parameters(), lr=0.01, momentum=0.5)
    begin = time.perf_counter()
    for inputs, labels in loader:
        optimizer.zero_grad()
        nn.functional.nll_loss(model(inputs), labels).backward()
        optimizer.step()
    return time.perf_counter() - begin


def with_ddp(model: nn.Module, data: Digits, rank: int) -> None:
    ddp = DistributedDataParallel(model)
    train_with_ddp(ddp, GlobalBatches(data, BATCH), SGD(ddp.parameters(), lr=0.01, momentum=0.5), 0)


def with_one_number(model: nn.Module, data: Digits, rank: int) -> None:
    """The minimal cost of synchronization: in each step, the ranks exchange one number."""
    number, optimizer = torch.zeros(1), SGD(model.parameters(), lr=0.01, momentum=0.5)

    def wait_for_the_others(model: nn.Module) -> None:
        dist.all_reduce(number)

    train_by_hand(model, GlobalBatches(data, BATCH), optimizer, 0, wait_for_the_others)


def apart(model: nn.Module, data: Digits, rank: int) -> None:
    """The work of one of two ranks, without communication."""
    half = GlobalBatches(data.first(len(data) // RANKS), BATCH // RANKS, seed=rank)
    train_alone(model, half, SGD(model.parameters(), lr=0.01, momentum=0.5), 0)


def timed_epoch(rank: int, world_size: int, train: Callable[[nn.Module, Digits, int], None], data: Digits) -> float:
    torch.set_num_threads(1)
    model = Net()
    begin = time.perf_counter()
    train(model, data, rank)
    return time.perf_counter() - begin


def alone(data: Digits) -> float:
    """Train as in the notes, without our launcher."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        return pool.submit(epoch_of_the_notes, data).result()


def on_ranks(train: Callable[[nn.Module, Digits, int], None], data: Digits, join: bool = True) -> float:
    return max(launch(timed_epoch, RANKS, train, data, join=join, quiet=True, timeout_seconds=PATIENCE_SECONDS))


NOTES, DDP, APART = "the notes' program, one process", f"DDP, {RANKS} ranks", f"{RANKS} independent processes"
WAYS: dict[str, Callable[[Digits], float]] = {
    NOTES: alone,
    DDP: lambda data: on_ranks(with_ddp, data),
    APART: lambda data: on_ranks(apart, data, join=False),
    f"{RANKS} ranks that exchange one number per step": lambda data: on_ranks(with_one_number, data),
}


def ratio(these: list[float], those: list[float]) -> float:
    """The ratio of two ways' times, round by round, because a machine's speed varies over time."""
    return median(this / that for this, that in zip(these, those, strict=True))


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--seeds", type=int, default=3, help="number of training runs (3; 0: only times)")
    parser.add_argument("--rounds", type=int, default=5, help="number of timed rounds (5)")
    parser.add_argument("--samples", type=int, help="number of training images (all)")


def measure(asked: argparse.Namespace) -> list[Target]:
    training, test = digits(samples=asked.samples), digits(train=False)
    print(f"MNIST, {len(training):,} training images, {len(test):,} test images\n")
    taken: dict[str, list[float]] = {name: [] for name in WAYS}
    for _ in range(asked.rounds):  # in turns, so that other load affects all equally
        for name, seconds in WAYS.items():
            taken[name].append(seconds(training))
    targets = [
        Target("an epoch with DDP / the notes' program", ratio(taken[DDP], taken[NOTES]), 0.4, "x"),
        Target("DDP / independent processes: at least", ratio(taken[APART], taken[DDP]), 0.85, "x"),
    ]
    ours, rows = list[dict[int, float]](), []
    for notes, name in ((False, "ours"), (True, "the notes', fixed")):
        for seed in range(asked.seeds):
            options = (notes, seed, training, test)
            accuracy = launch(learn, RANKS, *options, quiet=True, timeout_seconds=PATIENCE_SECONDS)[0]
            ours += [] if notes else [accuracy]
            rows.append((name, str(seed), *(f"{100 * accuracy[epoch]:.2f}%" for epoch in (SHORT, LONG))))
    if rows:
        print_table(("program", "seed", f"after {SHORT} epochs", f"after {LONG}"), rows)
        for epoch, least in ((SHORT, 98), (LONG, 98.5)):
            worst = min(100 * one[epoch] for one in ours)
            targets.append(Target(f"accuracy after {epoch} epochs, worst seed: at least", worst, least, "%"))
    images = len(training)
    print_table(
        (f"an epoch of {images:,} images", "median s", "min-max", "images per s", "/ independent"),
        [
            (
                name,
                f"{median(some):.2f}",
                f"{min(some):.2f}-{max(some):.2f}",
                f"{images / median(some):,.0f}",
                f"{ratio(taken[APART], some):.2f}",
            )
            for name, some in taken.items()
        ],
    )
    return targets
