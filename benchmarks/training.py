"""Train on digits: accuracy, throughput, and a comparison with two processes that don't communicate."""

import argparse
import multiprocessing
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from statistics import median
from typing import Any

import torch
import torch.distributed as dist
from PIL import Image
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset

from ddp_lessons import launch
from ddp_lessons.train.digits import Digits, digits
from ddp_lessons.train.evaluation import evaluate
from ddp_lessons.train.loops import train_alone, train_by_hand, train_with_ddp
from ddp_lessons.train.networks import Net, QuickNet
from ddp_lessons.train.sampling import GlobalBatches

from .measurement import Target, at_most
from .tables import table, target_table

BATCH = 128  # of all ranks together
RANKS = 2
SHORT, LONG = 3, 10  # epochs
MEAN, STD = 0.1307, 0.3081
PATIENCE_SECONDS = 1800.0


@dataclass(frozen=True)
class Learned:
    """The test accuracy with one seed after so many epochs."""

    program: str
    seed: int
    accuracy: dict[int, float]


def learn(rank: int, world_size: int, seed: int, training: Digits, test: Digits) -> dict[int, float]:
    torch.manual_seed(seed)
    model = DistributedDataParallel(QuickNet())
    batches = GlobalBatches(training, BATCH, seed)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, step_size=1, gamma=0.7)
    accuracy = {}
    for epoch in range(1, LONG + 1):
        train_with_ddp(model, batches, optimizer, epoch)
        schedule.step()
        if epoch in (SHORT, LONG):
            accuracy[epoch] = evaluate(model, test)
    return accuracy


def learn_as_the_notes(rank: int, world_size: int, seed: int, training: Digits, test: Digits) -> dict[int, float]:
    """The notes' program, repaired, with its net, learning rate and momentum."""
    torch.manual_seed(seed)
    model = DistributedDataParallel(Net())
    torch.manual_seed(seed * world_size + rank)  # different dropout on every rank
    batches = GlobalBatches(training, BATCH, seed)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.5)
    accuracy = {}
    for epoch in range(1, LONG + 1):
        train_with_ddp(model, batches, optimizer, epoch)
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
    """Seconds of an epoch in one process and one thread, through a DataLoader."""
    torch.set_num_threads(1)
    loader = DataLoader(Pictures(data), batch_size=BATCH, shuffle=True)
    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.5)
    begin = time.perf_counter()
    for inputs, labels in loader:
        optimizer.zero_grad()
        nn.functional.nll_loss(model(inputs), labels).backward()
        optimizer.step()
    return time.perf_counter() - begin


def epoch_with_ddp(rank: int, world_size: int, data: Digits) -> float:
    torch.set_num_threads(1)
    model = DistributedDataParallel(Net())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.5)
    begin = time.perf_counter()
    train_with_ddp(model, GlobalBatches(data, BATCH), optimizer, 0)
    return time.perf_counter() - begin


def epoch_with_one_number(rank: int, world_size: int, data: Digits) -> float:
    """The minimal cost of synchronization here: in each step, the ranks exchange one number."""
    torch.set_num_threads(1)
    model, number = Net(), torch.zeros(1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.5)

    def wait_for_the_others(model: nn.Module) -> None:
        dist.all_reduce(number)

    begin = time.perf_counter()
    train_by_hand(model, GlobalBatches(data, BATCH), optimizer, 0, wait_for_the_others)
    return time.perf_counter() - begin


def epoch_on_its_own(rank: int, world_size: int, data: Digits) -> float:
    """As much work as one of two ranks has, without communication."""
    torch.set_num_threads(1)
    model, half = Net(), data.first(len(data) // RANKS)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.5)
    begin = time.perf_counter()
    train_alone(model, GlobalBatches(half, BATCH // RANKS, seed=rank), optimizer, 0)
    return time.perf_counter() - begin


def in_a_process_of_its_own(function: Callable[[Digits], float], data: Digits) -> float:
    """As in the notes, without our launcher."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        return pool.submit(function, data).result()


def on_ranks(function: Callable[..., float], data: Digits, join: bool = True) -> float:
    return max(launch(function, RANKS, data, join=join, quiet=True, timeout_seconds=PATIENCE_SECONDS))


NOTES, DDP = "the notes' program, one process", f"DDP, {RANKS} ranks"
WAITING, APART = f"{RANKS} ranks that exchange one number per step", f"{RANKS} processes that do not talk"


def epochs(rounds: int, data: Digits) -> dict[str, list[float]]:
    """In turns, so that other load affects all equally; the two ways to compare are neighbors."""
    ways: dict[str, Callable[[], float]] = {
        NOTES: lambda: in_a_process_of_its_own(epoch_of_the_notes, data),
        DDP: lambda: on_ranks(epoch_with_ddp, data),
        APART: lambda: on_ranks(epoch_on_its_own, data, join=False),
        WAITING: lambda: on_ranks(epoch_with_one_number, data),
    }
    taken: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(rounds):
        for name, seconds in ways.items():
            taken[name].append(seconds())
    return taken


def ratio(these: list[float], those: list[float]) -> float:
    """The ratio of two ways' times, round by round, because a machine's speed varies over time."""
    return median(this / that for this, that in zip(these, those, strict=True))


def lessons_learned(seeds: int, training: Digits, test: Digits) -> Iterator[Learned]:
    for program, function in (("ours", learn), ("the notes', repaired", learn_as_the_notes)):
        for seed in range(seeds):
            found = launch(function, RANKS, seed, training, test, quiet=True, timeout_seconds=PATIENCE_SECONDS)
            yield Learned(program, seed, found[0])


def accuracy_table(learned: Sequence[Learned], markdown: bool) -> str:
    rows = [
        (one.program, str(one.seed), *(f"{100 * one.accuracy[epoch]:.2f} %" for epoch in (SHORT, LONG)))
        for one in learned
    ]
    return table(("program", "seed", f"after {SHORT} epochs", f"after {LONG}"), rows, markdown)


def epoch_table(taken: dict[str, list[float]], images: int, markdown: bool) -> str:
    rows = [
        (
            name,
            f"{median(some):.2f}",
            f"{min(some):.2f}-{max(some):.2f}",
            f"{images / median(some):,.0f}",
            f"{ratio(taken[APART], some):.2f}",
        )
        for name, some in taken.items()
    ]
    names = (f"an epoch of {images:,} images", "median s", "min-max", "images per s", "of those apart")
    return table(names, rows, markdown)


def promises(learned: Sequence[Learned], taken: dict[str, list[float]]) -> list[Target]:
    ours = [one.accuracy for one in learned if one.program == "ours"]
    speed = ratio(taken[APART], taken[DDP])
    targets = [
        at_most("an epoch with DDP / the notes' program", ratio(taken[DDP], taken[NOTES]), 0.4, "x"),
        Target("DDP / processes that do not talk: at least", f"{speed:.2f} x", "0.85 x", speed >= 0.85),
    ]
    for epoch, least in ((SHORT, 0.98), (LONG, 0.985)) if ours else ():
        worst = min(one[epoch] for one in ours)
        promise = f"accuracy after {epoch} epochs, worst seed: at least"
        targets.append(Target(promise, f"{100 * worst:.2f} %", f"{100 * least:.1f} %", worst >= least))
    return targets


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.training", description=__doc__)
    parser.add_argument("--folder", help="folder of the MNIST files (default: those of the course)")
    parser.add_argument("--seeds", type=int, default=3, help="number of complete training runs (3; 0: only times)")
    parser.add_argument("--rounds", type=int, default=5, help="rounds of timed epochs (5)")
    parser.add_argument("--samples", type=int, help="number of training images (all)")
    parser.add_argument("--strict", action="store_true", help="exit status 1 if a target is not met")
    parser.add_argument("--markdown", action="store_true", help="print Markdown tables")
    asked = parser.parse_args()
    training, test = digits(samples=asked.samples, folder=asked.folder), digits(train=False, folder=asked.folder)
    print(f"MNIST, {len(training):,} images to learn from, {len(test):,} to test with\n")
    taken = epochs(asked.rounds, training)
    learned = list(lessons_learned(asked.seeds, training, test))
    targets = promises(learned, taken)
    tables = [accuracy_table(learned, asked.markdown)] if learned else []
    print(
        *(*tables, epoch_table(taken, len(training), asked.markdown), target_table(targets, asked.markdown)),
        sep="\n\n",
    )
    return int(asked.strict and not all(target.met for target in targets))


if __name__ == "__main__":
    sys.exit(main())
