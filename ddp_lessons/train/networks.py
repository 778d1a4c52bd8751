"""Two networks for digits of 28 x 28 pixels: that of the classic PyTorch example, and one that learns faster.

Both end in log_softmax, so their loss is `nll_loss`. On raw outputs `nll_loss` falls without bound, the model learns
nothing, and no error is raised.
"""

from __future__ import annotations

from typing import cast

from torch import nn

from ddp_lessons.train.small_ddp import Overlapped


class Net(nn.Sequential):
    """Two convolutions and two linear layers, with dropout: 21,840 parameters."""

    def __init__(self) -> None:
        super().__init__(
            *(nn.Conv2d(1, 10, kernel_size=5), nn.MaxPool2d(2), nn.ReLU()),  # [n, 10, 12, 12]
            *(nn.Conv2d(10, 20, kernel_size=5), nn.Dropout2d(), nn.MaxPool2d(2), nn.ReLU()),  # [n, 20, 4, 4]
            *(nn.Flatten(), nn.Linear(320, 50), nn.ReLU(), nn.Dropout()),
            *(nn.Linear(50, 10), nn.LogSoftmax(dim=1)),
        )


class QuickNet(nn.Sequential):
    """Convolutions with stride 2, so there is less to compute, and no dropout, which would slow down learning."""

    def __init__(self) -> None:
        super().__init__(
            *(nn.Conv2d(1, 16, kernel_size=5, stride=2, padding=2), nn.ReLU()),  # [n, 16, 14, 14]
            *(nn.Conv2d(16, 32, kernel_size=3, stride=2, padding=1), nn.ReLU()),  # [n, 32, 7, 7]
            *(nn.Flatten(), nn.Linear(1568, 64), nn.ReLU()),
            *(nn.Linear(64, 10), nn.LogSoftmax(dim=1)),
        )


def unwrapped(model: nn.Module) -> nn.Module:
    """Return the model inside a wrapper such as DistributedDataParallel, or the model itself."""
    wrappers = (nn.parallel.DistributedDataParallel, nn.DataParallel, Overlapped)
    return cast(nn.Module, model.module) if isinstance(model, wrappers) else model
