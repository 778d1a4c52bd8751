"""Averaged gradients, against one process that has the data of all ranks."""

from __future__ import annotations

import pytest
import torch
from nights import by_day
from torch import Tensor, nn

from ddp_lessons import launch
from ddp_lessons.train.gradients import average_gradients, weighted_average


def model_with_an_unused_layer() -> nn.ModuleDict:
    torch.manual_seed(0)
    frozen = nn.Linear(4, 8).requires_grad_(False)
    used = nn.Sequential(frozen, nn.ReLU(), nn.Linear(8, 2))
    return nn.ModuleDict({"used": used, "unused": nn.Linear(3, 3)})


def backward(model: nn.ModuleDict, inputs: Tensor) -> None:
    model["used"](inputs).square().mean().backward()


def gradients(model: nn.Module) -> dict[str, Tensor | None]:
    return {name: parameter.grad for name, parameter in model.named_parameters()}


@pytest.mark.parametrize("world_size", [1, 3])
def test_the_mean_of_equal_shares_is_the_gradient_of_the_whole_batch(world_size: int) -> None:
    batch = torch.randn(6 * world_size, 4, generator=torch.Generator().manual_seed(1))

    def run(rank: int, world_size: int) -> tuple[dict[str, Tensor | None], bool]:
        model = model_with_an_unused_layer()
        backward(model, batch[6 * rank : 6 * rank + 6])
        average_gradients(model)
        start = model_with_an_unused_layer().parameters()
        return gradients(model), all(map(torch.equal, model.parameters(), start))

    whole = model_with_an_unused_layer()
    backward(whole, batch)
    for averaged, has_its_weights in launch(run, world_size):
        assert has_its_weights
        for name, right in gradients(whole).items():
            assert (averaged[name] is None) == (right is None), name
            torch.testing.assert_close(averaged[name], right)
    assert [name for name, gradient in gradients(whole).items() if gradient is None] == [
        "used.0.weight",
        "used.0.bias",
        "unused.weight",
        "unused.bias",
    ]


@pytest.mark.parametrize("counts", by_day([[2, 1, 0, 5], [0, 0, 7]], 1))
@pytest.mark.parametrize("without", ["no gradient", "nan"])
def test_means_over_unequal_counts_become_the_mean_over_all_samples(counts: tuple[int, ...], without: str) -> None:
    batch = torch.randn(sum(counts), 4, generator=torch.Generator().manual_seed(1))

    def run(rank: int, world_size: int) -> dict[str, Tensor | None]:
        model = model_with_an_unused_layer()
        mine = batch.split(counts)[rank]
        if len(mine) or without == "nan":
            backward(model, mine)
        weighted_average(model, len(mine))
        return gradients(model)

    whole = model_with_an_unused_layer()
    backward(whole, batch)
    results = launch(run, len(counts))
    for averaged in results:
        assert [name for name, gradient in averaged.items() if gradient is not None] == ["used.2.weight", "used.2.bias"]
        torch.testing.assert_close(averaged, gradients(whole))
        torch.testing.assert_close(averaged, results[0], rtol=0, atol=0)
