"""Train a network to recognize digits on several machines, any of which may be lost, except the rendezvous host.

On each machine, where 10.0.0.1 is the rendezvous host:

    export TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1
    torchrun --nnodes=1:2 --nproc-per-node=2 --max-restarts=3 --rdzv-backend=c10d --rdzv-endpoint=10.0.0.1:29500 \\
        scripts/many_machines.py --checkpoint training.pt

Without the first line, torch 2.15 doesn't tell a machine that joins later or returns where the store is, and after a
minute all machines give up.
"""

from __future__ import annotations

import argparse
import os
import platform
import time
from collections.abc import Sequence
from datetime import timedelta

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from ddp_lessons.train.arguments import NETWORKS, above_zero, digits_of, file_to_write, need_starter, training_arguments
from ddp_lessons.train.checkpoints import load_newest, save_checkpoint
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
    first_epoch = load_newest(asked.checkpoint, model, optimizer)  # from whichever machine has it
    if rank == 0:
        print(f"begins with epoch {first_epoch + 1}, on {world_size} ranks", flush=True)
    for epoch in range(first_epoch, asked.epochs):
        began = time.perf_counter()
        losses = train_with_ddp(model, batches, optimizer, epoch)
        speed = len(batches) / (time.perf_counter() - began)
        save_checkpoint(asked.checkpoint, model, optimizer, epoch + 1, on_each_machine=True)
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
    parser.add_argument("--checkpoint", type=file_to_write, required=True, metavar="FILE", help="file to resume from")
    parser.add_argument("--timeout", type=above_zero, default=300, metavar="SECONDS", help="longest wait (300)")
    asked = parser.parse_args(arguments)
    need_starter(parser)
    # A machine that is cut off sends nothing, so without a timeout, the others would wait for it forever.
    dist.init_process_group(backend_for(int(os.environ["WORLD_SIZE"])), timeout=timedelta(seconds=asked.timeout))
    told = f"rank {dist.get_rank()} of {dist.get_world_size()} is process {os.getpid()}"
    print(f"{told} on {platform.node()}\n", end="", flush=True)  # with "\n" in the string, printed in one piece
    train(dist.get_rank(), dist.get_world_size(), asked)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
