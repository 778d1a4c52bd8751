"""Correct programs of what is built on the collectives, from meshes to pipelines, RPC and the compiler; and such in
which a rank waits for more than calls of the others: threads, the store, futures.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import itertools
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import torch
from correct_collectives import plain_numbers
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.nn.parallel import DistributedDataParallel
from torch.overrides import TorchFunctionMode
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler

Answer = Any
dist: Any = torch.distributed


def model(seed: int = 0) -> Any:
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 4))


def shared_folder(rank: int) -> str:
    place = [tempfile.mkdtemp() if rank == 0 else ""]
    dist.broadcast_object_list(place, 0)
    return place[0]


def rounded(tensor: torch.Tensor) -> list[float]:
    return [round(number, 4) for number in tensor.detach().double().flatten().tolist()]


def sharded_tensor(rank: int, world_size: int, first: str, second: str, two_dimensions: bool) -> Answer:
    from torch.distributed.tensor import Replicate, Shard, distribute_tensor

    kinds: dict[str, Any] = {"rows": Shard(0), "columns": Shard(1), "whole": Replicate()}
    made = init_device_mesh("cpu", (2, 2) if two_dimensions else (world_size,))
    whole = torch.arange(64.0).reshape(8, 8)
    before, after = ([kinds[one], Replicate()][: made.ndim] for one in (first, second))
    given: Any = distribute_tensor(whole, made, before)
    product = (given @ given.T).redistribute(made, after)
    return rounded(product.to_local()), rounded(given.sum().full_tensor())


def tensor_parallel(rank: int, world_size: int) -> Answer:
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

    made = init_device_mesh("cpu", (world_size,))
    split: Any = parallelize_module(model(), made, {"0": ColwiseParallel(), "2": RowwiseParallel()})
    out = split(torch.ones(3, 8))
    out.sum().backward()
    return rounded(out), rounded(split[2].weight.grad.full_tensor())


def fully_sharded(rank: int, world_size: int, hybrid: bool, reshard: bool, mixed: bool) -> Answer:
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


def groups(rank: int, world_size: int, kind: str) -> Answer:
    half = [0, 1] if rank < 2 else [2, 3]
    if kind == "of one":
        made = dist.new_group([rank])
    elif kind == "of one in halves":
        _, halves = dist.new_subgroups(2)
        made, _ = dist.new_subgroups(1, group=halves[rank // 2])
    elif kind == "local":
        made = [dist.new_group(half, use_local_synchronization=True) for _ in range(2)][1]
    else:
        made, _ = dist.new_subgroups_by_enumeration([[0, 3], [1, 2]])
    mine = torch.ones(1) * rank
    dist.all_reduce(mine, group=made)
    return mine.item()


class _Handing(TorchFunctionMode):
    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return func(*args, **(kwargs or {}))


def below_a_mode(rank: int, world_size: int, kind: str) -> Answer:
    net = DistributedDataParallel(model())
    around = {"functions": _Handing, "profiler": torch.profiler.profile}[kind]
    with around(), net.join():
        for _ in range(1 + rank):
            net(torch.ones(2, 8)).sum().backward()
    return rounded(net.module[0].weight.grad)


def remote_calls(rank: int, world_size: int, kind: str) -> Answer:
    import torch.distributed.rpc as rpc

    options = rpc.TensorPipeRpcBackendOptions(init_method=f"file://{shared_folder(rank)}/rpc")
    rpc.init_rpc(f"worker{rank}", rank=rank, world_size=world_size, rpc_backend_options=options)
    other, own_group = f"worker{(rank + 1) % world_size}", dist.new_group()
    large, others = torch.eye(1200) * (rank + 1) / 1000, range(1, world_size)
    try:
        if kind == "wait":
            return rounded(rpc.rpc_sync(other, torch.add, args=(torch.ones(2), rank)))
        if kind == "remote":
            return rounded(rpc.remote(other, torch.add, args=(torch.ones(2), rank)).to_here())
        answer = rpc.rpc_async(other, torch.matrix_exp, args=(large,))
        if kind == "barrier first":
            dist.barrier()
            return round(float(answer.wait().trace()), 3)
        # what the others wait for is sent once an answer is there, and that is worked out where no Python runs
        if rank == 0:
            sent = answer.then(lambda _: [dist.send(torch.ones(1), peer, group=own_group) for peer in others])
            dist.barrier()
            return len(sent.wait())
        dist.recv(torch.zeros(1), 0, group=own_group)
        dist.barrier()
        return round(float(answer.wait().trace()), 3)
    finally:
        rpc.shutdown()


def in_threads(rank: int, world_size: int, kind: str) -> Answer:
    groups, found = [dist.new_group() for _ in range(2)], [torch.ones(1) * rank for _ in range(2)]

    def late(number: int) -> None:
        time.sleep(0.3 * ((rank + number) % 2))
        dist.all_reduce(found[number], group=groups[number])

    if kind == "pool":
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            list(pool.map(late, range(2)))
    elif kind == "timer":
        timer = threading.Timer(0.6, late, [0])
        timer.start()
        late(1)
        dist.barrier()
        timer.join()
    else:
        threads = [threading.Thread(target=late, args=(number,)) for number in range(2)]
        for thread in threads:
            thread.start()
        dist.barrier()
        for thread in threads:
            thread.join()
    return plain_numbers(found)


def through_the_store(rank: int, world_size: int, kind: str) -> Answer:
    store: Any = dist.PrefixStore(f"of this program, {shared_folder(rank)}", dist.distributed_c10d._get_default_store())
    if kind == "late":
        if rank == 0:
            time.sleep(0.8)
            store.set("word", "go")
        else:
            assert store.get("word") == b"go"
    elif kind == "limit":
        with contextlib.suppress(Exception):
            store.wait([f"never {rank}"], timedelta(seconds=0.5))
    else:
        store.add("counter", 1)
    dist.barrier()
    return kind


def in_the_background(rank: int, world_size: int, kind: str) -> Answer:
    mine = torch.ones(4) * rank
    work: Any = dist.all_reduce(mine, async_op=True)
    if kind == "then":
        return rounded(work.get_future().then(lambda done: done.value()[0] * 2).wait())
    if kind == "asked":
        while not work.is_completed():
            time.sleep(0.01)
    elif kind == "future":
        work.get_future().wait()
    elif kind == "coalesced":
        work.wait()
        with dist._coalescing_manager(async_ops=True) as several:
            for _ in range(3):
                dist.all_reduce(mine)
        several.wait()
    else:
        work.wait()
    dist.barrier()
    return rounded(mine)


_CASES: list[tuple[Callable[..., Answer], tuple[tuple[Any, ...], ...]]] = [
    (sharded_tensor, (("rows", "columns", "whole"), ("rows", "columns", "whole"), (False, True))),
    (tensor_parallel, ()),
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
    (groups, (("of one", "of one in halves", "local", "by enumeration"),)),
    (below_a_mode, (("functions", "profiler"),)),
    (remote_calls, (("wait", "remote", "barrier first", "answer sets off"),)),
    (in_threads, (("threads", "pool", "timer"),)),
    (through_the_store, (("late", "limit", "counter"),)),
    (in_the_background, (("wait", "then", "asked", "future", "coalesced"),)),
]


def features() -> Iterator[tuple[str, Callable[..., Answer], tuple[Any, ...]]]:
    """The name of each program, its function, and what that is given beside rank and world size."""
    for function, options in _CASES:
        for given in itertools.product(*options):
            yield f"{function.__name__}{given if given else ''}", function, given
