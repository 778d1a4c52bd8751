"""Tensors as plain numbers: parameters as arrays or sketches, samples as a number each.

A sketch of a large tensor is the sum of its elements with random signs, in 512 sums. It is linear: the sketch of a sum
is the sum of the sketches, so factors and means show in it as they do in the tensor, and the distance of two sketches
is near that of the tensors. The signs depend only on the tensor's size, so they are the same on all ranks.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Iterable

import numpy as np
import torch
from torch import Tensor
from torch.distributed.tensor import DTensor
from torch.distributed.tensor._utils import compute_local_shape_and_global_offset
from torch.utils._pytree import tree_leaves

from ddp_lessons.sameness.run_records import Array, Piece

MOST_ELEMENTS = 50_000  # of all parameters of an optimizer: with more of them, sketches are kept
SUMS = 512


def piece_of(tensor: Tensor, as_sketch: bool) -> Piece:
    """The tensor's values now. It makes no collective call: of a DTensor it takes the local shard."""
    shape, offset = tuple(tensor.shape), None
    if isinstance(tensor, DTensor):
        offset = compute_local_shape_and_global_offset(tensor.shape, tensor.device_mesh, tensor.placements)[1]
        tensor = tensor.to_local()
    values = tensor.detach()
    values = values.to("cpu", torch.float64 if values.dtype == torch.float64 else torch.float32, copy=True)
    array = values.to_dense().numpy() if values.is_sparse else values.numpy()
    if as_sketch:
        return Piece(sketch(array, shape, offset), shape, offset, True)
    return Piece(array, shape, offset)


def sketch(values: Array, shape: tuple[int, ...], offset: tuple[int, ...] | None) -> Array:
    """Of a shard: its part of the whole tensor's sketch, where it is a run of rows."""
    total = int(np.prod(shape))
    begin = offset[0] * int(np.prod(shape[1:])) if offset else 0
    before = begin % SUMS
    rows = np.zeros(-(-(before + values.size) // SUMS) * SUMS)
    rows[before : before + values.size] = values.ravel()
    rows[before : before + values.size] *= _signs(total)[begin : begin + values.size]
    return np.asarray(rows.reshape(-1, SUMS).sum(0))


@functools.lru_cache(maxsize=64)
def _signs(number: int) -> Array:
    signs = np.random.default_rng(number).integers(0, 2, number, dtype=np.int8)
    return signs * np.int8(2) - np.int8(1)


def samples_in(inputs: object) -> Array | None:
    """A number for each sample in the tensors that enter a module; None if they come from another module.

    Samples are the rows along the first dimension of the first tensor; tensors with as many rows belong to it.
    """
    tensors = [
        leaf for leaf in tree_leaves(inputs) if isinstance(leaf, Tensor) and leaf.ndim and leaf.layout == torch.strided
    ]
    if not tensors or any(tensor.requires_grad for tensor in tensors):
        return None
    batch = [tensor for tensor in tensors if len(tensor) == len(tensors[0])]
    rows = zip(*(map(_row_bytes, _rows(tensor)) for tensor in batch), strict=True)
    return np.array([_number(row) for row in rows], dtype=np.int64)


def _rows(tensor: Tensor) -> Array:
    plain = tensor.detach().cpu()
    if plain.dtype == torch.bfloat16:
        plain = plain.float()
    return np.ascontiguousarray(plain.numpy())


def _row_bytes(row: Array) -> bytes:
    """Integers without the zeros at their end: a batch of texts is padded to the longest of its own."""
    if row.dtype.kind in "iu" and row.ndim == 1:
        row = np.trim_zeros(row, "b")
    return row.tobytes()


def _number(parts: Iterable[bytes]) -> int:
    return int.from_bytes(hashlib.blake2b(b"|".join(parts), digest_size=8).digest(), "little", signed=True)
