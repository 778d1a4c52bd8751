"""Functions that lessons 10 and 15 define in cells, with any number of ranks, and without a warning of torch's."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import nbformat
import pytest
import torch
from nights import by_day, nightly
from torch import Tensor, nn
from torch.distributed.checkpoint.filesystem import FileSystemReader

from ddp_lessons import launch

NOTEBOOKS = Path(__file__).parents[2] / "notebooks"


def cells(lesson: str, *names: str) -> str:
    read: Any = nbformat.read
    sources = {cell.id: cell.source for cell in read(NOTEBOOKS / f"{lesson}.ipynb", as_version=4).cells}
    return "\n\n".join(sources[name] for name in names)


@contextmanager
def defined(code: str) -> Iterator[dict[str, Any]]:
    names: dict[str, Any] = {"torch": torch, "BatchNorm1d": nn.BatchNorm1d, "compare": id}
    with warnings.catch_warnings():
        warnings.simplefilter("error", FutureWarning)  # what torch has deprecated is no example
        exec(code, names)
        yield names


def gradient(rank: int, world_size: int, code: str, norm: str) -> Tensor:
    with defined(code) as names:
        found: Tensor = names["gradient"](rank, world_size, names[norm](8))[0]
    return found


@pytest.mark.parametrize("ranks", by_day([2, 4], 1))
def test_the_synced_norm_gives_the_gradient_of_torchs_own_on_one_rank(ranks: int) -> None:
    code = cells("10_same_accuracy", "imports", "norm-code", "sync-function", "sync-code")
    one = launch(gradient, 1, code, "BatchNorm1d", quiet=True)[0]
    for found in launch(gradient, ranks, code, "SyncedNorm", quiet=True):
        torch.testing.assert_close(found, one)


def sharded(rank: int, world_size: int, code: str, load: bool, folder: str) -> Any:
    with defined(code) as names:
        return names["save_or_load"](rank, world_size, names["dcp"].load if load else names["dcp"].save, folder)


@nightly
@pytest.mark.parametrize(("before", "after"), by_day([(2, 3), (3, 1)], 1))
def test_a_sharded_checkpoint_is_the_same_on_another_number_of_ranks(before: int, after: int, tmp_path: Path) -> None:
    code = cells("15_after_ddp", "imports", "dcp-code")
    saved = launch(sharded, before, code, False, str(tmp_path), quiet=True)
    assert set(FileSystemReader(tmp_path).read_metadata().state_dict_metadata) >= {"model.weight", "model.bias"}
    loaded = launch(sharded, after, code, True, str(tmp_path), quiet=True)
    assert [values for _, values in loaded] == [saved[0][1]] * after
    assert sum(rows for rows, _ in loaded) == 10
