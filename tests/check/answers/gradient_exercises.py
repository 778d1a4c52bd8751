"""Right and wrong answers to the exercises of averaging gradients by hand."""

# mypy: disable-error-code="no-any-return"
from __future__ import annotations

from typing import Any

import torch
import torch.distributed
from torch import nn

dist: Any = torch.distributed


def having(model: nn.Module) -> list[Any]:
    return [parameter for parameter in model.parameters() if parameter.grad is not None]


def count_of(samples: int) -> int:
    count = torch.tensor(samples)
    dist.all_reduce(count)
    return int(count)


# average_gradients


def all_at_once(model: nn.Module) -> None:
    flat = torch.cat([parameter.grad.flatten() for parameter in having(model)])
    dist.all_reduce(flat, op=dist.ReduceOp.AVG)
    for parameter, piece in zip(having(model), flat.split([one.numel() for one in having(model)]), strict=True):
        parameter.grad = piece.view_as(parameter)


def asynchronously(model: nn.Module) -> None:
    works = [(parameter, dist.all_reduce(parameter.grad, async_op=True)) for parameter in having(model)[::-1]]
    for parameter, work in works:
        work.wait()
        parameter.grad.mul_(1 / dist.get_world_size())


def skips_zeros(model: nn.Module) -> None:
    for parameter in having(model):
        if parameter.grad.any():
            dist.all_reduce(parameter.grad, op=dist.ReduceOp.AVG)


def waits_for_the_last_only(model: nn.Module) -> None:
    for parameter in having(model):
        parameter.grad /= dist.get_world_size()
        work = dist.all_reduce(parameter.grad, async_op=True)
    work.wait()


# weighted_average


def by_its_share(model: nn.Module, samples: int) -> None:
    share = samples / count_of(samples)
    for parameter in having(model):
        parameter.grad = parameter.grad * share
        dist.all_reduce(parameter.grad)


class Averager:
    def __call__(self, model: nn.Module, samples: int) -> list[Any]:
        counts: list[Any] = [None] * dist.get_world_size()
        dist.all_gather_object(counts, samples)
        for parameter in having(model):
            received = [torch.empty_like(parameter.grad) for _ in counts]
            dist.all_gather(received, parameter.grad)
            parameter.grad.copy_(sum(count * one for count, one in zip(counts, received, strict=True)) / sum(counts))
        return counts


def counts_every_rank_at_least_once(model: nn.Module, samples: int) -> None:
    by_its_share(model, max(1, samples))


def stays_away_without_samples(model: nn.Module, samples: int) -> None:
    if samples:
        by_its_share(model, samples)


def steps_as_well(model: nn.Module, samples: int) -> None:
    by_its_share(model, samples)
    torch.optim.SGD(model.parameters(), lr=0.1).step()


RIGHT: dict[str, list[Any]] = {
    "average_gradients": [all_at_once, asynchronously],
    "weighted_average": [by_its_share, Averager()],
}
WRONG: dict[str, list[Any]] = {
    "average_gradients": [
        (skips_zeros, "fails for a model whose gradients are zero on one rank"),
        (waits_for_the_last_only, r"wait\(\)"),
    ],
    "weighted_average": [
        (counts_every_rank_at_least_once, "fails for ranks without samples"),
        (stays_away_without_samples, "Hang, no rank can make progress."),
        (steps_as_well, "Your function changes the weights."),
    ],
}
