"""What others do to the machine is not counted as a learner's time. tests/timing/test_under_load.py has the load."""

from __future__ import annotations

import time

import pytest

from ddp_lessons.run.launcher import patience
from ddp_lessons.run.launcher.patience import OwnTime, slowness


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
