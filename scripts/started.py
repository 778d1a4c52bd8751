"""Train a network to recognize digits on several ranks, which torchrun starts.

torchrun --standalone --nproc-per-node=2 scripts/started.py --epochs 3
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Sequence

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from ddp_lessons.train.arguments import NETWORKS, digits_of, need_starter, training_arguments
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


def main(arguments: Sequence[str] | None = None) -> None:
    parser = training_arguments(__doc__)
    asked = parser.parse_args(arguments)
    need_starter(parser)
    dist.init_process_group(backend_for(int(os.environ["WORLD_SIZE"])))  # torchrun sets it, the rank and the address
    train(dist.get_rank(), dist.get_world_size(), asked)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
