"""Correct programs in which a rank waits for more than calls of the others: RPC, threads, the store, futures."""

from __future__ import annotations

import concurrent.futures
import contextlib
import tempfile
import threading
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import torch
from correct_collectives import plain_numbers
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.overrides import TorchFunctionMode

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
    around = {"functions": _Handing, "profiler": torch.profiler.profile}.get(kind, contextlib.nullcontext)
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


CASES: list[tuple[Callable[..., Answer], tuple[tuple[Any, ...], ...]]] = [
    (groups, (("of one", "of one in halves", "local", "by enumeration"),)),
    (below_a_mode, (("functions", "profiler", "nothing"),)),
    (remote_calls, (("wait", "remote", "barrier first", "answer sets off"),)),
    (in_threads, (("threads", "pool", "timer"),)),
    (through_the_store, (("late", "limit", "counter"),)),
    (in_the_background, (("wait", "then", "asked", "future", "coalesced"),)),
]
