"""Mistakes in whole programs: replicas, sharded models, tensors on a mesh, remote calls, timeouts, groups."""

from __future__ import annotations

from collections.abc import Iterator

_BEGINNINGS = {
    "": "",
    "DDP": """from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
""",
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

### replicas: fewer batches [REPLICA] NEVER_CAME
for _ in range(3 - (rank == 1)):
    model(torch.ones(2, 4)).sum().backward()  #!

### replicas: fewer batches then evaluated [REPLICA] NEVER_CAME
for _ in range(3 - (rank == 1)):
    model(torch.ones(2, 4)).sum().backward()  #!
total = torch.ones(2)
dist.all_reduce(total)

### replicas: joined by one only [REPLICA] Mismatched collectives
if rank == 1:
    with model.join():
        for _ in range(3):
            model(torch.ones(2, 4)).sum().backward()  #!
else:
    for _ in range(3):
        model(torch.ones(2, 4)).sum().backward()  #!

### replicas: made by some [DDP] NEVER_CAME|DDP
model = nn.Linear(4, 2)
if rank != 1:
    model = DDP(model)  #!
for _ in range(2):
    model(torch.ones(2, 4)).sum().backward()

### replicas: other sizes [DDP] same model|sizes of the same param|Shape mismatch
model = DDP(nn.Linear(4, 2 + (rank == 1)))  #!

### replicas: a forward on one only [DDP] Mismatched collectives
model = DDP(nn.Sequential(nn.Linear(4, 2), nn.BatchNorm1d(2)))
model(torch.ones(2, 4)).sum().backward()
if rank == 0:
    model(torch.ones(2, 4))  #!
dist.all_reduce(torch.ones(7))  #!

### replicas: unused on one [DDP] finished reduction|returned without|Mismatched
class Two(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(4, 2), nn.Linear(4, 2)
    def forward(self, x):
        return self.a(x) + (self.b(x) if dist.get_rank() != 1 else 0)
model = DDP(Two())
for _ in range(3):
    model(torch.ones(2, 4)).sum().backward()  #!

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

### sharded: fewer batches [SHARDED] NEVER_CAME
for _ in range(3 - (rank == 1)):
    model(torch.ones(2, 4)).sum().backward()  #!

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

### mesh tensors: gathered on one [MESH] NEVER_CAME
whole = torch.ones(6)
mine = distribute_tensor(whole, mesh, [Shard(0)])
if rank != 1:
    mine.full_tensor()  #!

### mesh tensors: distributed by some [MESH] NEVER_CAME
if rank != 1:
    distribute_tensor(torch.ones(6), mesh, [Shard(0)])  #!

### mesh tensors: redistributed on some [MESH] NEVER_CAME
mine = distribute_tensor(torch.ones(6), mesh, [Shard(0)])
if rank != 1:
    mine = mine.redistribute(mesh, [Replicate()])  #!
dist.barrier()

### groups: made by its members only [] new_group|Mismatched
if rank < 2:
    group = dist.new_group([0, 1])  #!
dist.new_group([1, 2])  #!

### groups: other members [] different groups
group = dist.new_group([0, 1] if rank != 1 else [1, 2])  #!
if rank == 1:
    dist.all_reduce(torch.ones(1), group=group)

### groups: in another order [] different groups
if rank == 1:
    b = dist.new_group([1, 2])  #!
    a = dist.new_group([0, 1])
else:
    a = dist.new_group([0, 1])  #!
    b = dist.new_group([1, 2])

### groups: two groups crosswise [] circle|deadlock
a, b = dist.new_group(), dist.new_group()
first, second = (b, a) if rank == 1 else (a, b)
dist.all_reduce(torch.ones(1), group=first)  #!
dist.all_reduce(torch.ones(1), group=second)  #!

### timeouts: a collective [] but rank 1 did not call it|came too late
group = dist.new_group(timeout=datetime.timedelta(seconds=0.7))
if rank == 1:
    time.sleep(3)
dist.all_reduce(torch.ones(1), group=group)  #!

### timeouts: a wait [] rank 1 did not make the matching call
if rank == 0:
    dist.irecv(torch.ones(1), 1).wait(datetime.timedelta(seconds=0.7))  #!
time.sleep(2)

### timeouts: a wait that is forgiven [] timed out after 0.7 seconds
if rank == 0:
    try:
        dist.irecv(torch.ones(1), 1).wait(datetime.timedelta(seconds=0.7))  #!
    except RuntimeError:
        pass
    time.sleep(2)
dist.barrier()

### timeouts: a monitored barrier [] but rank 1 did not call it|came too late
if rank == 1:
    time.sleep(3)
dist.monitored_barrier(timeout=datetime.timedelta(seconds=0.7))  #!

### timeouts: a monitored barrier that is forgiven [] timed out after
if rank == 1:
    time.sleep(2)
try:
    dist.monitored_barrier(timeout=datetime.timedelta(seconds=0.7))  #!
except RuntimeError:
    pass
dist.barrier()

### coalesced: left out [] Mismatched|Shape mismatch|skipped
with dist._coalescing_manager():
    for i in range(3):
        if (rank, i) != (1, 1):
            dist.all_reduce(torch.ones(4))  #!
dist.barrier()

### coalesced: other shape [] Shape mismatch
with dist._coalescing_manager():  #!
    for i in range(3):
        dist.all_reduce(torch.ones(4 + (rank == 1)))  #!

### coalesced: not by all [] NEVER_CAME
if rank != 1:
    with dist._coalescing_manager():  #!
        dist.all_reduce(torch.ones(4))  #!
        dist.all_reduce(torch.ones(4))

### aborts: while the rank computes [] Shape mismatch
work = dist.all_reduce(torch.ones(5 if rank == 1 else 1), async_op=True)  #!
total = sum(i * i for i in range(2_000_000))
work.wait()

### aborts: in a loop of printing [] Shape mismatch
work = dist.all_reduce(torch.ones(5 if rank == 1 else 1), async_op=True)  #!
for i in range(300):
    print(i)
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
