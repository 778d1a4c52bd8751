"""What failed in this run of pytest, in a file: tests/stages.py tries it once more and names it at the end."""

from __future__ import annotations

import json
import re
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pytest

_COLORS = re.compile(r"\x1b\[[0-9;]*m")
_OF_NBVAL = "Notebook cell execution failed"  # its first line, whatever the cause


@dataclass(frozen=True)
class Failed:
    """A test, or a lesson of which cells failed."""

    test: str
    cause: str
    again: bool  # may be tried once more
    python: str = sys.executable


class Failures:
    def __init__(self, file: Path) -> None:
        self.file, self.failed = file, dict[str, Failed]()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            place, _, cell = report.nodeid.partition("::")
            test = place if place.endswith(".ipynb") else report.nodeid  # a cell needs those before it
            where = f"{cell}: " if place.endswith(".ipynb") else ""
            self.failed.setdefault(test, Failed(test, where + cause_of(report), "no_second_try" not in report.keywords))

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self.failed[report.nodeid] = Failed(report.nodeid, cause_of(report), again=False)

    def pytest_sessionfinish(self, exitstatus: int) -> None:
        """A file that is missing, or another status than 0 and 1, shows that pytest itself failed.

        A stage may run pytest several times.
        """
        earlier: dict[str, Any] = (
            json.loads(self.file.read_text()) if self.file.exists() else {"status": 0, "failed": []}
        )
        earlier["status"] = max(earlier["status"], exitstatus)
        earlier["failed"] += map(asdict, self.failed.values())
        self.file.write_text(json.dumps(earlier))


def cause_of(report: pytest.TestReport | pytest.CollectReport) -> str:
    """The first line that says why."""
    crash = getattr(report.longrepr, "reprcrash", None)
    text = _COLORS.sub("", crash.message if crash else str(report.longrepr))
    lines = [line.strip() for line in text.splitlines() if line.strip() and line != _OF_NBVAL]
    first = " ".join(lines[: 2 if lines and lines[0].endswith(":") else 1])  # "AssertionError:" alone says nothing
    return first[:300] or "no cause was reported"
