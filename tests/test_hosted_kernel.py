"""A kernel as hosts start it: root, little shared memory, few cores, and a page that shows only HTML."""

from __future__ import annotations

import os
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from nights import nightly
from notebook_session import NotebookSession

pytestmark = nightly

TINY = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c"]
MOUNT = 'mount -t tmpfs -o size=64k none /dev/shm && exec "$@"'

BEGIN = """
import torch, torch.distributed as dist
from torch.utils.data import DataLoader
from ddp_lessons import launch, quiz, show, tell
from ddp_lessons.train import ring
%load_ext ddp_lessons
"""
AVERAGE = """
def average(rank, world_size):
    large = torch.full((1_000_000,), float(rank))
    dist.all_reduce(large)
    tell("sum", value=large[0].item())
    print("rank", rank, "has", large[0].item())
    return large

results = launch(average, 2)
print([len(value) for value in results])
"""
LOAD = """
def load(rank, world_size):
    for batch in DataLoader(torch.ones(64, 100_000), batch_size=32, num_workers=1):
        batch.sum()

launch(load, 2)
"""
HANG = """
def hang(rank, world_size):
    while True:
        pass

launch(hang, 2)
"""
LIVING = {
    "show.timeline(launch(average, 2))": "all_reduce",
    "show.ring(ring.ring_all_reduce)": "rank 0",
    "launch(average, 2, live=show.training);": "Training curves",
    "quiz.questions(1)": "Lesson 1: 7 questions",
}


@pytest.fixture(scope="module")
def kernel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NotebookSession]:
    if subprocess.run([*TINY, MOUNT, "sh", "true"], capture_output=True).returncode != 0:
        pytest.skip("this machine lets nobody mount a small /dev/shm in a namespace")
    cores = ",".join(map(str, sorted(os.sched_getaffinity(0))[:2]))
    prefix = ["taskset", "--cpu-list", cores, *TINY, MOUNT, "sh"]
    folder = tmp_path_factory.mktemp("content")
    with NotebookSession({"PYTHONPATH": str(Path(__file__).parent.parent)}, str(folder), prefix=prefix) as session:
        assert session.run(BEGIN).error == session.run(AVERAGE).error == ""
        shared = session.run("import os; memory = os.statvfs('/dev/shm'); print(memory.f_blocks * memory.f_frsize)")
        assert shared.stream == "65536\n"
        yield session


def test_values_that_are_larger_than_the_shared_memory_come_back(kernel: NotebookSession) -> None:
    cell = kernel.run(AVERAGE)
    assert "[1000000, 1000000]" in cell.stream, cell.error
    assert "rank 1 has 1.0" in cell.text


@pytest.mark.parametrize(("source", "words"), LIVING.items())
def test_what_lives_in_a_page_is_html_and_needs_no_widget(kernel: NotebookSession, source: str, words: str) -> None:
    cell = kernel.run(source)
    assert cell.error == ""
    shown = [kinds for kinds in cell.displays if "<script" in kinds.get("text/html", "")]
    assert shown
    assert words in "".join(kinds["text/plain"] for kinds in shown)
    assert not any("widget" in kind for kinds in cell.displays for kind in kinds)


def test_ranks_that_stay(kernel: NotebookSession) -> None:
    said = kernel.run("%%ranks 2\nx = torch.ones(1) * rank\ndist.all_reduce(x)\nprint('sum', x.item())").text
    assert sorted(line for line in said.splitlines() if "sum" in line) == ["rank 0 | sum 1.0", "rank 1 | sum 1.0"]
    assert "stopped 2 ranks" in kernel.run("%ranks stop").stream


def test_workers_of_a_loader_that_find_too_little_shared_memory_are_told_how_to_do_without(
    kernel: NotebookSession,
) -> None:
    said = kernel.run(LOAD, 120).error
    assert "WorkerFailed" in said
    assert "Next: use num_workers=0" in said


def test_the_stop_button_stops_the_ranks_and_the_next_launch_works(kernel: NotebookSession) -> None:
    request = kernel.begin(HANG)
    stop = threading.Timer(3.0, kernel.interrupt)  # a host's button sends the same signal
    stop.start()
    assert kernel.finish(request).error_name == "Interrupted"
    assert "rank 0 has 1.0" in kernel.run(AVERAGE).text
