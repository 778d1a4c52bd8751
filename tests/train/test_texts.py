"""Texts of unequal lengths: every token has the same weight, on any number of ranks and micro-batches."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from nights import by_day, nightly
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel

from ddp_lessons import launch, same_as_one
from ddp_lessons.train import broken_rules
from ddp_lessons.train.texts import LENGTH, PADDING, TEXTS, TextModel, as_batch, token_mean_loss


def step(rank: int, world_size: int, parts: int, texts: tuple[str, ...]) -> tuple[float, Tensor]:
    torch.set_default_dtype(torch.float64)
    torch.manual_seed(0)
    model, mine = DistributedDataParallel(TextModel()), texts[rank::world_size]
    loss = token_mean_loss(model, [as_batch(mine[part::parts]) for part in range(parts)])
    return loss, gradient_of(model)


def gradient_of(model: nn.Module) -> Tensor:
    return torch.cat([one.grad.flatten() for one in model.parameters() if one.grad is not None])


@pytest.mark.parametrize(("world_size", "parts"), by_day([(3, 2), (2, 1), (1, 3)], 1))
@pytest.mark.parametrize("texts", [TEXTS, (*TEXTS[:3], "a", "b", "c")], ids=["all", "a rank has no token"])
def test_the_gradient_is_that_of_the_mean_over_all_tokens(world_size: int, parts: int, texts: tuple[str, ...]) -> None:
    def alone(rank: int, world_size: int) -> tuple[float, Tensor]:
        torch.set_default_dtype(torch.float64)
        torch.manual_seed(0)
        model, (tokens, targets) = TextModel(), as_batch(texts)
        loss = cross_entropy(model(tokens).flatten(0, 1), targets.flatten())
        loss.backward()
        return loss.item(), gradient_of(model)

    wanted, gradient = launch(alone, 1, quiet=True)[0]
    results = launch(step, world_size, parts, texts, quiet=True)
    for loss, found in results:
        assert loss == pytest.approx(wanted, abs=1e-9)
        torch.testing.assert_close(found, gradient, rtol=0, atol=1e-9)
    calls = [event for event in results.events.of(0) if event.operation == "all_reduce" and event.bytes > 1000]
    assert len(calls) == 1  # gradients travel once


def test_targets_are_the_next_tokens_and_padding_has_none() -> None:
    tokens, targets = as_batch(TEXTS)
    assert tokens.shape == targets.shape == (len(TEXTS), LENGTH)
    for row, text in enumerate(TEXTS):
        assert (targets[row] != PADDING).sum() == len(text) - 1
        assert targets[row, : len(text) - 2].tolist() == tokens[row, 1 : len(text) - 1].tolist()


CAUSES = {
    "train_a": "not_sharded",
    "train_b": "learning_rate",
    "train_c": "mean_of_means",
    "train_d": "sum_not_mean",
    "train_e": "clipped_before_averaging",
}


@nightly
@pytest.mark.parametrize("name", by_day(CAUSES, 1))
def test_same_as_one_names_the_rule_that_is_broken(name: str) -> None:
    train: Any = getattr(broken_rules, name)
    assert same_as_one(train, ranks=(1, 2)).cause == CAUSES[name]
    logs = launch(train, 2, quiet=True)
    assert logs[0].losses == logs[1].losses
    assert logs[0].losses[-1] < logs[0].losses[0] - 0.3
