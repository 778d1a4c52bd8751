"""What `srun` starts by hand: one all_reduce, joined by the variables of its tasks."""

import os
import sys

import torch
import torch.distributed as dist

rank, world_size = int(os.environ["SLURM_PROCID"]), int(os.environ["SLURM_NTASKS"])
dist.init_process_group("gloo", init_method=sys.argv[1], rank=rank, world_size=world_size)
total = torch.tensor(float(rank))
dist.all_reduce(total)
print(total.item())
dist.destroy_process_group()
