"""A message on a page of the instructor guide is what is really said, and a command on it has the options named.

What a page shows as typed in (a block of python) is typed into a kernel, and what it shows below as said (a block of
text) has to be in what comes back, line by line.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from lesson_cells import blocks
from nights import nightly
from notebook_session import Cell, NotebookSession

pytestmark = nightly

PROJECT = Path(__file__).parent.parent
GUIDE = PROJECT / "docs" / "instructor"
WRITTEN_BY_HAND = [*GUIDE.rglob("*.md"), PROJECT / "docs" / "participants.md"]
every_lesson_page = pytest.mark.parametrize(
    "page", sorted((GUIDE / "lessons").glob("*.md")), ids=lambda page: page.stem
)

BEGINNING = """
import os, time
import torch, torch.distributed as dist
from torch import nn
from ddp_lessons import check, launch, show
"""


@pytest.fixture(scope="module")
def kernel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NotebookSession]:
    environment = {"DDP_LESSONS_PROGRESS": "off"}
    with NotebookSession(environment, str(tmp_path_factory.mktemp("typed"))) as session:
        assert not session.run(BEGINNING).error
        yield session


def said(cell: Cell) -> str:
    return re.sub(r"\x1b\[[0-9;]*m", "", "\n".join([cell.stream, cell.text, cell.value, cell.error]))


@every_lesson_page
def test_the_messages_of_a_page_are_what_is_really_said(kernel: NotebookSession, page: Path) -> None:
    answer = ""
    for kind, text in blocks(page):
        if kind == "python":
            answer = said(kernel.run(text, timeout_seconds=120))
            continue
        rest = answer
        for line in text.splitlines():
            assert line.strip() in rest, f"{line}\n\nwas not said, but:\n{answer}"
            rest = rest.partition(line.strip())[2]


def test_commands_in_the_guide_have_the_options_that_are_named() -> None:
    text = "\n".join(page.read_text(encoding="utf-8") for page in WRITTEN_BY_HAND)
    commands = set(re.findall(r"-m ddp_lessons ([a-z]+)((?: --[a-z-]+| [A-Z]+)*)", text))
    assert len(commands) >= 4
    for name, options in sorted(commands):
        helped = subprocess.run([sys.executable, "-m", "ddp_lessons", name, "--help"], capture_output=True, text=True)
        assert helped.returncode == 0, name
        assert not [option for option in re.findall(r"--[a-z-]+", options) if option not in helped.stdout], name
