"""A model cut between its layers, against the same model in one piece."""

from __future__ import annotations

import pytest
import torch
from nights import by_day
from torch import Tensor, nn
from torch.nn import functional as F

from ddp_lessons import launch
from ddp_lessons.train.pipeline import pipeline_step, stage_of

INPUTS, TARGETS = torch.randn(2, 8, 6, generator=torch.Generator().manual_seed(5), dtype=torch.float64)
LAYERS = 5


def layers() -> list[nn.Module]:
    torch.manual_seed(0)
    return [nn.Sequential(nn.Linear(6, 6), nn.Tanh()).double() for _ in range(LAYERS)]


@pytest.mark.parametrize("stages", range(1, 9))
def test_stages_are_stretches_of_layers_whose_lengths_differ_by_one_at_most(stages: int) -> None:
    for count in range(stages, 40):
        owners = torch.tensor([stage_of(layer, count, stages) for layer in range(count)])
        assert torch.equal(owners, owners.sort().values)
        sizes = owners.bincount(minlength=stages)
        right = torch.tensor([len(part) for part in torch.arange(count).tensor_split(stages)])
        assert torch.equal(sizes.sort().values, right.sort().values)


@pytest.mark.parametrize("micro_batches", [1, 2, 4])
@pytest.mark.parametrize("world_size", by_day([2, 5, 1, 3, 4], 2))
def test_a_step_through_stages_gives_the_gradients_of_the_whole(world_size: int, micro_batches: int) -> None:
    def run(rank: int, world_size: int) -> tuple[list[Tensor | None], float | None]:
        stage = nn.Sequential(*[one for n, one in enumerate(layers()) if stage_of(n, LAYERS, world_size) == rank])
        loss = pipeline_step(stage, INPUTS.chunk(micro_batches), TARGETS.chunk(micro_batches), F.mse_loss)
        return [parameter.grad for parameter in stage.parameters()], loss

    whole = nn.Sequential(*layers())
    loss = F.mse_loss(whole(INPUTS), TARGETS)
    loss.backward()
    results = launch(run, world_size)
    gradients = [gradient for stage, _ in results for gradient in stage]
    torch.testing.assert_close(gradients, [parameter.grad for parameter in whole.parameters()], rtol=1e-12, atol=1e-12)
    assert results[-1][1] == pytest.approx(loss.item(), abs=1e-12)
    assert [loss for _, loss in results[:-1]] == [None] * (world_size - 1)
