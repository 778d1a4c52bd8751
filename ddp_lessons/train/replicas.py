"""Are the models of all ranks still equal? A fingerprint of eight digits for each rank's model."""

from __future__ import annotations

import hashlib
import itertools

import torch
from torch import nn


def fingerprint(model: nn.Module) -> str:
    """Return 8 hex digits made from all weights and buffers, which are equal only if all bits are equal.

    Names don't count, so wrapping a model, for example in DistributedDataParallel, doesn't change its fingerprint.
    """
    digest = hashlib.blake2b(digest_size=4)
    for tensor in itertools.chain(model.parameters(), model.buffers()):
        # the raw bytes: rounded to a few digits, models that drift apart would look equal for a long time
        digest.update(tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()
