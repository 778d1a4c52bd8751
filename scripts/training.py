"""Train a small network on MNIST: python train.py --data FOLDER"""

import argparse
import os
from contextlib import nullcontext

import torch
from torch import distributed as dist, nn
from torch.utils.data import DataLoader, DistributedSampler, Subset
from torchvision import datasets, transforms


def join():
    has_gpus = torch.cuda.device_count() >= int(os.environ["LOCAL_WORLD_SIZE"])  # one for each rank of this machine
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"])) if has_gpus else torch.device("cpu")
    dist.init_process_group("nccl" if has_gpus else "gloo", device_id=device if has_gpus else None)
    return device


def train_loader(train_set, epoch, args):
    sampler = DistributedSampler(train_set, seed=0)
    sampler.set_epoch(epoch)  # another order in each epoch
    return DataLoader(train_set, 64 // dist.get_world_size(), sampler=sampler, drop_last=True)


def loss_of(model, images, labels, args):
    with torch.autocast(images.device.type, torch.bfloat16, enabled=bool(args.bf16)):
        return nn.functional.cross_entropy(model(images), labels)


def backward(model, images, labels, args):
    parts = list(zip(images.chunk(args.accumulate), labels.chunk(args.accumulate), strict=True))
    for number, (images, labels) in enumerate(parts, start=1):
        with nullcontext() if number == len(parts) else model.no_sync():  # only the last part communicates
            (loss_of(model, images, labels, args) / len(parts)).backward()


@torch.no_grad()
def evaluate(net, test_set, device):
    subset = Subset(test_set, range(dist.get_rank(), len(test_set), dist.get_world_size()))
    counts = torch.zeros(2, device=device)  # correct, tested
    for images, labels in DataLoader(subset, 500):
        is_correct = net(images.to(device)).argmax(dim=1) == labels.to(device)
        counts += torch.tensor([is_correct.sum(), len(is_correct)], device=device)
    dist.all_reduce(counts)
    return counts.tolist()


def save(path, epoch, parts):
    if path and dist.get_rank() == 0:
        torch.save({"epoch": epoch} | {name: part.state_dict() for name, part in parts.items()}, f"{path}.new")
        os.replace(f"{path}.new", path)  # atomic: path always names a complete file


def load(path, parts):
    saved = torch.load(path, map_location="cpu", weights_only=True)
    for name, part in parts.items():
        part.load_state_dict(saved[name])
    return saved["epoch"]


def main():
    parser = argparse.ArgumentParser()
    for key, value in {"data": "data", "checkpoint": "", "epochs": 1, "accumulate": 1, "bf16": 0, "compile": 0}.items():
        parser.add_argument(f"--{key}", type=type(value), default=value)
    args, device = parser.parse_args(), join()
    torch.manual_seed(0)
    net = nn.Sequential(nn.Flatten(), nn.Linear(784, 64), nn.ReLU(), nn.Linear(64, 10)).to(device)
    net.compile(disable=not args.compile)
    model = nn.parallel.DistributedDataParallel(net)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
    train_set = Subset(datasets.MNIST(args.data, True, transforms.ToTensor()), range(1_920))
    test_set = Subset(datasets.MNIST(args.data, False, transforms.ToTensor()), range(1_001))
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, args.epochs * (len(train_set) // 64))
    parts = {"model": net, "optimizer": optimizer, "schedule": schedule}
    for epoch in range(load(args.checkpoint, parts) if os.path.isfile(args.checkpoint) else 0, args.epochs):
        for images, labels in train_loader(train_set, epoch, args):
            backward(model, images.to(device), labels.to(device), args)
            nn.utils.clip_grad_norm_(model.parameters(), max_norm=1.0)
            optimizer.step()
            schedule.step()
            optimizer.zero_grad()
        correct, tested = evaluate(net, test_set, device)
        save(args.checkpoint, epoch + 1, parts)
        if dist.get_rank() == 0:
            print(f"epoch {epoch + 1}: {correct:.0f} of {tested:.0f} test images correct", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
