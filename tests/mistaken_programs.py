"""Mistakes in whole programs: replicas, sharded models, tensors on a mesh, remote calls, timeouts, groups."""

from __future__ import annotations

from collections.abc import Iterator

_BEGINNINGS = {
    "": "",
    "REPLICA": """from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
model = DDP(nn.Linear(4, 2))
""",
    "SHARDED": """from torch import nn
from torch.distributed.fsdp import fully_shard
from torch.distributed.device_mesh import init_device_mesh
mesh = init_device_mesh("cpu", (n,))
model = nn.Sequential(nn.Linear(4, 6), nn.Linear(6, 3))
fully_shard(model, mesh=mesh)
""",
    "MESH": """from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import distribute_tensor, Replicate, Shard
mesh = init_device_mesh("cpu", (n,))
""",
}
_NEVER_CAME = r"[Rr]ank 1 returned without|Mismatched (collectives|calls)"


def programs() -> Iterator[tuple[str, str, str, str]]:
    """Kind, name, text, and a pattern for the words that name the cause."""
    for one in _PROGRAMS.split("### ")[1:]:
        head, _, text = one.partition("\n")
        title, _, rest = head.partition(" [")
        beginning, _, words = rest.partition("] ")
        kind, _, name = title.partition(": ")
        yield kind, name, _BEGINNINGS[beginning] + text.strip("\n"), words.replace("NEVER_CAME", _NEVER_CAME)


_PROGRAMS = r"""
### replicas: swallowed [REPLICA] Mismatched collectives
for step in range(4):
    try:
        model(torch.ones(2, 5 if (rank, step) == (1, 2) else 4)).sum().backward()  #!
    except RuntimeError:
        pass
dist.all_reduce(torch.ones(1))

### replicas: fewer batches then evaluated [REPLICA] NEVER_CAME
for _ in range(3 - (rank == 1)):
    model(torch.ones(2, 4)).sum().backward()  #!
total = torch.ones(2)
dist.all_reduce(total)

### replicas: barrier before saving on one [REPLICA] Mismatched collectives
model(torch.ones(2, 4)).sum().backward()
if rank == 0:
    dist.barrier()  #!
model(torch.ones(2, 4)).sum().backward()  #!

### replicas: gradients by hand, one without [] returned without|Shape mismatch
from torch import nn
model = nn.Sequential(nn.Linear(4, 3), nn.Linear(3, 2))
loss = model(torch.ones(2, 4)).sum() if rank != 1 else model[0](torch.ones(2, 4)).sum()
loss.backward()
for p in model.parameters():
    if p.grad is not None:
        dist.all_reduce(p.grad)  #!

### sharded: evaluated on one [SHARDED] returned without|Mismatched
model(torch.ones(2, 4)).sum().backward()
if rank == 0:
    model(torch.ones(2, 4))  #!

### sharded: swallowed [SHARDED] NEVER_CAME|swallowed
for step in range(3):
    try:
        if (rank, step) == (1, 1):
            raise RuntimeError("a bad batch")
        model(torch.ones(2, 4)).sum().backward()  #!
    except RuntimeError:
        pass
dist.all_reduce(torch.ones(1))

### mesh tensors: redistributed on some [MESH] NEVER_CAME
mine = distribute_tensor(torch.ones(6), mesh, [Shard(0)])
if rank != 1:
    mine = mine.redistribute(mesh, [Replicate()])  #!
dist.barrier()

### groups: other members [] different groups
group = dist.new_group([0, 1] if rank != 1 else [1, 2])  #!
if rank == 1:
    dist.all_reduce(torch.ones(1), group=group)

### timeouts: a collective [] but rank 1 did not call it|made too late
group = dist.new_group(timeout=datetime.timedelta(seconds=0.7))
if rank == 1:
    time.sleep(3)
dist.all_reduce(torch.ones(1), group=group)  #!

### timeouts: a wait [] rank 1 did not make the matching call
if rank == 0:
    dist.irecv(torch.ones(1), 1).wait(datetime.timedelta(seconds=0.7))  #!
time.sleep(2)

### coalesced: other shape [] Shape mismatch
with dist._coalescing_manager():  #!
    for i in range(3):
        dist.all_reduce(torch.ones(4 + (rank == 1)))  #!

### aborts: while the rank computes [] Shape mismatch
work = dist.all_reduce(torch.ones(5 if rank == 1 else 1), async_op=True)  #!
total = sum(i * i for i in range(2_000_000))
work.wait()

### remote calls: to a worker that there is not [] w7
import torch.distributed.rpc as rpc, tempfile
path = [tempfile.mktemp() if rank == 0 else None]
dist.broadcast_object_list(path, 0)
rpc.init_rpc(f"w{rank}", rank=rank, world_size=n,
             rpc_backend_options=rpc.TensorPipeRpcBackendOptions(init_method="file://" + path[0]))
if rank == 0:
    rpc.rpc_sync("w7", torch.add, args=(1, 2))  #!
rpc.shutdown(graceful=False)
"""
