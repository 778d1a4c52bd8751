"""Train a small network on MNIST: python train.py --data FOLDER"""

import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader, Subset
from torchvision import datasets, transforms


def train_loader(train_set, epoch, args):
    return DataLoader(train_set, 64, shuffle=True, drop_last=True)


def loss_of(model, images, labels, args):
    return nn.functional.cross_entropy(model(images), labels)


def backward(model, images, labels, args):
    loss_of(model, images, labels, args).backward()


@torch.no_grad()
def evaluate(net, test_set, device):
    counts = torch.zeros(2, device=device)  # correct, tested
    for images, labels in DataLoader(test_set, 500):
        is_correct = net(images.to(device)).argmax(dim=1) == labels.to(device)
        counts += torch.tensor([is_correct.sum(), len(is_correct)], device=device)
    return counts.tolist()


def main():
    parser = argparse.ArgumentParser()
    for key, value in {"data": "data", "checkpoint": "", "epochs": 1, "accumulate": 1, "bf16": 0, "compile": 0}.items():
        parser.add_argument(f"--{key}", type=type(value), default=value)
    args, device = parser.parse_args(), torch.device("cpu")
    torch.manual_seed(0)
    net = nn.Sequential(nn.Flatten(), nn.Linear(784, 64), nn.ReLU(), nn.Linear(64, 10)).to(device)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
    train_set = Subset(datasets.MNIST(args.data, True, transforms.ToTensor()), range(1_920))
    test_set = Subset(datasets.MNIST(args.data, False, transforms.ToTensor()), range(1_001))
    for epoch in range(args.epochs):
        for images, labels in train_loader(train_set, epoch, args):
            backward(net, images.to(device), labels.to(device), args)
            optimizer.step()
            optimizer.zero_grad()
        correct, tested = evaluate(net, test_set, device)
        print(f"epoch {epoch + 1}: {correct:.0f} of {tested:.0f} test images correct", flush=True)


if __name__ == "__main__":
    main()
