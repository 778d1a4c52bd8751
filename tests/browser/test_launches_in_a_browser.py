"""While ranks run: what they print is seen at once, the stop button stops them, a restart leaves nothing behind."""

from __future__ import annotations

import re
from collections.abc import Iterator

import psutil
import pytest
from jupyter_server import JupyterServer
from playwright.sync_api import expect
from processes import alive, eventually, processes_named_in
from screen import Screen

TALK = """
import os, time
from ddp_lessons import launch

def talk(rank, world_size):
    print("process", os.getpid(), "begins")
    while not os.path.exists("go"):
        time.sleep(0.02)
    print("and ends")

launch(talk, 2);
"""
ADD_UP = """
import torch
import torch.distributed as dist
from ddp_lessons import launch

def add_up(rank, world_size):
    total = torch.ones(1) * rank
    dist.all_reduce(total)
    return total.item()

list(launch(add_up, 3))
"""
LIVE = """
import time
from ddp_lessons import launch, show, tell

def train(rank, world_size):
    for step in range(10**9):
        tell(step=step, loss=1 / (step + 1))
        time.sleep(0.02)

launch(train, 2, live=show.training)
"""
FAIL = (
    "def share(rank):\n    return 1 / rank",
    "print('a line\\n' * 200)",
    "launch(lambda rank, size: share(rank), 2)",
)
A_NUMBER = re.compile(r"\[\d+\]:")


pytestmark = pytest.mark.xdist_group("launches")  # they share one open notebook


def test_the_card_of_a_failure_leads_to_the_cell_that_it_names(server: JupyterServer, screen: Screen) -> None:
    server.write("failing.ipynb", "from ddp_lessons import launch", *FAIL)
    screen.open(server, "failing.ipynb", cells=4)
    screen.choose("Run", "Run All Cells")
    link = screen.page.get_by_role("link", name="cell [2]")
    link.scroll_into_view_if_needed()
    named = screen.page.get_by_text("def share(rank):")
    expect(named).not_to_be_in_viewport()
    link.click()
    expect(named).to_be_in_viewport()
    screen.shut_down()


@pytest.fixture(scope="module")
def notebook(server: JupyterServer, screen: Screen) -> Iterator[Screen]:
    server.write("talk.ipynb", TALK, ADD_UP, LIVE)
    screen.open(server, "talk.ipynb", cells=3)
    yield screen
    screen.shut_down()


@pytest.fixture
def talking(server: JupyterServer, notebook: Screen) -> list[int]:
    """The first cell runs and has shown something; the ranks' processes."""
    (server.notebooks / "go").unlink(missing_ok=True)
    notebook.run_cell(0)
    expect(notebook.prompt(0)).to_have_text("[*]:")
    expect(notebook.output(0)).to_contain_text(re.compile(r"process.*begins.*process.*begins", re.S))
    processes = processes_named_in(notebook.output(0).inner_text())
    assert len(processes) == 2
    return processes


def test_output_is_seen_before_the_cell_ends(server: JupyterServer, notebook: Screen, talking: list[int]) -> None:
    assert notebook.prompt(0).inner_text() == "[*]:"
    assert "and ends" not in notebook.output(0).inner_text()
    (server.notebooks / "go").touch()
    expect(notebook.output(0)).to_contain_text(re.compile(r"and ends.*and ends", re.S))
    expect(notebook.prompt(0)).to_have_text(A_NUMBER)
    assert notebook.errors() == []


def test_the_stop_button_stops_the_ranks_and_says_where_they_were(notebook: Screen, talking: list[int]) -> None:
    notebook.page.get_by_role("button", name="Interrupt the kernel").click()
    expect(notebook.prompt(0)).to_have_text(A_NUMBER)
    expect(notebook.cell(0)).to_contain_text("you stopped the ranks")
    for rank in range(2):
        expect(notebook.cell(0)).to_contain_text(
            re.compile(rf"rank {rank} +is at cell \[\d+\], line 7: +time\.sleep\(0\.02\)")
        )
    assert alive(talking) == []
    notebook.run_cell(1)
    expect(notebook.output(1)).to_have_text("[3.0, 3.0, 3.0]")


def test_the_curves_of_a_training_that_is_stopped_stay(notebook: Screen) -> None:
    notebook.run_cell(2)
    curves = notebook.cell(2).locator(".ddp-figure")  # above or below the line that says how many ranks run
    expect(curves).to_be_visible()
    expect(curves).not_to_contain_text("No values yet")  # the picture is there before the ranks
    notebook.page.get_by_role("button", name="Interrupt the kernel").click()
    expect(notebook.prompt(2)).to_have_text(A_NUMBER)
    expect(notebook.cell(2)).to_contain_text("The values that they logged with tell() are in sys.last_value.results.")
    expect(curves).to_contain_text("loss")
    notebook.run_cell(1)
    expect(notebook.output(1)).to_have_text("[3.0, 3.0, 3.0]")


@pytest.mark.no_second_try
def test_a_restart_during_a_launch_leaves_no_process_behind(
    server: JupyterServer, notebook: Screen, talking: list[int]
) -> None:
    kernel = server.kernel_above(talking[0])
    all_of_it = [kernel, *kernel.children(recursive=True)]
    assert len(all_of_it) > len(talking)
    notebook.page.get_by_role("button", name="Restart the kernel", exact=True).click()
    notebook.accept()
    assert eventually(lambda: not any(map(psutil.Process.is_running, all_of_it))), all_of_it
    notebook.wait_for_kernel()
    notebook.run_cell(1)
    expect(notebook.output(1)).to_have_text("[3.0, 3.0, 3.0]")
