"""Bytes that a rank holds, against what torch's own memory says; and parts of a DTensor, against its own words."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor, Shard, distribute_tensor

from ddp_lessons import launch
from ddp_lessons.train.memory import bytes_held, full_tensor, local
from ddp_lessons.train.sharding import ShardedOptimizer


def model_of_ten_rows() -> nn.Module:
    torch.manual_seed(0)
    return nn.Linear(4, 10)  # 50 numbers, which 4 ranks cannot share equally


def stepped(model: nn.Module, optimizer: Any) -> dict[str, int]:
    model(torch.ones(2, 4)).sum().backward()
    optimizer.step()
    return bytes_held(model, optimizer)


def test_every_number_of_a_kind_is_counted_once() -> None:
    model = model_of_ten_rows()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
    assert bytes_held(model, optimizer) == {"parameters": 200, "gradients": 0, "optimizer state": 0}
    assert stepped(model, optimizer) == {"parameters": 200, "gradients": 200, "optimizer state": 400}


def test_of_shards_only_what_this_rank_has_is_counted() -> None:
    def run(rank: int, world_size: int) -> dict[str, int]:
        model = model_of_ten_rows()
        fully_shard(model, mesh=init_device_mesh("cpu", (world_size,)))
        return stepped(model, torch.optim.Adam(model.parameters()))

    rows = [3, 3, 3, 1]
    right = [{"parameters": 20 * n, "gradients": 20 * n, "optimizer state": 40 * n} for n in rows]
    assert list(launch(run, 4)) == right


def test_what_an_optimizer_keeps_for_itself_is_counted() -> None:
    def run(rank: int, world_size: int) -> list[dict[str, int]]:
        model = model_of_ten_rows()
        optimizer = ShardedOptimizer(model.parameters(), torch.optim.Adam)
        after = stepped(model, optimizer)
        optimizer.my_shard.grad = torch.zeros_like(optimizer.my_shard)
        return [after, bytes_held(model, optimizer)]

    after = {"parameters": 200 + 52, "gradients": 200, "optimizer state": 2 * 52}  # 13 numbers: 50 over 4, rounded up
    assert list(launch(run, 4)) == [[after, {**after, "gradients": 200 + 52}]] * 4


def test_parts_and_wholes_are_those_of_dtensor_itself() -> None:
    flat = torch.arange(40.0).view(10, 4)

    def run(rank: int, world_size: int) -> list[Tensor]:
        mesh = init_device_mesh("cpu", (world_size,))
        for dim in (0, 1):
            tensor = distribute_tensor(flat, mesh, [Shard(dim)])
            assert isinstance(tensor, DTensor)
            torch.testing.assert_close(local(tensor), tensor.to_local(), rtol=0, atol=0)
            torch.testing.assert_close(full_tensor(tensor), flat, rtol=0, atol=0)
        return [full_tensor(tensor), full_tensor(flat)]

    assert all(torch.equal(one, flat) for answer in launch(run, 4) for one in answer)
