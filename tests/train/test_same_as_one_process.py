"""Training on several ranks, by hand and wrapped, against one process that sees the whole batch: number by number."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pytest
import torch
from made_up_samples import Samples, made_up
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.parallel import DistributedDataParallel

from ddp_lessons import launch
from ddp_lessons.train.loops import train_alone, train_by_hand, train_with_ddp
from ddp_lessons.train.networks import QuickNet
from ddp_lessons.train.replicas import fingerprint
from ddp_lessons.train.sampling import GlobalBatches
from ddp_lessons.train.small_ddp import Overlapped

# five batches: the last of them has one sample, so that all ranks but the first have none of it
SAMPLES, BATCH, EPOCHS = 33, 8, 10
LIMIT = 1e-9


class Everything(nn.Module):
    """What models may have: a layer twice, one that is frozen, one that nobody calls, batch-norm with its buffers."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.norm, self.frozen = nn.Linear(6, 5), nn.BatchNorm1d(5), nn.Linear(5, 5)
        self.unused, self.forth, self.back = nn.Linear(5, 5), nn.Linear(5, 5), nn.Linear(5, 5)
        self.out = nn.Linear(5, 3)
        self.back.weight = self.forth.weight
        self.frozen.requires_grad_(False)
        self.forth.bias.requires_grad_(False)
        # It keeps the means and variances that it has, and learns the rest: with those of each rank's own samples,
        # ranks and one process would be different by right.
        self.norm.eval()
        assert self.norm.running_mean is not None
        self.norm.running_mean.copy_(torch.randn(5))

    def forward(self, inputs: Tensor) -> Tensor:
        hidden = self.frozen(self.norm(self.first(inputs)).tanh())
        return F.log_softmax(self.out(self.back(self.forth(hidden).tanh()).tanh()), dim=1)


def seeded(build: Callable[[], nn.Module], seed: int) -> nn.Module:
    torch.manual_seed(seed)
    return build().double()


def momentum_sgd(model: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=0.05, momentum=0.5)


Epoch = Callable[[nn.Module, GlobalBatches, torch.optim.Optimizer, int], list[float]]
Run = tuple[list[float], nn.Module, str]


def trained(model: nn.Module, train: Epoch, batches: GlobalBatches, epochs: int = EPOCHS) -> Run:
    optimizer = momentum_sgd(model)
    losses = [loss for epoch in range(epochs) for loss in train(model, batches, optimizer, epoch)]
    return losses, model, fingerprint(model)


# each: what wraps the model, and the loop
WAYS: dict[str, tuple[Callable[[nn.Module], nn.Module], Epoch]] = {
    "by hand": (lambda model: model, train_by_hand),
    "DDP": (lambda model: DistributedDataParallel(model, find_unused_parameters=True), train_with_ddp),
}


def test_alone_each_step_is_that_of_the_mean_loss_of_its_batch() -> None:
    data, numbers = made_up(SAMPLES, 6), torch.arange(SAMPLES)
    losses, model, _ = trained(seeded(Everything, 0), train_alone, GlobalBatches(data, BATCH), epochs=1)

    reference = seeded(Everything, 0)
    optimizer, right = momentum_sgd(reference), []
    for _, batch, _ in GlobalBatches(Samples(data.images, numbers), BATCH).epoch(0):  # numbers in place of labels
        loss = F.nll_loss(reference(data.images[batch]), data.labels[batch])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        right.append(loss.item())
    assert losses == pytest.approx(right, abs=1e-12)
    torch.testing.assert_close(model.state_dict(), reference.state_dict(), rtol=0, atol=1e-12)


def answer(run: Run) -> tuple[list[float], dict[str, Tensor], str]:
    losses, model, print_of_it = run
    return losses, model.state_dict(), print_of_it


def assert_the_same(results: Iterable[Any], alone: Run) -> None:
    losses, model, _ = alone
    right, prints = dict(model.state_dict()), set()
    for of_rank in results:
        for name, value in of_rank[1].items():
            difference = (value - right[name.removeprefix("module.")]).abs().max().item()
            assert difference < LIMIT, f"{name}: {difference}"
        assert of_rank[0] == pytest.approx(losses, abs=LIMIT)
        prints.add(of_rank[2])
    assert len(prints) == 1, "the ranks differ"


@pytest.mark.parametrize("way", WAYS)
def test_after_50_steps_every_weight_is_that_of_one_process(way: str) -> None:
    batches = GlobalBatches(made_up(SAMPLES, 6), BATCH)
    wrap, train = WAYS[way]
    alone = trained(seeded(Everything, 0), train_alone, batches)

    def run(rank: int, world_size: int) -> Any:
        seed = rank if "DDP" in way else 0  # who averages by hand begins with equal weights, a wrapper sees to it
        return answer(trained(wrap(seeded(Everything, seed)), train, batches))

    assert_the_same(launch(run, 3), alone)
    assert len(alone[0]) == 50
    assert alone[0][-5:] != pytest.approx(alone[0][:5], rel=0.1), "it learned nothing: this shows nothing"


def test_so_it_is_for_a_network_with_convolutions() -> None:
    batches = GlobalBatches(made_up(11, 1, 28, 28, classes=10), 4)

    ways = [*WAYS.values(), (Overlapped, train_with_ddp)]

    def run(rank: int, world_size: int) -> list[Any]:
        return [answer(trained(wrap(seeded(QuickNet, 0)), train, batches, epochs=2)) for wrap, train in ways]

    results = launch(run, 2)

    # for the losses of three batches there is one call in an epoch, not one in a step
    assert [event.shape for event in results.events.of(0)].count((3,)) == 2 * len(ways)
    alone = trained(seeded(QuickNet, 0), train_alone, batches, epochs=2)
    for number in range(len(ways)):
        assert_the_same([of_rank[number] for of_rank in results], alone)
