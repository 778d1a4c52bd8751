"""While others keep all cores busy, answers are the same, only later. Only tests in this folder run alone."""

from __future__ import annotations

import os
import pickle
import re
import subprocess
import sys
import time
import traceback
from collections.abc import Iterator

import pytest
import torch
import torch.distributed as dist
from processes import others_computing
from program_trials import complaints_about
from random_programs import random_program

from ddp_lessons import WorkersStuck, launch
from ddp_lessons.run.launcher import patience


@pytest.mark.no_second_try
def test_of_correct_programs_nothing_is_said() -> None:
    with others_computing(os.cpu_count() or 1):
        assert complaints_about(map(random_program, range(1000, 1040))) == []


def test_four_ranks_add_up() -> None:
    def add_up(rank: int, world_size: int) -> float:
        total = torch.ones(1) * rank
        dist.all_reduce(total)
        return total.item()

    with others_computing(2 * (os.cpu_count() or 1)):
        assert [list(launch(add_up, 4, quiet=True)) for _ in range(3)] == [[6.0] * 4] * 3


@pytest.fixture
def a_full_room() -> Iterator[None]:
    """Eight others at each core, as thirty learners are who launch at once, each in a session of its own.

    Linux shares a core among sessions first: all in one would leave half of it to the ranks.
    """
    command, count = [sys.executable, "-c", "while True: pass"], 8 * (os.cpu_count() or 1)
    loops = [subprocess.Popen(command, start_new_session=True) for _ in range(count)]
    try:
        while patience._able_to_run() < len(loops):
            time.sleep(0.01)
        yield
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()


def compute_for_a_while(rank: int, world_size: int) -> bool:
    """Work that takes 0.3 seconds of a core."""
    while time.process_time() < 0.3:
        pass
    return True


def loop(rank: int, world_size: int) -> None:
    while True:
        rank = rank + 0


linux = pytest.mark.skipif(sys.platform != "linux", reason="elsewhere the system tells only the load of a minute")


@linux
def test_in_a_full_room_work_gets_the_time_that_it_would_have_had_alone(a_full_room: None) -> None:
    for _ in range(20):
        begin = time.monotonic()
        assert list(launch(compute_for_a_while, 2, timeout_seconds=0.8, quiet=True)) == [True, True]
        if time.monotonic() - begin > 0.8:
            return  # it took longer than it may, and was let go on
    pytest.fail("the room was never full: this shows nothing")


@linux
def test_in_a_full_room_what_never_ends_is_ended_all_the_same_and_the_message_says_why_so_late(
    a_full_room: None,
) -> None:
    with pytest.raises(WorkersStuck) as caught:
        launch(loop, 2, timeout_seconds=1.5, quiet=True)
    assert str(caught.value).splitlines()[0] == "timeout, both ranks did not return within 1.5 seconds"
    shown = caught.value._render_traceback_()[-1]
    assert re.fullmatch(
        r"  \(It took \d+ seconds: this machine is busy with other work, so the limit was extended\.\)", shown
    )
    if sys.version_info >= (3, 11):
        assert traceback.format_exception_only(caught.value)[-1].strip("\n") == shown
    assert pickle.loads(pickle.dumps(caught.value)).remark == shown
