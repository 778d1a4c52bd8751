"""One epoch of each loop, against a loop written out here with the whole batches."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from made_up_samples import Samples, made_up
from torch import nn
from torch.nn import functional as F
from torch.nn.parallel import DistributedDataParallel

from ddp_lessons import launch
from ddp_lessons.train.loops import train_alone, train_by_hand, train_with_ddp
from ddp_lessons.train.replicas import fingerprint
from ddp_lessons.train.sampling import GlobalBatches


def model_and_optimizer() -> tuple[nn.Module, torch.optim.Optimizer]:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 3), nn.LogSoftmax(dim=1)).double()
    return model, torch.optim.SGD(model.parameters(), lr=0.5)


def written_out(data: Samples, batch_size: int) -> tuple[list[float], nn.Module]:
    model, optimizer = model_and_optimizer()
    losses = []
    order = torch.cat(order_of(data, batch_size))
    for batch in order.split(batch_size):
        loss = F.nll_loss(model(data.images[batch]), data.labels[batch])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses, model


def order_of(data: Samples, batch_size: int) -> list[torch.Tensor]:
    """Which samples one process sees in epoch 4: the same data, with their numbers in place of their labels."""
    numbers = Samples(data.images, torch.arange(len(data)))
    return [labels for _, labels, _ in GlobalBatches(numbers, batch_size).epoch(4)]


def test_alone_each_step_is_that_of_the_mean_loss_of_its_batch() -> None:
    data = made_up(19, 6)
    model, optimizer = model_and_optimizer()
    losses = train_alone(model, GlobalBatches(data, 6), optimizer, 4)

    right, reference = written_out(data, 6)
    assert losses == pytest.approx(right, abs=1e-12)
    torch.testing.assert_close(model.state_dict(), reference.state_dict(), rtol=0, atol=1e-12)


LOOPS: dict[str, Callable[..., list[float]]] = {
    "by hand": train_by_hand,
    "DDP": lambda model, *args: train_with_ddp(DistributedDataParallel(model), *args),
}


@pytest.mark.parametrize("loop", LOOPS)
def test_every_rank_returns_the_losses_of_the_whole_batches(loop: str) -> None:
    data = made_up(19, 6)  # the last batch has one sample

    def run(rank: int, world_size: int) -> Any:
        model, optimizer = model_and_optimizer()
        return LOOPS[loop](model, GlobalBatches(data, 6), optimizer, 4), fingerprint(model), model.state_dict()

    results = launch(run, 3)

    right, reference = written_out(data, 6)
    for losses, _, weights in results:
        assert losses == pytest.approx(right, abs=1e-12)
        assert losses == results[0][0]
        torch.testing.assert_close(weights, dict(reference.state_dict()), rtol=0, atol=1e-12)
    assert len({print_of_it for _, print_of_it, _ in results}) == 1
    # for the losses there is one call in an epoch, not one in a step
    calls = [event.shape for event in results.events.of(0) if event.operation == "all_reduce"]
    assert calls.count((4,)) == 1
    assert calls[-1] == (4,)
