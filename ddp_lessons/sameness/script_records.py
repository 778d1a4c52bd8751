"""Records of the ranks of a script, in files: numbers and JSON only, so that reading one runs no code of others."""

from __future__ import annotations

import dataclasses
import json
import zipfile
from pathlib import Path
from typing import Any

import numpy as np

from ddp_lessons.sameness.run_records import Array, Piece, RankRecord, StepRecord

_BY_NAME = ("before", "gradients", "local", "after", "buffers")


class CannotRead(ValueError):
    """A file is missing, or holds no record of a rank."""


def file_of(folder: Path, rank: int) -> Path:
    return folder / f"rank-{rank}.npz"


def write_record(record: RankRecord, path: Path) -> None:
    arrays: dict[str, Array] = {}

    def plain(value: Any) -> Any:
        if isinstance(value, np.ndarray):
            arrays[f"array {len(arrays)}"] = value
            return {"array": len(arrays) - 1}
        if dataclasses.is_dataclass(value):
            return {field.name: plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
        if isinstance(value, dict):
            return {name: plain(one) for name, one in value.items()}
        return [plain(one) for one in value] if isinstance(value, (list, tuple)) else value

    text = json.dumps(plain(record))
    with path.open("wb") as file:
        np.savez(file, record=np.frombuffer(text.encode(), np.uint8), **arrays)  # type: ignore[arg-type]


def read_record(path: Path) -> RankRecord:
    try:
        with np.load(path, allow_pickle=False) as arrays:
            plain = json.loads(arrays["record"].tobytes())
            steps = tuple(_step(step, arrays) for step in plain.pop("steps"))
            return RankRecord(steps, **plain)
    except (OSError, ValueError, KeyError, TypeError, AttributeError, zipfile.BadZipFile) as error:
        raise CannotRead(f"{path.name} holds no record of a rank ({type(error).__name__}: {error})") from error


def _step(plain: dict[str, Any], arrays: Any) -> StepRecord:
    for what in _BY_NAME:
        plain[what] = {name: _piece(piece, arrays) for name, piece in plain[what].items()}
    plain["samples"] = tuple(_array(batch, arrays) for batch in plain["samples"])
    for what in ("syncs", "kinds"):
        plain[what] = tuple(plain[what])
    return StepRecord(**plain)


def _piece(plain: dict[str, Any], arrays: Any) -> Piece:
    offset = None if plain["offset"] is None else tuple(plain["offset"])
    return Piece(_array(plain["values"], arrays), tuple(plain["shape"]), offset, plain["is_sketch"])


def _array(plain: dict[str, int], arrays: Any) -> Array:
    return np.asarray(arrays[f"array {plain['array']}"])
