"""The page to print, "It hangs. What now?": it fits on a page, and the names on it are torch's own."""

from __future__ import annotations

import mmap
import pkgutil
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from nights import nightly

PAGE = Path(__file__).parents[2] / "docs" / "it_hangs.md"
TORCH = Path(torch.__file__).parent
IS_OLD = tuple(map(int, torch.__version__.split(".")[:2])) < (2, 13)


def test_ten_steps_each_with_a_command_fit_on_a_page() -> None:
    text = PAGE.read_text(encoding="utf-8")
    steps = re.split(r"^(?=\*\*\d+\.)", text, flags=re.M)[1:]
    assert [int(step[2:].partition(".")[0]) for step in steps] == list(range(1, 11))
    for step in steps:
        assert re.search(r"^    \S", step, re.M), step
    assert text.count("\n") <= 85  # A4 at 10 points has about that many lines of 120 characters


@pytest.mark.skipif(IS_OLD, reason="torch before 2.13 has other names for some variables")
def test_torch_reads_every_variable_that_the_page_sets() -> None:
    names = set(re.findall(r"\bTORCH_[A-Z_]+\b", PAGE.read_text(encoding="utf-8")))
    headers = "".join(file.read_text() for file in (TORCH / "include/torch/csrc/distributed/c10d").rglob("*.hpp"))
    library = next(iter((TORCH / "lib").glob("libtorch_cpu.*")))
    with library.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        unknown = {name for name in names if name not in headers and content.find(name.encode()) < 0}
    assert names
    assert not unknown


def test_torch_has_every_function_that_the_page_calls() -> None:
    names = re.findall(r"`(torch\.[\w.]+)\(", PAGE.read_text(encoding="utf-8"))
    assert names
    for name in names:
        assert callable(pkgutil.resolve_name(name)), name


@nightly
def test_the_analyzer_of_torch_has_the_option_that_the_page_uses() -> None:
    command = [sys.executable, "-m", "torch.distributed.flight_recorder.fr_trace", "--help"]
    said = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True).stdout
    (option,) = re.findall(r"torchfrtrace (--\w+)", PAGE.read_text(encoding="utf-8"))
    assert option in said
