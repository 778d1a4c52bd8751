"""What others do to the machine is not counted as a learner's time: tried beside real load."""

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

from ddp_lessons import WorkersStuck, launch
from ddp_lessons.run.launcher import patience
from ddp_lessons.run.launcher.patience import OwnTime, slowness


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


def compute(rank: int, world_size: int) -> bool:
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
        assert list(launch(compute, 2, timeout_seconds=0.8, quiet=True)) == [True, True]
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


def test_on_a_quiet_machine_a_second_is_a_second(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patience, "_able_to_run", lambda: 5.0)  # four ranks, and a notebook that looks on
    assert slowness(4) == 1.0
    own, begin = OwnTime(4), time.monotonic()
    time.sleep(0.1)
    assert own.seconds() == pytest.approx(time.monotonic() - begin, abs=0.05)


def test_where_nothing_tells_who_runs_seconds_are_those_of_the_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patience, "_able_to_run", lambda: 0.0)
    assert slowness(2) == 1.0


def test_a_runaway_ends_however_full_the_machine_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patience, "_able_to_run", lambda: 100_000.0)
    assert slowness(4) == 20.0
