"""What ranks tell while they run: it arrives at once, it stays, and a live picture is drawn from it."""

from __future__ import annotations

import itertools
import math
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
import torch
import torch.distributed as dist
from nights import nightly
from notebook_session import NotebookSession

from ddp_lessons import Results, launch, tell

telling: Any = tell  # with any arguments


def test_numbers_and_labels_arrive_by_rank_in_order_and_with_the_times_of_the_events() -> None:
    def run(rank: int, world_size: int) -> None:
        tell(step=1, loss=torch.tensor(1.5) * rank, nothing=math.nan, passed=True)
        dist.barrier()
        tell("done")

    results = launch(run, 2)
    for rank in range(2):
        (barrier,), (before, after) = results.events.of(rank), results.told[rank]
        assert (before.label, before.numbers["loss"], before.numbers["passed"]) == ("", 1.5 * rank, 1.0)
        assert math.isnan(before.numbers["nothing"])
        assert (after.label, after.numbers) == ("done", {})
        assert 0 <= before.seconds <= barrier.begin <= barrier.issued <= after.seconds


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: telling(loss="low"), "tell\\(\\) logs numbers, but loss is a str"),
        (lambda: telling(0.5), r"to name a number, use tell\(loss=0.5\)"),
    ],
)
def test_what_is_no_number_is_refused_also_outside_of_a_launch(call: Any, words: str) -> None:
    with pytest.raises(TypeError, match=words):
        call()


def test_outside_of_a_launch_nothing_happens() -> None:
    tell("alone", loss=1.0)
    script = "from ddp_lessons import tell; tell(loss=1.0); import sys; print('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", script], capture_output=True, check=True).stdout == b"False\n"


def test_without_a_notebook_nothing_is_drawn() -> None:
    def draw(results: Results[Any]) -> object:
        raise AssertionError("nobody looks")

    assert list(launch(lambda rank, world_size: tell(x=1), 1, live=draw)) == [None]


# --- in a notebook --------------------------------------------------------------------------------------------------

_BEGIN = """
import time
from ddp_lessons import launch, show, tell
class Picture:
    def __init__(self, text): self.text = text
    def _repr_mimebundle_(self): return {"text/plain": self.text}, {}
    def _ipython_display_(self): raise RuntimeError("a picture that is to be replaced cannot display itself")
drawn = []
def draw(results):
    drawn.append([[one.numbers["step"] for one in told] for told in results.told])
    return Picture("a live picture")
def run(rank, size):
    for step in range(4):
        tell(step=step)
        time.sleep(0.35)
    return rank
"""


@pytest.fixture(scope="module")
def kernel() -> Iterator[NotebookSession]:
    with NotebookSession() as session:
        assert not session.run(_BEGIN).error
        yield session


@nightly
def test_a_live_picture_is_drawn_while_the_ranks_run_and_once_more_at_the_end(kernel: NotebookSession) -> None:
    cell = kernel.run("drawn.clear(); list(launch(run, 2, live=draw))")
    assert (cell.error, cell.value) == ("", "[0, 1]")
    assert sum(display.get("text/plain") == "a live picture" for display in cell.displays) == 1
    drawn = eval(kernel.run("drawn").value)
    assert len(drawn) >= 3
    assert drawn[0] == [[], []]
    assert drawn[-1] == [[0.0, 1.0, 2.0, 3.0]] * 2
    assert all(earlier[0] == later[0][: len(earlier[0])] for earlier, later in itertools.pairwise(drawn))


@nightly
def test_a_live_chart_has_the_same_forms_from_the_first_picture_to_the_last(kernel: NotebookSession) -> None:
    cell = kernel.run("list(launch(run, 2, live=show.training))")
    assert cell.error == ""
    charts = [data for _, data in cell.updates if data.get("text/plain") == "Training curves."]
    assert len(charts) >= 3
    assert [set(data) for data in charts] == [{"text/html", "image/svg+xml", "text/plain"}] * len(charts)
    assert [display for display in cell.displays if display.get("text/plain") == "Training curves."] == charts[-1:]


@nightly
def test_a_drawing_that_fails_is_said_and_hurts_no_rank(kernel: NotebookSession) -> None:
    cell = kernel.run("list(launch(run, 2, live=lambda results: 1 / 0))")
    assert (cell.error, cell.value) == ("", "[0, 1]")
    assert cell.stream.count("the live picture stopped: ZeroDivisionError") == 1


def test_a_live_picture_of_a_failed_launch_shows_what_was_told(kernel: NotebookSession) -> None:
    cell = kernel.run(
        "drawn.clear()\n"
        "def fail(rank, size):\n    tell(step=5)\n    raise ValueError('lost')\n"
        "launch(fail, 2, live=draw)"
    )
    assert "ValueError: lost" in cell.error
    assert kernel.run("drawn[-1]").value == "[[5.0], [5.0]]"
