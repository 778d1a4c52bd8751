"""What a watched rank leaves behind: plain numbers, step by step, and nothing that needs torch to be read.

In a file they are JSON, so that reading one runs no code of others.
"""

from __future__ import annotations

import base64
import json
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

Array: TypeAlias = npt.NDArray[Any]
ByName: TypeAlias = dict[str, Array]


@dataclass(frozen=True)
class Piece:
    """A tensor, or the shard of it that one rank holds; of a large tensor only its sketch."""

    values: Array
    shape: tuple[int, ...]  # of the whole tensor
    offset: tuple[int, ...] | None = None  # where this shard begins; None: this is the whole tensor
    is_sketch: bool = False


@dataclass(frozen=True)
class StepRecord:
    """One optimizer step of one rank, with what entered the model since the step before."""

    optimizer: str  # its class, and a number where there are several
    samples: tuple[Array, ...]  # of each forward pass, a number for each sample that entered
    settings: dict[str, float]  # the learning rate and the other numbers of the optimizer
    state: float  # the norm of the optimizer state before the step
    syncs: tuple[bool, ...]  # of each forward pass through DDP: does it average gradients?
    kinds: tuple[str, ...]  # what was seen that can be a cause: its key
    precision: float  # the largest eps among the dtypes that the forward passes compute in
    eps: float  # of the parameters' dtype
    fan_in: int  # the largest dimension of a parameter
    before: dict[str, Piece] = field(default_factory=dict)
    gradients: dict[str, Piece] = field(default_factory=dict)
    local: dict[str, Piece] = field(default_factory=dict)  # what this rank's own backward passes gave
    after: dict[str, Piece] = field(default_factory=dict)
    buffers: dict[str, Piece] = field(default_factory=dict)


@dataclass(frozen=True)
class RankRecord:
    """What one rank did. Of the steps beyond the watched ones only the samples and settings are kept."""

    steps: tuple[StepRecord, ...]
    watched: int
    has_ddp: bool  # it made a DistributedDataParallel
    numbers_only: bool = False  # random=["augmentation"]: samples are only counted


@dataclass(frozen=True)
class Run:
    """One training run on `len(ranks)` ranks."""

    ranks: tuple[RankRecord, ...]

    @property
    def world_size(self) -> int:
        return len(self.ranks)

    @property
    def steps(self) -> tuple[int, ...]:
        """How many optimizer steps each rank made."""
        return tuple(len(rank.steps) for rank in self.ranks)

    @property
    def watched(self) -> int:
        """How many steps were recorded with their values on every rank."""
        return min(min(len(rank.steps), rank.watched) for rank in self.ranks)

    def at(self, step: int) -> tuple[StepRecord, ...]:
        return tuple(rank.steps[step] for rank in self.ranks)

    def values(self, what: str, step: int) -> list[ByName]:
        """Of each rank: whole tensors by name, flat. Shards are put together from all ranks."""
        pieces: list[dict[str, Piece]] = [getattr(record, what) for record in self.at(step)]
        shards = {name for by_name in pieces for name, piece in by_name.items() if piece.offset is not None}
        joined = {name: _joined([by_name[name] for by_name in pieces if name in by_name]) for name in shards}
        return [
            {
                name: joined[name] if name in joined else piece.values.astype(float).ravel()
                for name, piece in one.items()
            }
            for one in pieces
        ]

    def samples(self, step: int) -> list[Counter[int]]:
        """Of each rank: the samples that entered the model for this step."""
        return [_entered(rank.steps[step : step + 1]) for rank in self.ranks]

    @cached_property
    def samples_of_ranks(self) -> list[Counter[int]]:
        """Of each rank: the samples that entered the model in the whole run."""
        return [_entered(rank.steps) for rank in self.ranks]

    @cached_property
    def all_samples(self) -> Counter[int]:
        return sum(self.samples_of_ranks, Counter())


def _entered(steps: tuple[StepRecord, ...]) -> Counter[int]:
    return Counter(sample for record in steps for batch in record.samples for sample in batch.tolist())


def _joined(pieces: list[Piece]) -> Array:
    distinct = list({piece.offset: piece for piece in pieces}.values())
    if distinct[0].is_sketch:
        return np.asarray(sum(piece.values.astype(float) for piece in distinct))
    whole = np.zeros(distinct[0].shape)
    for piece in distinct:
        begin = piece.offset or (0,) * whole.ndim
        places = tuple(slice(at, at + size) for at, size in zip(begin, piece.values.shape, strict=True))
        whole[places] = piece.values
    return whole.ravel()


# in files: JSON with an object {"class": ...} for each of ours

_OURS: dict[str, Callable[..., Any]] = {each.__name__: each for each in (Piece, StepRecord, RankRecord)}


class CannotRead(ValueError):
    """A file is missing, or is not a rank's record."""


def file_of(folder: Path, rank: int) -> Path:
    return folder / f"rank-{rank}.json"


def failure_in(folder: Path) -> Path:
    """Where a rank writes why its script failed."""
    return folder / "failure"


def write_record(record: RankRecord, path: Path) -> None:
    path.write_text(json.dumps(record, default=_plain), encoding="utf-8")


def read_record(path: Path) -> RankRecord:
    try:
        record = json.loads(path.read_text(encoding="utf-8"), object_hook=_ours)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise CannotRead(f"{path.name} is not a rank's record ({type(error).__name__}: {error})") from error
    if not isinstance(record, RankRecord):
        raise CannotRead(f"{path.name} is not a rank's record")
    return record


def _plain(value: Any) -> dict[str, Any]:
    if isinstance(value, np.ndarray):
        content = base64.b64encode(np.ascontiguousarray(value).tobytes()).decode()
        return {"class": "array", "dtype": str(value.dtype), "shape": value.shape, "content": content}
    return {"class": type(value).__name__, **vars(value)}


def _ours(fields: dict[str, Any]) -> Any:
    name = fields.pop("class", None)
    if name == "array":
        content = base64.b64decode(fields["content"])
        return np.frombuffer(content, np.dtype(fields["dtype"])).reshape(fields["shape"])
    plain = {key: tuple(value) if isinstance(value, list) else value for key, value in fields.items()}
    return _OURS[name](**plain) if name else plain
