"""Compare the models of all ranks by a fingerprint of eight digits."""

from __future__ import annotations

import hashlib
import itertools

import torch
from torch import nn


def fingerprint(model: nn.Module) -> str:
    """Return 8 hex digits computed from all weights and buffers, which are the same only if all bits are.

    Names don't count, so a model has the same fingerprint inside a wrapper such as DistributedDataParallel.
    """
    digest = hashlib.blake2b(digest_size=4)
    for tensor in itertools.chain(model.parameters(), model.buffers()):
        # the raw bytes: rounded to a few digits, models that drift apart would look equal for a long time
        digest.update(tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()
