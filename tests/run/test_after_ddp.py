"""What torch has beyond DistributedDataParallel, as the recorder sees it: held against torch's own counting."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.distributed as dist
from nights import by_day
from torch import nn

from ddp_lessons import Results, launch

# torch's names of the operators that its CommDebugMode counts -> what they are
OPERATIONS = {
    "all_reduce": "all_reduce",
    "allreduce_": "all_reduce",
    "all_gather_into_tensor": "all_gather",
    "_allgather_base_": "all_gather",
    "reduce_scatter_tensor": "reduce_scatter",
    "_reduce_scatter_base_": "reduce_scatter",
    "broadcast_": "broadcast",
    "scatter_": "scatter",
}
INPUTS = torch.ones(4, 8)


def blocks() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(*[nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 8)) for _ in range(3)])


def sharded(world_size: int) -> nn.Module:
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    model, mesh = blocks(), init_device_mesh("cpu", (world_size,))
    for block in model:
        fully_shard(block, mesh=mesh)
    return model


def cut_in_layers(world_size: int) -> nn.Module:
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

    plan: Any = {"*.0": ColwiseParallel(), "*.2": RowwiseParallel()}
    return parallelize_module(blocks(), init_device_mesh("cpu", (world_size,)), plan)


def count(rank: int, world_size: int, make: Callable[[int], nn.Module]) -> dict[str, int]:
    """What torch counts between two barriers."""
    from torch.distributed.tensor.debug import CommDebugMode

    model = make(world_size)
    dist.barrier()
    kinds: Counter[str] = Counter()
    for _ in range(2):
        with CommDebugMode() as torchs:  # a new one for each step: those of torch 2.11 fail in the second
            model(INPUTS).sum().backward()
            counted: Any = torchs.get_comm_counts()
        for operator, times in counted.items():
            kinds[OPERATIONS[operator.__name__]] += times
    dist.barrier()
    return dict(kinds)


def between_barriers(results: Results[Any], rank: int) -> list[Any]:
    calls = list(results.events.of(rank))
    begin, end = (place for place, call in enumerate(calls) if call.operation == "barrier")
    return calls[begin + 1 : end]


@pytest.mark.parametrize("make", by_day([sharded, cut_in_layers], 1))
def test_every_call_that_torch_counts_is_noted_with_its_end(make: Callable[[int], nn.Module]) -> None:
    results = launch(count, 2, make)
    for rank in range(2):
        noted = between_barriers(results, rank)
        assert Counter(call.operation for call in noted) == results[rank]
        assert len(noted) >= 10
        assert all(call.waited is not None and call.end is not None for call in noted)
    assert all(meeting.is_agreed for meeting in results.events.meetings)


def test_the_stages_of_a_pipeline_send_to_their_neighbors_only() -> None:
    def call(rank: int, world_size: int) -> None:
        from torch.distributed.pipelining import PipelineStage, ScheduleGPipe

        stage = PipelineStage(blocks()[rank], rank, world_size, torch.device("cpu"))
        schedule = ScheduleGPipe(stage, n_microbatches=4, loss_fn=nn.functional.mse_loss)
        for _ in range(2):  # in the first step they also tell each other their shapes
            dist.barrier()
            targets: Any = {"target": INPUTS} if rank == world_size - 1 else {}
            schedule.step(*[INPUTS][rank:], **targets)
            stage.submod.zero_grad()
        dist.barrier()

    events = launch(call, 3).events
    for rank in range(3):
        calls = list(events.of(rank))
        *_, begin, end = (place for place, call in enumerate(calls) if call.operation == "barrier")
        step = [(call.operation, call.peer, call.bytes) for call in calls[begin + 1 : end]]
        neighbors = [other for other in (rank - 1, rank + 1) if 0 <= other < 3]
        right = {(way, other, 32): 4 for way in ("send", "recv") for other in neighbors}
        assert Counter(step) == right
        assert all(call.end is not None for call in calls)
