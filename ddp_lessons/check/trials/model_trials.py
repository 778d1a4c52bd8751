"""Trials in which each rank is given a model after backward(): the same weights everywhere, different gradients."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
from torch import Tensor, nn

from ddp_lessons.check.judging.exercise_trials import Trial

SAMPLES = 3


class Network(nn.Module):
    """Linear layers of these widths; `has_more` adds one that the loss does not use, and freezes a bias."""

    def __init__(self, widths: tuple[int, ...], dtype: torch.dtype, has_more: bool) -> None:
        super().__init__()
        pairs = itertools.pairwise(widths)
        self.layers = nn.ModuleList(nn.Linear(*pair, dtype=dtype) for pair in pairs)
        if has_more:
            self.unused = nn.Linear(3, 2, dtype=dtype)
            self.layers[0].bias.requires_grad_(False)

    def forward(self, inputs: Tensor) -> Tensor:
        for layer in self.layers:
            inputs = torch.tanh(layer(inputs))
        return inputs


@dataclass(frozen=True)
class Snapshot:
    """The tensors of a model at one moment, by parameter name."""

    weights: dict[str, Tensor]
    gradients: dict[str, Tensor | None]

    @classmethod
    def of(cls, model: nn.Module) -> Snapshot:
        named = dict(model.named_parameters())
        gradients = {name: None if one.grad is None else one.grad.detach().clone() for name, one in named.items()}
        return cls({name: one.detach().clone() for name, one in named.items()}, gradients)

    @property
    def flat_gradients(self) -> Tensor:
        return torch.cat([gradient.flatten() for gradient in self.gradients.values() if gradient is not None])


@dataclass(frozen=True)
class ModelTrial(Trial):
    """`shape` holds the widths of the layers."""

    has_more: bool = False
    without_effect: int | None = None  # a rank whose gradients are all zero, as after a dead ReLU

    def samples(self, rank: int) -> int:
        """The number of samples behind this rank's gradients, which is their weight."""
        return 1

    def model(self, rank: int) -> nn.Module:
        """After backward(): the weights depend only on the seed, the data also on the rank."""
        dtype = getattr(torch, self.dtype)
        with torch.random.fork_rng(devices=[]):  # leave the notebook's random state unchanged
            model = Network(self.shape, dtype, self.has_more)
        common, own = (torch.Generator().manual_seed(1000 * self.seed + number) for number in (999, rank))
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.copy_(0.5 * torch.randn(parameter.shape, generator=common))
        inputs = torch.randn(SAMPLES, self.shape[0], generator=own).to(dtype)
        (model(inputs).square().sum() * (rank != self.without_effect)).backward()
        return model

    @cache  # noqa: B019  trials live as long as the module, and every number of a check is compared with these
    def before(self, rank: int) -> Snapshot:
        return Snapshot.of(self.model(rank))

    def tensor(self, rank: int) -> Tensor:
        """All gradients in one row: the data to communicate."""
        return self.before(rank).flat_gradients

    def arguments(self, rank: int) -> tuple[Any, ...]:
        return (self.model(rank),)

    def afterwards(self, arguments: tuple[Any, ...]) -> Snapshot:
        return Snapshot.of(arguments[0])

    def is_unchanged(self, rank: int, afterwards: Any) -> bool:
        before = self.before(rank)
        return same(afterwards.weights, before.weights) and same(afterwards.gradients, before.gradients)

    def named(self, rank: int) -> str:
        layers = len(self.shape) - 1
        return f"a model of {layers} {'layer' if layers == 1 else 'layers'}, {self.dtype}"


def same(one: dict[str, Any], other: dict[str, Any]) -> bool:
    return one.keys() == other.keys() and all(is_close(one[name], other[name]) for name in one)


def is_close(one: Tensor | None, other: Tensor | None, tolerance: float = 1e-5) -> bool:
    """Up to the rounding of a different order of summation."""
    if one is None or other is None:
        return one is other
    if one.shape != other.shape:
        return False
    largest = float(other.abs().max()) if other.numel() else 0.0
    return torch.allclose(one.double(), other.double(), rtol=0.0, atol=tolerance * largest)
