"""Micro-batches for a small language model in DistributedDataParallel, and the sums behind any mean over them."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from ddp_lessons.check.judging.exercise_trials import Trial
from ddp_lessons.check.trials.model_trials import Snapshot, same
from ddp_lessons.run.diagnosis.wording import joined

_VOCABULARY, _WIDTH, _LENGTH, _PADDING = 16, 8, 6, -100
MicroBatch = tuple[Tensor, Tensor]


class LanguageModel(nn.Module):
    """Predict each next token from the current one."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(_VOCABULARY, _WIDTH, dtype=torch.float64)
        self.head = nn.Linear(_WIDTH, _VOCABULARY, dtype=torch.float64)

    def forward(self, tokens: Tensor) -> Tensor:
        logits: Tensor = self.head(torch.tanh(self.embedding(tokens)))
        return logits


@dataclass(frozen=True)
class Passes:
    """What a rank has after the learner's function."""

    after: Snapshot
    forwards: int  # how often the DDP model was called


@dataclass(frozen=True)
class TokensTrial(Trial):
    """`lengths[rank][micro_batch]` has the number of tokens of each sequence; further ranks begin again."""

    lengths: tuple[tuple[tuple[int, ...], ...], ...] = ()

    def micro_batches(self, rank: int) -> list[MicroBatch]:
        generator = torch.Generator().manual_seed(1000 * self.seed + rank)
        return [_micro_batch(sequences, generator) for sequences in self.lengths[rank % len(self.lengths)]]

    def tokens(self, rank: int) -> list[int]:
        """By micro-batch."""
        return [sum(sequences) for sequences in self.lengths[rank % len(self.lengths)]]

    def fill(self, model: nn.Module) -> None:
        """The weights of this trial, and no gradients."""
        generator = torch.Generator().manual_seed(1000 * self.seed + 999)
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.copy_(torch.randn(parameter.shape, generator=generator))
        model.zero_grad()

    def before(self) -> Snapshot:
        return Snapshot.of(_model_of(self))

    def tensor(self, rank: int) -> Tensor:
        """As much as one gradient."""
        return torch.cat([weight.flatten() for weight in self.before().weights.values()])

    def arguments(self, rank: int) -> tuple[Any, ...]:
        model = _replica()
        self.fill(model)
        model.forwards = 0
        return model, self.micro_batches(rank)

    def afterwards(self, arguments: tuple[Any, ...]) -> Passes:
        return Passes(Snapshot.of(arguments[0].module), arguments[0].forwards)

    def is_unchanged(self, rank: int, afterwards: Any) -> bool:
        before = self.before()
        return same(afterwards.after.weights, before.weights) and same(afterwards.after.gradients, before.gradients)

    def named(self, rank: int) -> str:
        tokens = self.tokens(rank)
        return f"{len(tokens)} micro-{'batch' if len(tokens) == 1 else 'batches'} of {joined(tokens)} tokens"


@functools.cache
def _replica() -> Any:
    """Inside a rank: one model for all trials, as in a training loop."""

    class Counted(nn.parallel.DistributedDataParallel):
        forwards = 0

        def forward(self, *inputs: Any, **more: Any) -> Any:
            self.forwards += 1
            return super().forward(*inputs, **more)  # type: ignore[no-untyped-call]

    return Counted(LanguageModel())


@functools.lru_cache(maxsize=32)
def _model_of(trial: TokensTrial) -> nn.Module:
    with torch.random.fork_rng(devices=[]):  # leave the notebook's random state unchanged
        model = LanguageModel()
    trial.fill(model)
    return model


def _micro_batch(lengths: tuple[int, ...], generator: torch.Generator) -> MicroBatch:
    text = torch.randint(_VOCABULARY, (len(lengths), _LENGTH + 1), generator=generator)
    is_padding = torch.arange(_LENGTH) >= torch.tensor(lengths)[:, None]
    return text[:, :-1].masked_fill(is_padding, 0), text[:, 1:].masked_fill(is_padding, _PADDING)


@dataclass(frozen=True)
class Sums:
    """The sums over the tokens of each micro-batch, by rank and by micro-batch."""

    losses: Tensor
    gradients: Tensor  # of all parameters, flat
    with_padding: Tensor  # the same if padding is a target like any other
    tokens: Tensor
    sequences: int  # of all
    places: int

    @property
    def world_size(self) -> int:
        return len(self.tokens)

    @property
    def micro_batches(self) -> int:
        return len(self.tokens[0])

    @property
    def all_tokens(self) -> int:
        return int(self.tokens.sum())

    @property
    def loss(self) -> float:
        """The right one."""
        return float(self.losses.sum() / self.all_tokens)

    @property
    def gradient(self) -> Tensor:
        """The right one."""
        return self.averaged(self.world_size / self.all_tokens)

    def averaged(self, factors: Tensor | float) -> Tensor:
        """What DDP gives if the summed loss of each micro-batch is multiplied by its factor."""
        factors = torch.as_tensor(factors).expand_as(self.tokens)
        return (factors[..., None] * self.gradients).sum((0, 1)) / self.world_size


@functools.lru_cache(maxsize=64)
def sums_of(trial: TokensTrial, world_size: int) -> Sums:
    model = _model_of(trial)
    parameters = list(model.parameters())

    def of(tokens: Tensor, targets: Tensor) -> Tensor:
        """The loss, and then the gradient."""
        loss = functional.cross_entropy(model(tokens).flatten(0, 1), targets.flatten(), reduction="sum")
        return torch.cat([one.flatten() for one in (loss.detach(), *torch.autograd.grad(loss, parameters))])

    given = [trial.micro_batches(rank) for rank in range(world_size)]
    sums = torch.stack([torch.stack([of(*one) for one in mine]) for mine in given])
    whole = torch.stack([torch.stack([of(one, two.clamp(min=0)) for one, two in mine]) for mine in given])
    targets = [targets for mine in given for _, targets in mine]
    return Sums(
        losses=sums[..., 0],
        gradients=sums[..., 1:],
        with_padding=whole[..., 1:],
        tokens=torch.tensor([trial.tokens(rank) for rank in range(world_size)]),
        sequences=sum(map(len, targets)),
        places=sum(one.numel() for one in targets),
    )
