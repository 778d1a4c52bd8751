"""Averaging gradients by hand, lesson 5."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from ddp_lessons.check.exercise import Exercise, Fields, Mistake, Program, Trial
from ddp_lessons.train import gradients

# one before the sum and one after it, from this rank's samples, those of all ranks, and the number of ranks
Factors = Callable[[int, int, int], tuple[float, float]]


class _Network(nn.Module):
    """Linear layers of these widths; `has_more` adds one that the loss does not use, and freezes a bias."""

    def __init__(self, widths: tuple[int, ...], dtype: torch.dtype, has_more: bool) -> None:
        super().__init__()
        self.layers: Any = nn.ModuleList(nn.Linear(*pair, dtype=dtype) for pair in itertools.pairwise(widths))
        if has_more:
            self.unused = nn.Linear(3, 2, dtype=dtype)
            self.layers[0].bias.requires_grad_(False)

    def forward(self, inputs: Tensor) -> Tensor:
        for layer in self.layers:
            inputs = torch.tanh(layer(inputs))
        return inputs


def _after_backward(
    rank: int,
    world_size: int,
    chance: torch.Generator,
    widths: tuple[int, ...] = (4, 3),
    dtype: str = "float32",
    has_more: bool = False,
    counts: tuple[int, ...] = (3, 5, 1, 2),
) -> tuple[nn.Module, int]:
    """A model with the same weights on all ranks, after backward() of the mean loss over this rank's samples."""
    model = _Network(widths, getattr(torch, dtype), has_more)
    common = torch.Generator().manual_seed(len(widths))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(0.5 * torch.randn(parameter.shape, generator=common))
    samples = counts[rank % len(counts)]
    # every rank's data is different, so that none is typical
    inputs = torch.randn(samples, widths[0], generator=chance) + rank / 2
    # over no samples the mean is nan, and its gradients are zeros
    model(inputs.to(getattr(torch, dtype))).square().sum(1).mean().backward()
    return model, samples


def _model_only(*drawn: Any, **more: Any) -> tuple[nn.Module]:
    return _after_backward(*drawn, **more)[:1]


def state_of(model: nn.Module) -> Fields:
    named = dict(model.named_parameters())
    weights = {"weights": [parameter.detach() for parameter in named.values()]}
    having = ", ".join(name for name, parameter in named.items() if parameter.grad is not None)
    gradients = {f"gradient of {name}": parameter.grad for name, parameter in named.items()}
    return {**weights, "parameters with a gradient": having or "none", **gradients}


def gradients_after(program: Program, model: nn.Module, *more: Any) -> Fields:
    program(model, *more)
    return state_of(model)


def _scaled(model: nn.Module, samples: int = 1, *, by: Factors, skipped: str = "nothing") -> None:
    total = torch.tensor(samples)
    dist.all_reduce(total)
    before, after = by(samples, int(total), dist.get_world_size())
    for name, parameter in model.named_parameters():
        if parameter.grad is not None and not name.endswith(skipped):
            parameter.grad *= before
            dist.all_reduce(parameter.grad)
            parameter.grad *= after


def _on_copies(model: nn.Module, samples: int = 1, kept_on: int | None = None) -> None:
    total = torch.tensor(samples)
    dist.all_reduce(total)
    for parameter in model.parameters():
        if parameter.grad is not None:
            gradient = parameter.grad * samples
            dist.all_reduce(gradient)
            if dist.get_rank() == kept_on:
                parameter.grad = gradient / total


_HINTS = {
    "weights": "Your function changes the weights. Average param.grad, and leave the update to the optimizer.",
    "parameters": "On rank {rank}, some parameters have gained or lost a gradient. Skip parameters whose grad is "
    "None, and write the mean to the grad of the others. Note that all_reduce() works in place and returns None.",
}
_UNCHANGED = Mistake(_on_copies, "The gradients of rank {rank} do not change. Write the mean to param.grad.")

average_gradients = Exercise(
    """Check `function(model)`, which replaces each gradient by its mean over the ranks after backward().

    The models have the same weights on all ranks, which must not change, but different gradients. A parameter without a
    gradient has none on any rank, and must not get one. The return value is ignored. You may use collectives and
    messages. With only one rank, the gradients stay as they are.
    """,
    solution=gradients.average_gradients,
    call=gradients_after,
    tolerance=1e-5,
    trials=[
        Trial(_model_only),
        Trial(_model_only, "the next model"),
        Trial(partial(_model_only, widths=(5, 4, 3, 2)), "a model with three layers", largest_world=4),
        Trial(partial(_model_only, widths=(4, 3, 2), dtype="float64"), "another dtype (float64)", largest_world=3),
        Trial(partial(_model_only, has_more=True), "a model in which some parameters have no gradient"),
        Trial(partial(_model_only, counts=(3, 0, 2)), "a model whose gradients are zero on one rank", smallest_world=2),
    ],
    hints={
        **_HINTS,
        "gradient": "On rank {rank}, a gradient is not the mean over the ranks. On every rank, sum the gradients "
        "over all ranks, including zeros, and divide by the number of ranks.",
    },
    mistakes=[
        _UNCHANGED,
        Mistake(
            partial(_scaled, by=lambda own, total, ranks: (1, 1)),
            "Each gradient is the sum over the ranks. Divide it in place: param.grad /= world_size.",
        ),
        Mistake(
            partial(_scaled, by=lambda own, total, ranks: (1, ranks**-2)),
            "The gradients are divided by world_size twice. Divide only once.",
        ),
        Mistake(
            partial(_scaled, by=lambda own, total, ranks: (1, 1 / 2)),
            "The gradients are divided by 2. Divide by world_size instead.",
        ),
        Mistake(
            partial(_scaled, by=lambda own, total, ranks: (dist.get_rank() == 0, 1)),
            "Every rank ends up with the gradients of rank 0. Average the gradients of all ranks.",
        ),
        Mistake(partial(_on_copies, kept_on=0), "Only rank 0 has the mean. Write it to param.grad on every rank."),
        Mistake(
            partial(_scaled, by=lambda own, total, ranks: (1, 1 / ranks), skipped="bias"),
            "The gradients of the biases are not averaged. Average the gradients of all parameters, including the "
            "biases.",
        ),
    ],
)

weighted_average = Exercise(
    """Check `function(model, samples)`, which averages gradients over ranks with different numbers of samples.

    Afterwards, every gradient is the mean over the samples of all ranks, so a rank with more samples counts more. The
    numbers of samples differ, and some (but never all) are 0; the gradients of such a rank don't count. Weights must
    not change, and parameters without a gradient must not get one. The return value is ignored. You may use collectives
    and messages. With only one rank, the gradients stay as they are.
    """,
    solution=gradients.weighted_average,
    call=gradients_after,
    tolerance=1e-5,
    world_sizes=(2, 3, 4, 1),
    trials=[
        Trial(_after_backward),
        Trial(partial(_after_backward, counts=(1, 5, 2)), "the next model"),
        Trial(partial(_after_backward, widths=(5, 4, 3, 2), counts=(2, 3)), "a model with three layers"),
        Trial(partial(_after_backward, widths=(4, 3, 2), dtype="float64"), "another dtype (float64)"),
        Trial(partial(_after_backward, has_more=True), "a model in which some parameters have no gradient"),
        Trial(partial(_after_backward, counts=(1, 700, 20)), "very different numbers of samples"),
        Trial(partial(_after_backward, widths=(4, 3, 2), counts=(2, 0, 5)), "ranks without samples", smallest_world=2),
        Trial(partial(_after_backward, counts=(0, 4, 3)), "ranks without samples", smallest_world=2),
    ],
    hints={
        **_HINTS,
        "gradient": "On rank {rank}, a gradient is not the mean over the samples of all ranks. Multiply it by this "
        "rank's count, sum the products over all ranks, and divide by the sum of the counts.",
    },
    mistakes=[
        _UNCHANGED,
        Mistake(
            partial(_scaled, by=lambda own, total, ranks: (1, 1 / ranks)),
            "The ranks' means are averaged with equal weights, but a rank with more samples must count more. "
            "Multiply each gradient by its rank's count before summing, and divide by the sum of all counts.",
        ),
        Mistake(
            partial(_scaled, by=lambda own, total, ranks: (1, 1 / total)),
            "The ranks' mean gradients are summed without weights. Multiply each gradient by its rank's count first.",
        ),
        Mistake(
            partial(_scaled, by=lambda own, total, ranks: (1, own / total)),
            "Rank {rank} multiplies the sum by its own count. Multiply each gradient by its rank's count before "
            "summing.",
        ),
        Mistake(
            partial(_scaled, by=lambda own, total, ranks: (own, 1)),
            "Each gradient is the sum over all samples. Divide it by the total number of samples.",
        ),
        Mistake(
            partial(_scaled, by=lambda own, total, ranks: (own, 1 / max(1, own))),
            "The sum is divided by this rank's count only. Divide it by the sum of all counts.",
        ),
        Mistake(
            partial(_scaled, by=lambda own, total, ranks: (own, 1 / ranks)),
            "The sum is divided by the number of ranks. Divide it by the total number of samples instead.",
        ),
        Mistake(
            partial(_scaled, by=lambda own, total, ranks: (own / total, 1 / ranks)),
            "The mean is also divided by the number of ranks. Divide only by the total number of samples.",
        ),
    ],
)
