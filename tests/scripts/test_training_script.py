"""The training script: on one rank and on two, and the same text as lesson 9 writes."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import IPython.core.magic
import pytest
import torch
from lesson_cells import NOTEBOOKS, cells_of
from nights import nightly
from torch import Tensor
from torch.optim.optimizer import register_optimizer_step_post_hook

from ddp_lessons import Results, launch
from ddp_lessons.capstone.script_sections import BEGIN, FINISHED, continue_with
from ddp_lessons.train.mnist import mnist_folder

(LESSON,) = (path for path in NOTEBOOKS if path.name.startswith("09"))
SCRIPT = FINISHED.read_text(encoding="utf-8")


def train(rank: int, world_size: int, *arguments: str) -> Tensor:
    """Return the final weights."""
    optimizers: list[torch.optim.Optimizer] = []
    register_optimizer_step_post_hook(lambda optimizer, *_: optimizers.append(optimizer))
    sys.argv = ["training.py", "--data", mnist_folder(), *arguments]
    exec(compile(SCRIPT, "training.py", "exec"), {"__name__": "__main__"})
    return torch.cat([weight.detach().flatten() for weight in optimizers[-1].param_groups[0]["params"]])


def launched(ranks: int, *arguments: str) -> Results[Tensor]:
    return launch(train, ranks, *arguments, join=False, quiet=True)


def correct_in(results: Results[Tensor]) -> int:
    return int(re.findall(r"(\d+) of 1001 test images correct", "".join(results.lines[0]))[-1])


@nightly
@pytest.mark.parametrize("more", [(), ("--accumulate", "2")], ids=["", "accumulated"])
def test_one_rank_and_two_end_with_the_same_weights_where_nothing_is_random(more: tuple[str, ...]) -> None:
    (one,), (two, other) = launched(1, *more), launched(2, *more)
    assert torch.equal(two, other)
    torch.testing.assert_close(one, two, rtol=0, atol=1e-5)


@nightly
def test_one_rank_and_two_are_as_accurate_with_bfloat16() -> None:
    one, two = (correct_in(launched(ranks, "--bf16", "1", "--epochs", "2")) for ranks in (1, 2))
    assert min(one, two) > 800
    assert abs(one - two) < 50


def test_the_lesson_writes_the_script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(IPython.core.magic, "register_cell_magic", lambda function: function)
    monkeypatch.chdir(tmp_path)
    sources = [cell.source for cell in cells_of(LESSON, "code")]
    names: dict[str, Any] = {}
    exec(sources[0], names)
    script = Path("train.py")
    script.write_text(BEGIN.read_text(encoding="utf-8"), encoding="utf-8")
    for source in sources:
        first, _, diff = source.partition("\n")
        if first == "%%patch train.py":
            before = script.read_text(encoding="utf-8")
            names["patch"]("train.py", f"{diff}\n")
            assert script.read_text(encoding="utf-8") != before
            names["patch"]("train.py", f"{diff}\n")  # a cell that runs again changes nothing
        for section in re.findall(r'^continue_with\("(\w+)"\)', source, re.M):
            continue_with(section)
    assert script.read_text(encoding="utf-8") == SCRIPT


def test_the_script_has_at_most_70_code_lines_and_needs_only_torch() -> None:
    lines = [line.strip() for line in SCRIPT.splitlines()]
    assert sum(not line.startswith(("#", '"""')) for line in lines if line) <= 70
    assert "ddp_lessons" not in SCRIPT
