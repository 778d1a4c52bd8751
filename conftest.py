"""For all tests, and the lessons that they run: nothing of who works on the course changes, or is changed by, them."""

from __future__ import annotations

import collections
import json
import os
import pathlib
import signal

import pytest

os.environ["DDP_LESSONS_PROGRESS"] = "off"
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # a run in the background ignores it, and so would all it starts
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Of a bank of answers to an exercise `make test` tries a few, evenly from first to last, and reports the others
# as deselected. All of them are tried by `make test-all`, and where somebody asks for a test by its name.
OF_A_BANK = (
    "test_right_answers_pass",
    "test_wrong_answers_are_refused_by_name",
    "test_wrong_scripts_are_refused_by_name",
)
A_FEW = 12


def pytest_configure(config: pytest.Config) -> None:
    """DDP_LESSONS_MINUTES names a file: there `python -m benchmarks.minutes` finds how long each lesson's cells ran."""
    file = os.environ.get("DDP_LESSONS_MINUTES")
    if file and not hasattr(config, "workerinput"):  # with -n the reports of all workers come to one that is none
        config.pluginmanager.register(LessonSeconds(pathlib.Path(file)))


class LessonSeconds:
    def __init__(self, file: pathlib.Path) -> None:
        self.file, self.seconds = file, collections.defaultdict[str, float](float)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        notebook, _, cell = report.nodeid.partition("::")
        if report.when == "call" and notebook.endswith(".ipynb") and cell:  # not the start of the kernel
            self.seconds[pathlib.PurePosixPath(notebook).stem] += report.duration

    def pytest_sessionfinish(self) -> None:
        self.file.write_text(json.dumps(self.seconds, indent=1, sort_keys=True) + "\n", encoding="utf-8")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    from effort import EVERYTHING  # found by pytest only, and this file is also read without it

    asked_by_name = config.option.keyword or any("::" in argument for argument in config.args)
    if EVERYTHING or asked_by_name:
        return
    banks: dict[str, list[pytest.Item]] = {}
    for item in items:
        test, _, _ = item.nodeid.partition("[")
        if test.endswith(OF_A_BANK):
            banks.setdefault(test, []).append(item)
    left = {item for bank in banks.values() for item in set(bank) - set(a_few_of(bank))}
    config.hook.pytest_deselected(items=[item for item in items if item in left])
    items[:] = [item for item in items if item not in left]


def a_few_of(bank: list[pytest.Item]) -> list[pytest.Item]:
    if len(bank) <= A_FEW:
        return bank
    return [bank[number * len(bank) // A_FEW] for number in range(A_FEW)]
