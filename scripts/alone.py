"""Train a network to recognize digits, in one process.

python scripts/alone.py --epochs 3
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence

import torch

from ddp_lessons.train.arguments import NETWORKS, digits_of, training_arguments
from ddp_lessons.train.devices import device_of_this_rank
from ddp_lessons.train.evaluation import evaluate
from ddp_lessons.train.loops import train_alone
from ddp_lessons.train.sampling import GlobalBatches


def train(asked: argparse.Namespace) -> float:
    """Return the accuracy."""
    training, test = digits_of(asked)
    device = device_of_this_rank()  # a GPU, if there is one
    torch.manual_seed(asked.seed)
    model = NETWORKS[asked.network]().to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=asked.learning_rate, momentum=0.5)
    batches = GlobalBatches(training, asked.batch_size, device=device)
    for epoch in range(asked.epochs):
        began = time.perf_counter()
        losses = train_alone(model, batches, optimizer, epoch)
        speed = len(batches) / (time.perf_counter() - began)
        mean = sum(losses) / len(losses)
        print(f"epoch {epoch + 1} of {asked.epochs}: loss {mean:.4f}, {speed:.1f} steps per second", flush=True)
    accuracy = evaluate(model, test)
    print(f"recognizes {accuracy:.2%} of {len(test):,} digits", flush=True)
    if asked.save:
        torch.save(model.state_dict(), asked.save)
    return accuracy


def main(arguments: Sequence[str] | None = None) -> None:
    parser = training_arguments(__doc__)
    asked = parser.parse_args(arguments)
    train(asked)


if __name__ == "__main__":
    main()
