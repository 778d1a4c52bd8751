"""Define the new names of two collectives in torch 2.11 and 2.12.

torch 2.13 renamed `all_gather_into_tensor` and `reduce_scatter_tensor`; 2.13 and 2.14 warn if you call an old name.
"""

from __future__ import annotations

import torch.distributed as dist

if not hasattr(dist, "all_gather_single"):
    setattr(dist, "all_gather_single", dist.all_gather_into_tensor)  # noqa: B010  as a plain one, other releases of torch
    setattr(dist, "reduce_scatter_single", dist.reduce_scatter_tensor)  # noqa: B010  have other types there
