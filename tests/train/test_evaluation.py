"""The accuracy over ranks, against one process that counts all samples."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from made_up_samples import Samples, made_up
from nights import by_day
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from ddp_lessons import WorkerFailed, launch
from ddp_lessons.train.evaluation import evaluate
from ddp_lessons.train.small_ddp import Overlapped


def net(seed: int = 0) -> nn.Sequential:
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.Dropout(0.8), nn.Linear(8, 3)).double()


def counted(model: nn.Module, data: Samples) -> float:
    """One by one, in one process."""
    model.eval()
    right = sum(int(model(image[None]).argmax()) == label for image, label in (data[i] for i in range(len(data))))
    return right / len(data)


@pytest.mark.parametrize("world_size", by_day([1, 3, 4], 2))
def test_every_sample_counts_once_also_when_there_are_fewer_than_ranks(world_size: int) -> None:
    cases = [(count, batch_size) for count in (1, 2, 3, 4, 5, 31) for batch_size in (1, 4, 1000)]

    def run(rank: int, world_size: int) -> list[float]:
        return [evaluate(net(), made_up(count, 6, seed=count), batch_size) for count, batch_size in cases]

    results = launch(run, world_size)
    right = [counted(net(), made_up(count, 6, seed=count)) for count, _ in cases]
    assert len(set(right)) > 3
    for answers in results:
        assert answers == right
    assert evaluate(net(), made_up(31, 6, seed=31)) == right[-1]  # without a group as well


@pytest.mark.parametrize("wrap", [Overlapped, DistributedDataParallel, lambda model: model])
def test_a_model_in_training_is_judged_as_rank_0_has_it_and_goes_on_as_if_nothing_had_been(wrap: Any) -> None:
    data = made_up(7, 6)  # three ranks and batches of 2: two, one and one

    def run(rank: int, world_size: int) -> Any:
        model = wrap(net())
        model(made_up(5, 6, seed=rank).images).square().mean().backward()
        inner = getattr(model, "module", model)
        inner[1].eval()  # a part that does not train meanwhile
        gradients = [parameter.grad.clone() for parameter in model.parameters()]
        accuracy = evaluate(model, data, batch_size=2)
        same = all(map(torch.equal, gradients, [parameter.grad for parameter in model.parameters()]))
        modes = [module.training for module in inner]
        model(made_up(5, 6, seed=rank).images).square().mean().backward()  # nobody is out of step
        return accuracy, same, modes, inner.training, [p.requires_grad for p in model.parameters()], inner.state_dict()

    results = launch(run, 3)

    judged = net()
    judged(made_up(5, 6, seed=0).images)  # rank 0's running means
    right = counted(judged, data)
    for accuracy, same, modes, is_training, learns, _ in results:
        assert accuracy == right
        assert same
        assert modes == [True, False, True, True]
        assert is_training
        assert all(learns)


def test_a_rank_that_raises_leaves_no_rank_waiting_and_no_model_in_another_mode() -> None:
    def run(rank: int, world_size: int) -> None:
        model = net()
        try:
            evaluate(model, made_up(5, 6 - rank))  # of rank 1, inputs that its model cannot take
        finally:
            assert model.training
            assert torch.is_grad_enabled()

    with pytest.raises(WorkerFailed, match="rank 1 of 2 raised RuntimeError: mat1 and mat2"):
        launch(run, 2)


def test_without_samples_there_is_no_accuracy() -> None:
    with pytest.raises(ValueError, match="the data set is empty"):
        evaluate(net(), made_up(0, 6))
