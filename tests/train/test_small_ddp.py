"""The small DistributedDataParallel, against torch's own and against one process."""

from __future__ import annotations

from typing import Any, cast

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from ddp_lessons import launch
from ddp_lessons.train.replicas import fingerprint
from ddp_lessons.train.small_ddp import Overlapped


def samples(rank: int) -> Tensor:
    return torch.randn(4, 6, generator=torch.Generator().manual_seed(rank), dtype=torch.float64)


def batch_norm_net(seed: int) -> nn.Sequential:
    torch.manual_seed(seed)
    net = nn.Sequential(nn.Linear(6, 5), nn.BatchNorm1d(5), nn.Tanh(), nn.Linear(5, 2)).double()
    nn.init.normal_(cast(Tensor, net[1].running_mean))  # other buffers on each rank
    return net


def small_net() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 5), nn.Tanh(), nn.Linear(5, 5), nn.Tanh(), nn.Linear(5, 2)).double()


def test_every_rank_begins_with_the_weights_and_buffers_of_rank_0_under_torchs_names() -> None:
    def run(rank: int, world_size: int) -> tuple[str, str, bool]:
        net = batch_norm_net(seed=rank)
        net[0].weight.requires_grad_(False)  # also what is frozen
        before, model = fingerprint(net), Overlapped(net)
        return before, fingerprint(model), list(model.state_dict()) == list(DistributedDataParallel(net).state_dict())

    results = launch(run, 3)
    assert {after for _, after, _ in results} == {results[0][0]}
    assert len({before for before, _, _ in results}) == 3
    assert all(named_as_torchs for _, _, named_as_torchs in results)


def test_its_gradient_is_that_of_the_whole_batch_and_calls_run_during_backward() -> None:
    def run(rank: int, world_size: int) -> list[Tensor]:
        model: Any = Overlapped(small_net())
        # a barrier marks the moment at which backward() comes to the first layer
        model.module[1].register_full_backward_hook(lambda *_: dist.barrier())
        for _ in range(2):
            model.zero_grad()
            model(samples(rank)).square().mean().backward()
        return [parameter.grad for parameter in model.parameters()]

    results = launch(run, 3)
    alone = small_net()
    alone(torch.cat([samples(rank) for rank in range(3)])).square().mean().backward()
    for gradients in results:
        torch.testing.assert_close(gradients, [p.grad for p in alone.parameters()], rtol=0, atol=1e-12)
    calls = [event for event in results.events.of(0) if event.operation != "broadcast"]
    assert [event.operation for event in calls] == [*["all_reduce"] * 4, "barrier", *["all_reduce"] * 2] * 2
