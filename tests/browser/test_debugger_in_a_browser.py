"""`breakpoint()` in a rank, answered in JupyterLab's own input box."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from jupyter_server import JupyterServer
from playwright.sync_api import Locator, expect
from processes import alive, eventually, processes_named_in
from screen import Screen

TRAIN = """
import os
import torch
import torch.distributed as dist
from ddp_lessons import launch

def train(rank, world_size):
    x = torch.ones(2) * rank
    print("process", os.getpid())
    breakpoint()
    dist.all_reduce(x)
    return x.tolist()

list(launch(train, 2))
"""
PROMPT = """wanted => {
  const boxes = [...document.querySelectorAll('.jp-Stdin-input')]
  return boxes.length == 1 && boxes[0].value == '' && boxes[0] == document.activeElement
    && new RegExp(wanted).test(boxes[0].parentElement.textContent)
}"""


pytestmark = pytest.mark.xdist_group("launches")  # JupyterLab is open there


@pytest.fixture(scope="module")
def notebook(server: JupyterServer, screen: Screen) -> Iterator[Screen]:
    server.write("debugger.ipynb", TRAIN)
    screen.open(server, "debugger.ipynb", cells=1)
    yield screen
    screen.shut_down()


@pytest.fixture
def stopped(notebook: Screen) -> Iterator[list[int]]:
    """Both ranks are at the breakpoint, and the box waits for a command; the ranks' processes."""
    notebook.run_cell(0)
    wait_for_prompt(notebook, rank=0)
    expect(notebook.cell(0)).to_contain_text(re.compile(r"process \d+.*process \d+", re.S))
    yield processes_named_in(notebook.cell(0).inner_text())
    if box(notebook).count():  # the test has failed; JupyterLab runs no other cell while a box waits
        answer(notebook, "q")


def box(notebook: Screen) -> Locator:
    return notebook.cell(0).locator(".jp-Stdin-input")


def wait_for_prompt(notebook: Screen, rank: int) -> None:
    """In an empty box that has the focus; that of the last command goes a moment after its answer has come."""
    notebook.page.wait_for_function(PROMPT, arg=rf"^rank {rank} of 2, cell \[\d+\], line 10> $")


def answer(notebook: Screen, command: str) -> None:
    """Type it where the focus is: nobody has to click."""
    notebook.page.keyboard.type(command)
    notebook.page.keyboard.press("Enter")


def test_a_dialogue_with_two_ranks(notebook: Screen, stopped: list[int]) -> None:
    for command, answered, rank in (
        ("where all", r"rank 0 +stopped at (cell.*line 10:.*)\s+rank 1 +stopped at \1\s", 0),
        ("rank 1", "", 1),
        ("p x", r"tensor\(\[1., 1.\]\)", 1),
    ):
        answer(notebook, command)
        expect(notebook.cell(0)).to_contain_text(re.compile(rf"> +{command}\s+{answered}"))
        wait_for_prompt(notebook, rank)
    answer(notebook, "c")
    wait_for_prompt(notebook, rank=0)
    answer(notebook, "c")
    expect(notebook.cell(0).locator(".jp-OutputArea-executeResult")).to_contain_text("[[1.0, 1.0], [1.0, 1.0]]")
    expect(box(notebook)).to_have_count(0)
    assert notebook.errors() == []
    assert eventually(lambda: not alive(stopped))


def test_quit_ends_all_ranks_and_says_where_they_were(notebook: Screen, dark: None, stopped: list[int]) -> None:
    answer(notebook, "q")
    expect(notebook.cell(0)).to_contain_text("KeyboardInterrupt: you quit the debugger")
    for rank in range(2):
        expect(notebook.cell(0)).to_contain_text(re.compile(rf"rank {rank} +is at cell \[\d+\], line 10: +dist"))
    expect(box(notebook)).to_have_count(0)
    assert eventually(lambda: not alive(stopped))
