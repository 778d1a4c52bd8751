"""Setup for all tests, and for the lessons that they run: they neither read nor change a contributor's own files."""

from __future__ import annotations

import collections
import json
import os
import pathlib
import signal
import sys

import pytest

os.environ["DDP_LESSONS_PROGRESS"] = "off"
os.environ["DDP_LESSONS_PATIENCE"] = "3"  # messages must not depend on how busy this machine is
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # a background run ignores it, and so would all its processes
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_configure(config: pytest.Config) -> None:
    """DDP_LESSONS_MINUTES names a file for how long each lesson's cells ran, which docs/lesson_table.py reads.

    DDP_LESSONS_FAILURES names a file for the tests that failed, which tests/stages.py reads.
    """
    from time_limit import TimeLimit  # only pytest finds it, and this file is also read without pytest

    config.pluginmanager.register(TimeLimit())
    if hasattr(config, "workerinput"):  # with -n, the controller gets the reports of all workers
        return
    if file := os.environ.get("DDP_LESSONS_MINUTES"):
        config.pluginmanager.register(LessonSeconds(pathlib.Path(file)))
    if file := os.environ.pop("DDP_LESSONS_FAILURES", ""):  # hidden from a pytest that a test runs
        from once_more import Failures

        config.pluginmanager.register(Failures(pathlib.Path(file)))


@pytest.fixture(autouse=True)
def no_exercise_was_tried_before() -> None:
    """A report mentions the hints after three tries, and earlier tests may have made some of them.

    This must not use `monkeypatch`, which would then undo a test's patches only after that test's other fixtures.
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


# in tests/check, rejecting a correct answer or accepting a wrong one is never chance
JUDGED = ("test_right_", "test_wrong_", "test_hanging_", "test_nothing_is_left_")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.parent.name == "check" and item.name.startswith(JUDGED):
            item.add_marker("no_second_try")
