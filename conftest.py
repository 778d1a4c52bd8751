"""For all tests, and the lessons that they run: nothing of who works on the course changes, or is changed by, them."""

from __future__ import annotations

import collections
import json
import os
import pathlib
import signal
import sys

import pytest

os.environ["DDP_LESSONS_PROGRESS"] = "off"
os.environ["DDP_LESSONS_PATIENCE"] = "3"  # what is said must not depend on how busy this machine is
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # a run in the background ignores it, and so would all it starts
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_configure(config: pytest.Config) -> None:
    """DDP_LESSONS_MINUTES names a file: there docs/lesson_table.py finds how long each lesson's cells ran.

    DDP_LESSONS_FAILURES names another: there tests/stages.py finds which tests failed.
    """
    from time_limit import TimeLimit  # found by pytest only, and this file is also read without it

    config.pluginmanager.register(TimeLimit())
    if hasattr(config, "workerinput"):  # with -n the reports of all workers come to one that is none
        return
    if file := os.environ.get("DDP_LESSONS_MINUTES"):
        config.pluginmanager.register(LessonSeconds(pathlib.Path(file)))
    if file := os.environ.pop("DDP_LESSONS_FAILURES", ""):  # not for a pytest that a test runs
        from once_more import Failures

        config.pluginmanager.register(Failures(pathlib.Path(file)))


@pytest.fixture(autouse=True)
def no_exercise_was_tried_before() -> None:
    """After three tries a report mentions the hints, and the tests before this one have tried, too.

    It must not ask for `monkeypatch`, which would then undo a test's patches after that test's other fixtures.
    """
    if (kept := sys.modules.get("ddp_lessons.check.progress_file")) is not None:
        kept._not_yet_written.clear()


class LessonSeconds:
    def __init__(self, file: pathlib.Path) -> None:
        self.file, self.seconds = file, collections.defaultdict[str, float](float)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        notebook, _, cell = report.nodeid.partition("::")
        if report.when == "call" and notebook.endswith(".ipynb") and cell:  # not the start of the kernel
            self.seconds[pathlib.PurePosixPath(notebook).stem] += report.duration

    def pytest_sessionfinish(self) -> None:
        self.file.write_text(json.dumps(self.seconds, indent=1, sort_keys=True) + "\n", encoding="utf-8")


# in tests/check: a right answer that is refused or a wrong one that is accepted is never chance
JUDGED = ("test_right_", "test_wrong_", "test_hanging_", "test_nothing_is_left_")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.parent.name == "check" and item.name.startswith(JUDGED):
            item.add_marker("no_second_try")
