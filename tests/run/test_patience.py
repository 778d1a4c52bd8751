"""What others do to the machine is not counted as a learner's time."""

from __future__ import annotations

import pickle
import re
import sys
import time
import traceback

import pytest
from nights import nightly

from ddp_lessons import WorkersStuck, launch
from ddp_lessons.run.launcher import patience
from ddp_lessons.run.launcher.patience import slowness


@pytest.mark.parametrize(
    ("able_to_run", "factor"),
    [
        (5.0, 1.0),  # four ranks, and a notebook that looks on
        (0.0, 1.0),  # where nothing tells who runs
        (100_000.0, 20.0),  # a runaway ends, however full the machine is
    ],
)
def test_a_second_lasts_longer_only_where_others_want_the_cores(
    able_to_run: float, factor: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(patience, "_able_to_run", lambda: able_to_run)
    assert slowness(4) == factor


@pytest.fixture
def a_full_room(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if thousands wanted each core: seconds last twenty times as long, which is the most."""
    monkeypatch.setattr(patience, "_able_to_run", lambda: 10_000.0)


def compute_for_a_while(rank: int, world_size: int) -> bool:
    while time.process_time() < 0.3:
        pass
    return True


def loop(rank: int, world_size: int) -> None:
    while True:
        rank = rank + 0


def test_in_a_full_room_work_gets_the_time_that_it_would_have_had_alone(a_full_room: None) -> None:
    assert list(launch(compute_for_a_while, 2, timeout_seconds=0.2, quiet=True)) == [True, True]


@nightly
def test_in_a_full_room_what_never_ends_is_ended_all_the_same_and_the_message_says_why_so_late(
    a_full_room: None,
) -> None:
    with pytest.raises(WorkersStuck) as caught:
        launch(loop, 2, timeout_seconds=0.2, quiet=True)
    assert str(caught.value).splitlines()[0] == "timeout, both ranks did not return within 0.2 seconds"
    shown = caught.value._render_traceback_()[-1]
    assert re.fullmatch(
        r"  \(It took \d+ seconds: this machine is busy with other work, so the limit was extended\.\)", shown
    )
    if sys.version_info >= (3, 11):
        assert traceback.format_exception_only(caught.value)[-1].strip("\n") == shown
    assert pickle.loads(pickle.dumps(caught.value)).remark == shown
