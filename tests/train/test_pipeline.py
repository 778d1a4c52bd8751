"""Stages are stretches of layers."""

from __future__ import annotations

import pytest
import torch

from ddp_lessons.train.pipeline import stage_of


@pytest.mark.parametrize("stages", range(1, 9))
def test_stages_are_stretches_of_layers_whose_lengths_differ_by_one_at_most(stages: int) -> None:
    for count in range(stages, 40):
        owners = torch.tensor([stage_of(layer, count, stages) for layer in range(count)])
        assert torch.equal(owners, owners.sort().values)
        sizes = owners.bincount(minlength=stages)
        right = torch.tensor([len(part) for part in torch.arange(count).tensor_split(stages)])
        assert torch.equal(sizes.sort().values, right.sort().values)
