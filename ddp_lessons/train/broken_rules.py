"""Five training functions for an exercise. Each breaks one rule: find out which before you read them.

In all five, the ranks agree and the loss falls. Each returns what a log could show: the samples and the gradient norm
of the first step, and the losses and learning rates of all steps.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch
import torch.distributed as dist
from torch import nn

from ddp_lessons.train.gradients import average_gradients
from ddp_lessons.train.texts import PADDING, TEXTS, TextModel, as_batch

STEPS, BATCH = 5, 8


@dataclass
class Log:
    samples: list[int] = field(default_factory=list)  # of this rank, in the first step
    norms: list[float] = field(default_factory=list)  # of the gradient that the optimizer gets
    losses: list[float] = field(default_factory=list)  # means over all tokens of all ranks
    rates: list[float] = field(default_factory=list)


def train_a(rank: int, world_size: int) -> Log:
    return _train(0, world_size)  # rule broken: each rank takes the shard of rank 0


def train_b(rank: int, world_size: int) -> Log:
    return _train(rank, world_size, schedule_steps=world_size)  # rule broken: one step of the schedule for each rank


def train_c(rank: int, world_size: int) -> Log:
    return _train(rank, world_size, mean_of_means=True)  # rule broken: all tokens weigh the same


def train_d(rank: int, world_size: int) -> Log:
    return _train(rank, world_size, combine=_sum_gradients)  # rule broken: divide by the number of ranks


def train_e(rank: int, world_size: int) -> Log:
    return _train(rank, world_size, combine=_clip_and_average)  # rule broken: clip after averaging


def _train(
    shard: int, world_size: int, combine: Any = average_gradients, mean_of_means: bool = False, schedule_steps: int = 1
) -> Log:
    torch.manual_seed(0)
    model, log = TextModel(), Log()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    schedule = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.95)
    for step in range(STEPS):
        batch = range(step * BATCH % len(TEXTS), step * BATCH % len(TEXTS) + BATCH)
        mine = batch[shard::world_size]
        tokens, targets = as_batch([TEXTS[index] for index in mine])
        own = (targets != PADDING).sum()
        loss = nn.functional.cross_entropy(model(tokens).flatten(0, 1), targets.flatten(), reduction="sum")
        total, tokens_of_all = sums = torch.stack([loss.detach(), own])  # of this rank, then of all
        dist.all_reduce(sums)
        optimizer.zero_grad()
        (loss / own if mean_of_means else loss * world_size / tokens_of_all).backward()
        combine(model)
        gradients = [one.grad for one in model.parameters() if one.grad is not None]
        log.norms.append(float(nn.utils.get_total_norm(gradients)))
        log.rates.append(float(schedule.get_last_lr()[0]))
        log.losses.append(float(total / tokens_of_all))
        log.samples += mine if step == 0 else ()
        optimizer.step()
        for _ in range(schedule_steps):
            schedule.step()
    return log


def _sum_gradients(model: nn.Module) -> None:
    for parameter in model.parameters():
        if parameter.grad is not None:
            dist.all_reduce(parameter.grad)


def _clip_and_average(model: nn.Module) -> None:
    nn.utils.clip_grad_norm_(model.parameters(), 0.5)
    average_gradients(model)
