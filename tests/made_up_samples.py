"""Small made-up data of the shape that the training code expects: `.images` and `.labels` in memory."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Samples:
    images: Tensor
    labels: Tensor

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        return self.images[index], int(self.labels[index])


def made_up(count: int, *shape: int, classes: int = 3, dtype: torch.dtype = torch.float64, seed: int = 1) -> Samples:
    generator = torch.Generator().manual_seed(seed)
    images = torch.randn(count, *shape, generator=generator, dtype=dtype)
    return Samples(images, torch.randint(classes, (count,), generator=generator))
