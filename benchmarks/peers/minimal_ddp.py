"""A minimal script in the style of PyTorch's tutorial: DDP, a DataLoader with a DistributedSampler, and nothing else.

Data, network and the final count are those of scripts/training.py, so that only the training loops are compared.
With --clip, it also clips the gradients, as scripts/training.py does. With --trainer, the loop is that of the tutorial
itself, out of the file that is named; it runs on the CPU.
"""

import argparse
import importlib.util
import os
import sys
import time
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler

from scripts import training


def train_epoch(model: nn.Module, batches: Any, optimizer: Any, epoch: int, clips: bool) -> None:
    batches.sampler.set_epoch(epoch)
    for images, labels in batches:
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(images), labels).backward()
        if clips:
            nn.utils.clip_grad_norm_(model.parameters(), max_norm=1.0)
        optimizer.step()


def own_loop(net: nn.Module, batches: Any, optimizer: Any, clips: bool) -> Callable[[int], None]:
    model = DistributedDataParallel(net)
    return lambda epoch: train_epoch(model, batches, optimizer, epoch, clips)


def loop_of_the_tutorial(path: str, net: Any, batches: Any, optimizer: Any) -> Callable[[int], None]:
    """Its Trainer is written for GPUs: here its model stays where it is, and its device is the CPU."""
    sys.path.insert(0, os.path.dirname(path))  # it imports a file beside it
    found: Any = importlib.util.spec_from_file_location("tutorial", path)
    theirs: Any = importlib.util.module_from_spec(found)
    found.loader.exec_module(theirs)
    theirs.DDP = lambda model, device_ids: DistributedDataParallel(model)
    net.to = lambda device: net
    trainer = theirs.Trainer(net, batches, optimizer, 1, "")
    trainer.gpu_id = torch.device("cpu")
    run: Callable[[int], None] = trainer._run_epoch
    return run


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trainer", default="")
    parser.add_argument("--clip", action="store_true")
    own, others = parser.parse_known_args()
    asked = training.parse(others)
    dist.init_process_group("gloo")
    rank, ranks = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(asked.seed)
    net = training.network(asked)
    _, train, test = training.loaders(asked, torch.device("cpu"))
    data = train.dataset
    batches = DataLoader(
        data, asked.batch_size // ranks, sampler=DistributedSampler(data), num_workers=asked.workers, drop_last=True
    )
    optimizer = torch.optim.SGD(net.parameters(), lr=0.02, momentum=0.9)
    theirs = own.trainer and loop_of_the_tutorial(own.trainer, net, batches, optimizer)
    loop = theirs or own_loop(net, batches, optimizer, own.clip)
    for epoch in range(asked.epochs):
        began = time.perf_counter()
        loop(epoch)
        seconds = time.perf_counter() - began
        counts = torch.tensor([training.evaluate(net, test, torch.device("cpu")).item(), len(test.dataset)])
        dist.all_reduce(counts)
        if rank == 0:
            correct, tested = counts.tolist()
            speed = len(batches) * asked.batch_size / seconds
            print(f"epoch {epoch + 1}: {correct:.0f} of {tested:.0f} test images correct, {speed:.0f} images/s")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
