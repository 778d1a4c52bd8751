"""A training run that you can kill at any moment, and that resumes when you start it again."""

from __future__ import annotations

import os
from collections.abc import Callable

from torch import nn
from torch.optim import Optimizer

from ddp_lessons.train.checkpoints import load_checkpoint, save_checkpoint


def train_restartably(
    model: nn.Module, optimizer: Optimizer, train_epoch: Callable[[int], object], epochs: int, path: str
) -> None:
    """Call `train_epoch(epoch)` for the epochs that aren't finished, according to the file at `path`."""
    first_epoch = load_checkpoint(path, model, optimizer) if os.path.isfile(path) else 0
    for epoch in range(first_epoch, epochs):
        train_epoch(epoch)
        save_checkpoint(path, model, optimizer, epoch + 1)  # how many are done, so where to resume
