"""Correct programs of what is built on the collectives, from meshes to pipelines, RPC and the compiler."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterator
from typing import Any

import torch
from correct_waits import CASES, Answer, model, rounded, shared_folder
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler

dist: Any = torch.distributed


def mesh(rank: int, world_size: int, shape: tuple[int, ...], operation: str) -> Answer:
    from torch.distributed.device_mesh import init_device_mesh

    names = ("outer", "inner")[: len(shape)]
    made = init_device_mesh("cpu", shape, mesh_dim_names=names)
    found = []
    for name in names:
        mine = torch.tensor([float(rank)])
        dist.all_reduce(mine, getattr(dist.ReduceOp, operation), group=made.get_group(name))
        found.append((made.get_local_rank(name), mine.item()))
    return found


def sharded_tensor(rank: int, world_size: int, first: str, second: str, two_dimensions: bool) -> Answer:
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Replicate, Shard, distribute_tensor

    kinds: dict[str, Any] = {"rows": Shard(0), "columns": Shard(1), "whole": Replicate()}
    made = init_device_mesh("cpu", (2, 2) if two_dimensions else (world_size,))
    whole = torch.arange(64.0).reshape(8, 8)
    before, after = ([kinds[one], Replicate()][: made.ndim] for one in (first, second))
    given: Any = distribute_tensor(whole, made, before)
    product = (given @ given.T).redistribute(made, after)
    return rounded(product.to_local()), rounded(given.sum().full_tensor())


def tensor_parallel(rank: int, world_size: int, loss_is_mean: bool) -> Answer:
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

    made = init_device_mesh("cpu", (world_size,))
    split: Any = parallelize_module(model(), made, {"0": ColwiseParallel(), "2": RowwiseParallel()})
    out = split(torch.ones(3, 8))
    (out.mean() if loss_is_mean else out.sum()).backward()
    return rounded(out), rounded(split[2].weight.grad.full_tensor())


def fully_sharded(rank: int, world_size: int, hybrid: bool, reshard: bool, mixed: bool) -> Answer:
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

    made = init_device_mesh("cpu", (2, 2), mesh_dim_names=("copies", "shards")) if hybrid else None
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16) if mixed else MixedPrecisionPolicy()
    net = model()
    for part in (net[0], net[2], net):
        fully_shard(part, mesh=made, reshard_after_forward=reshard, mp_policy=policy)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for _ in range(2):
        net(torch.ones(2, 8) * (rank + 1)).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
    return rounded(net[0].weight.full_tensor())


def data_parallel(rank: int, world_size: int, option: str) -> Answer:
    options: dict[str, dict[str, Any]] = {
        "static": {"static_graph": True},
        "unused": {"find_unused_parameters": True},
        "views": {"gradient_as_bucket_view": True},
        "small buckets": {"bucket_cap_mb": 1e-4},
        "no buffers": {"broadcast_buffers": False},
    }
    net = DistributedDataParallel(model(), **options.get(option, {}))
    if option == "hook":
        from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import fp16_compress_hook

        net.register_comm_hook(None, fp16_compress_hook)
    for step in range(3):
        around = net.no_sync() if option == "no sync" and step < 2 else contextlib.nullcontext()
        with around:
            net(torch.ones(2, 8) * (rank + step)).sum().backward()
    if option == "join":
        with net.join():
            for _ in range(1 + rank):
                net(torch.ones(2, 8)).sum().backward()
    return rounded(net.module[0].weight.grad)


def zero_redundancy(rank: int, world_size: int) -> Answer:
    from torch.distributed.optim import ZeroRedundancyOptimizer

    net = DistributedDataParallel(model())
    optimizer = ZeroRedundancyOptimizer(net.parameters(), torch.optim.Adam, lr=0.1)
    for _ in range(2):
        net(torch.ones(2, 8) * rank).sum().backward()
        optimizer.step()
    optimizer.consolidate_state_dict(to=0)
    return rounded(net.module[0].weight)


def checkpoint(rank: int, world_size: int, in_background: bool, of_shards: bool) -> Answer:
    import torch.distributed.checkpoint
    from torch.distributed.fsdp import fully_shard

    dcp: Any = torch.distributed.checkpoint
    net, folder = model(rank if not of_shards else 0), shared_folder(rank)
    if of_shards:
        fully_shard(net)
    state = {"model": net.state_dict()}
    if in_background:
        dist.barrier()
        dcp.async_save(state, checkpoint_id=folder).result()
    else:
        dcp.save(state, checkpoint_id=folder)
    dist.barrier()
    dcp.load(state, checkpoint_id=folder)
    dist.barrier()
    return len(state["model"])


def pipeline(rank: int, world_size: int, schedule: str) -> Answer:
    from torch.distributed import pipelining

    torch.manual_seed(rank)
    stage: Any = pipelining.PipelineStage(nn.Linear(8, 8), rank, world_size, torch.device("cpu"))
    made = getattr(pipelining, schedule)(stage, 4, loss_fn=lambda out, target: (out - target).pow(2).sum())
    inputs, target = torch.ones(8, 8), torch.zeros(8, 8)
    losses: list[Any] = []
    if rank == 0:
        made.step(inputs)
    elif rank == world_size - 1:
        made.step(target=target, losses=losses)
    else:
        made.step()
    return [round(float(loss), 3) for loss in losses], rounded(stage.submod.weight.grad)


def loading(rank: int, world_size: int, workers: int, persistent: bool) -> Answer:
    data = TensorDataset(torch.arange(64.0).reshape(16, 4))
    sampler: Any = DistributedSampler(data, shuffle=True, seed=3)
    loader: Any = DataLoader(
        data, 2, sampler=sampler, num_workers=workers, persistent_workers=persistent and workers > 0
    )
    net, seen = DistributedDataParallel(nn.Linear(4, 1)), []
    for epoch in range(2):
        sampler.set_epoch(epoch)
        for (batch,) in loader:
            net(batch).sum().backward()
            seen.append(float(batch.sum()))
    return seen


def compiled(rank: int, world_size: int, what: str) -> Answer:
    import torch.distributed._functional_collectives as functional

    if what == "function":

        @torch.compile(backend="aot_eager")
        def add_up(mine: torch.Tensor) -> Any:
            return functional.all_reduce(mine * 2, "sum", dist.group.WORLD) + 1

        return rounded(add_up(torch.ones(3) * rank))
    net = DistributedDataParallel(model())
    quick = torch.compile(net, backend="eager" if what == "eager" else "aot_eager")
    for _ in range(2):
        quick(torch.ones(2, 8) * rank).sum().backward()
    return rounded(net.module[0].weight.grad)


def averaging(rank: int, world_size: int) -> Answer:
    from torch.distributed.algorithms.model_averaging.averagers import PeriodicModelAverager

    net = model(rank)
    averager = PeriodicModelAverager(period=2, warmup_steps=0)
    (net(torch.ones(1, 8)).sum()).backward()  # it averages what has a gradient
    for _ in range(4):
        averager.average_parameters(net.parameters())
    return rounded(net[0].weight)


def differentiable(rank: int, world_size: int, name: str) -> Answer:
    import torch.distributed.nn.functional as through

    mine = (torch.ones(4) * (rank + 1)).requires_grad_()
    out = getattr(through, name)(*([mine, 0] if name == "broadcast" else [mine]))
    (out[0] if isinstance(out, list | tuple) else out).sum().backward()
    return rounded(mine.grad) if mine.grad is not None else None


_CASES: list[tuple[Callable[..., Answer], tuple[tuple[Any, ...], ...]]] = [
    (mesh, (((4,), (2, 2), (4, 1), (1, 4)), ("SUM", "MAX"))),
    (sharded_tensor, (("rows", "columns", "whole"), ("rows", "columns", "whole"), (False, True))),
    (tensor_parallel, ((False, True),)),
    (fully_sharded, ((False, True), (False, True), (False, True))),
    (
        data_parallel,
        (("", "static", "unused", "views", "small buckets", "no buffers", "hook", "no sync", "join"),),
    ),
    (zero_redundancy, ()),
    (checkpoint, ((False, True), (False, True))),
    (pipeline, (("ScheduleGPipe", "Schedule1F1B"),)),
    (loading, ((0, 2), (False, True))),
    (compiled, (("function", "eager", "aot_eager"),)),
    (averaging, ()),
    (differentiable, (("all_reduce", "all_gather", "broadcast"),)),
]


def features() -> Iterator[tuple[str, Callable[..., Answer], tuple[Any, ...]]]:
    """The name of each program, its function, and what that is given beside rank and world size."""
    for function, options in (*_CASES, *CASES):
        for given in itertools.product(*options):
            yield f"{function.__name__}{given if given else ''}", function, given
