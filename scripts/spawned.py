"""Train a network to recognize digits on several ranks, which this script starts itself.

python scripts/spawned.py --ranks 2 --epochs 3
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Sequence

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch.nn.parallel import DistributedDataParallel

from ddp_lessons.train.arguments import NETWORKS, at_least_one, digits_of, training_arguments
from ddp_lessons.train.devices import backend_for, device_of_this_rank
from ddp_lessons.train.evaluation import evaluate
from ddp_lessons.train.loops import train_with_ddp
from ddp_lessons.train.sampling import GlobalBatches


def train(rank: int, world_size: int, asked: argparse.Namespace) -> float:
    """Return the accuracy, the same on all ranks."""
    training, test = digits_of(asked)
    device = device_of_this_rank()  # its own GPU, if there is one for each rank
    torch.manual_seed(asked.seed)
    model = DistributedDataParallel(NETWORKS[asked.network]().to(device))
    torch.manual_seed(rank)  # the weights are equal now; from here on, each rank has its own dropout
    optimizer = torch.optim.SGD(model.parameters(), lr=asked.learning_rate, momentum=0.5)
    batches = GlobalBatches(training, asked.batch_size, device=device)
    for epoch in range(asked.epochs):
        began = time.perf_counter()
        losses = train_with_ddp(model, batches, optimizer, epoch)
        speed = len(batches) / (time.perf_counter() - began)
        mean = sum(losses) / len(losses)
        if rank == 0:
            print(f"epoch {epoch + 1} of {asked.epochs}: loss {mean:.4f}, {speed:.1f} steps per second", flush=True)
    accuracy = evaluate(model, test)
    if rank == 0:
        print(f"recognizes {accuracy:.2%} of {len(test):,} digits", flush=True)
        if asked.save:
            torch.save(model.module.state_dict(), asked.save)  # names without the wrapper's prefix
    return accuracy


def run(rank: int, asked: argparse.Namespace, meeting: str) -> None:
    # Otherwise, each rank would use all cores.
    torch.set_num_threads(max(1, torch.get_num_threads() // asked.ranks))
    where = f"file://{meeting}"
    dist.init_process_group(backend_for(asked.ranks), init_method=where, rank=rank, world_size=asked.ranks)
    train(rank, asked.ranks, asked)
    dist.destroy_process_group()


def main(arguments: Sequence[str] | None = None) -> None:
    parser = training_arguments(__doc__)
    parser.add_argument("--ranks", type=at_least_one, default=2, metavar="N", help="number of processes (2)")
    asked = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        mp.spawn(run, args=(asked, os.path.join(folder, "meeting")), nprocs=asked.ranks)  # type: ignore[attr-defined, no-untyped-call, unused-ignore]


if __name__ == "__main__":
    main()
