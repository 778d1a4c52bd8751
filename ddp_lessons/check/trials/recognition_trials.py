"""Trials in which each rank is given a model and test samples, and the model records what it is shown."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import Dataset

from ddp_lessons.check.judging.exercise_trials import Trial

_CLASSES, _PIXELS = 10, 28 * 28


@dataclass(frozen=True)
class Tested:
    """What one rank's model was shown."""

    batches: Sequence[Sequence[int]]  # indices of samples
    in_training_mode: bool
    with_gradients: bool  # autograd was on
    is_in_training_mode_afterwards: bool
    is_frozen_afterwards: bool

    @property
    def all(self) -> list[int]:
        return [sample for batch in self.batches for sample in batch]


# Not in the model, because a learner may copy the model before using it.
_shown: list[tuple[list[int], bool, bool]] = []  # indices, in training mode, with gradients


class _Recognizer(nn.Module):
    """Dropout, and then a linear layer with a pattern for each class."""

    def __init__(self, patterns: Tensor) -> None:
        super().__init__()
        self.dropout = nn.Dropout(0.5)
        self.linear = nn.Linear(_PIXELS, _CLASSES, bias=False)
        with torch.no_grad():
            self.linear.weight.copy_(patterns / _PIXELS)
            self.linear.weight[:, 0] = 0.0

    def forward(self, images: Tensor) -> Tensor:
        rows = images.reshape(-1, _PIXELS)
        outputs = torch.log_softmax(self.linear(self.dropout(rows)), dim=1)
        _shown.append(([round(number) for number in rows[:, 0].tolist()], self.dropout.training, outputs.requires_grad))
        return outputs


class _Samples(Dataset[tuple[Tensor, int]]):
    """Images in memory, like `Digits`. The first pixel is the index of the image."""

    def __init__(self, images: Tensor, labels: Tensor) -> None:
        self.images, self.labels = images, labels

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        return self.images[index], int(self.labels[index])


@dataclass(frozen=True)
class TestTrial(Trial):
    """`shape` is the number of samples. All ranks are given the same ones."""

    __test__ = False  # not a test of pytest's
    begins_in_training_mode: bool = True

    @property
    def samples(self) -> int:
        return self.shape[0]

    @property
    def recognized(self) -> Tensor:
        """Which samples the model predicts correctly: some, and more of the later and even ones."""
        place = torch.arange(self.samples)
        chance = 0.4 + 0.4 * place / self.samples - 0.3 * (place % 2)
        right = torch.rand(self.samples, generator=self._generator(1)) < chance
        right[0], right[-1] = self.samples > 1, self.samples == 1
        return right

    @property
    def accuracy(self) -> float:
        return float(self.recognized.double().mean())

    def tensor(self, rank: int) -> Tensor:
        return self.recognized

    def arguments(self, rank: int) -> tuple[Any, ...]:
        torch.manual_seed(self.seed)  # for the dropout: the same report in every run
        patterns = torch.randint(0, 2, (_CLASSES, _PIXELS), generator=self._generator(2)) * 2.0 - 1
        seen = torch.randint(0, _CLASSES, (self.samples,), generator=self._generator(3))
        images = patterns[seen] + 0.5 * torch.randn(self.samples, _PIXELS, generator=self._generator(4))
        images[:, 0] = torch.arange(self.samples)
        labels = torch.where(self.recognized, seen, (seen + 1) % _CLASSES)
        with torch.random.fork_rng(devices=[]):
            model = _Recognizer(patterns)
        _shown.clear()
        return model.train(self.begins_in_training_mode), _Samples(images.view(-1, 1, 28, 28), labels)

    def afterwards(self, arguments: tuple[Any, ...]) -> Tested:
        model = arguments[0]
        return Tested(
            [numbers for numbers, _, _ in _shown],
            any(was for _, was, _ in _shown),
            any(kept for _, _, kept in _shown),
            model.dropout.training,
            not all(parameter.requires_grad for parameter in model.parameters()),
        )

    def is_unchanged(self, rank: int, afterwards: Any) -> bool:
        return True

    def named(self, rank: int) -> str:
        return f"{self.samples} {'sample' if self.samples == 1 else 'samples'}"

    def _generator(self, number: int) -> torch.Generator:
        return torch.Generator().manual_seed(10 * self.seed + number)
