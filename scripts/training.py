"""Train on MNIST with DDP: torchrun --standalone --nproc-per-node=2 scripts/training.py --checkpoint training.pt"""

import argparse
import os
import time
from contextlib import nullcontext
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from torch.optim.lr_scheduler import LambdaLR
from torch.utils.data import DataLoader, DistributedSampler, Subset
from torchvision import datasets, transforms

NUMBERS = {"samples": 60_000, "epochs": 3, "batch-size": 64, "accumulate": 1, "workers": 2, "seed": 0}


def parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    for name, default in {"data": "data", "checkpoint": "", **NUMBERS}.items():
        parser.add_argument(f"--{name}", type=type(default), default=default, help=f"(default: {default!r})")
    for name in ("plain", "bf16", "compile"):  # plain: no augmentation, no dropout
        parser.add_argument(f"--{name}", action="store_true")
    return parser.parse_args(arguments)


def join() -> torch.device:
    has_gpus = torch.cuda.device_count() >= int(os.environ["LOCAL_WORLD_SIZE"])  # one for each rank on this node
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"])) if has_gpus else torch.device("cpu")
    if has_gpus:
        torch.cuda.set_device(device)
    dist.init_process_group("nccl" if has_gpus else "gloo", device_id=device if has_gpus else None)
    return device


def loaders(asked: argparse.Namespace, device: torch.device) -> tuple[DistributedSampler[Any], Any, Any]:
    rank, ranks = dist.get_rank(), dist.get_world_size()
    steps = [transforms.ToTensor(), transforms.Normalize((0.1307,), (0.3081,))]
    moves = [] if asked.plain else [transforms.RandomAffine(degrees=10, translate=(0.1, 0.1))]
    train = Subset(datasets.MNIST(asked.data, True, transforms.Compose(moves + steps)), range(60_000)[: asked.samples])
    test = datasets.MNIST(asked.data, False, transforms.Compose(steps))
    mine = Subset(test, range(10_000)[: asked.samples][rank::ranks])  # a DistributedSampler would repeat some
    how: Any = {"num_workers": asked.workers, "pin_memory": device.type == "cuda"}
    sampler: DistributedSampler[Any] = DistributedSampler(train, seed=asked.seed)
    batches = DataLoader(train, asked.batch_size // ranks, sampler=sampler, drop_last=True, **how)
    return sampler, batches, DataLoader(mine, batch_size=500, **how)


def network(asked: argparse.Namespace) -> nn.Module:
    layers = nn.Conv2d(1, 16, 5, stride=2, padding=2), nn.ReLU(), nn.Conv2d(16, 32, 3, stride=2, padding=1), nn.ReLU()
    dropout = nn.Dropout(0.0 if asked.plain else 0.1)
    return nn.Sequential(*layers, nn.Flatten(), dropout, nn.Linear(1568, 64), nn.ReLU(), nn.Linear(64, 10))


def train_step(model: Any, optimizer: Any, scheduler: Any, batch: list[Tensor], asked: argparse.Namespace) -> Tensor:
    parts = list(zip(*(tensor.chunk(asked.accumulate) for tensor in batch), strict=True))  # micro-batches
    total = torch.zeros((), device=batch[0].device)
    for number, (images, labels) in enumerate(parts, start=1):
        with nullcontext() if number == len(parts) else model.no_sync():  # the last one averages the sum of all
            with torch.autocast(images.device.type, torch.bfloat16, enabled=asked.bf16):
                loss = nn.functional.cross_entropy(model(images), labels)
            (loss / len(parts)).backward()
        total += loss.detach() * len(labels)
    nn.utils.clip_grad_norm_(model.parameters(), max_norm=1.0)  # after averaging, so all ranks clip alike
    optimizer.step()
    scheduler.step()  # it counts optimizer steps
    optimizer.zero_grad()
    return total


@torch.no_grad()
def evaluate(net: nn.Module, batches: Any, device: torch.device) -> Tensor:
    net.eval()
    correct = [(net(images.to(device)).argmax(dim=1) == labels.to(device)).sum() for images, labels in batches]
    net.train()
    return sum(correct, start=torch.zeros((), device=device))


def save(path: str, epoch: int, **parts: Any) -> None:
    if path and dist.get_rank() == 0:
        torch.save({"epoch": epoch, **{name: part.state_dict() for name, part in parts.items()}}, f"{path}.new")
        os.replace(f"{path}.new", path)  # atomic: the last good file stays until the new one is complete


def load(path: str, **parts: Any) -> int:
    if not os.path.isfile(path):
        return 0
    saved = torch.load(path, map_location="cpu", weights_only=True)  # else all ranks load onto rank 0's GPU
    for name, part in parts.items():
        part.load_state_dict(saved[name])
    return int(saved["epoch"])


def main(arguments: list[str] | None = None) -> nn.Module:
    asked, device = parse(arguments), join()
    if asked.batch_size % (dist.get_world_size() * asked.accumulate) or asked.batch_size > asked.samples:
        raise SystemExit("--batch-size must be a multiple of ranks x --accumulate, and at most --samples")
    torch.manual_seed(asked.seed)  # the same initial weights, whatever the number of ranks
    net = network(asked).to(device)
    if asked.compile:
        net.compile()  # in place, so the names in the checkpoint stay
    model = DistributedDataParallel(net, gradient_as_bucket_view=True)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
    sampler, batches, test = loaders(asked, device)
    steps = asked.epochs * len(batches)
    warm_up = max(1, steps // 10)
    scheduler = LambdaLR(optimizer, lambda step: max(0.0, min((step + 1) / warm_up, 1 - step / steps)))
    parts = {"model": net, "optimizer": optimizer, "scheduler": scheduler}  # net has no "module." in its names
    for epoch in range(load(asked.checkpoint, **parts), asked.epochs):
        began, loss = time.perf_counter(), torch.zeros((), device=device)
        sampler.set_epoch(epoch)  # a new order
        torch.manual_seed(asked.seed + 1 + epoch * dist.get_world_size() + dist.get_rank())
        for batch in batches:
            batch = [tensor.to(device, non_blocking=True) for tensor in batch]
            loss += train_step(model, optimizer, scheduler, batch, asked)
        mine = [loss.item(), len(batches) * batches.batch_size]  # item() waits for the GPU
        seconds = time.perf_counter() - began
        sums = torch.tensor([*mine, evaluate(net, test, device).item(), len(test.dataset)], device=device)
        dist.all_reduce(sums)  # all sums in one call
        save(asked.checkpoint, epoch + 1, **parts)
        if dist.get_rank() == 0:
            total, seen, correct, tested = sums.tolist()
            result = f"loss {total / seen:.4f}, {correct:.0f} of {tested:.0f} test images correct"
            print(f"epoch {epoch + 1}: {result}, {seen / seconds:.0f} images/s", flush=True)
    dist.destroy_process_group()
    return net


if __name__ == "__main__":
    main()
