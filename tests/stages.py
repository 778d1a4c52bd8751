"""Run the make targets that are named, all of them even if one fails; then try again, alone, what failed.

A test that passes at the second try is a flake: a defect of the test or of the product, named at the end and in
build/flakes.json. If more than three tests failed, or one that must never fail, none is tried again.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pytest
from once_more import Failed

MOST_AGAIN = 3
FOLDER = Path("build", "stages")
FLAKES = Path("build", "flakes.json")


def main(stages: Sequence[str]) -> int:
    FOLDER.mkdir(parents=True, exist_ok=True)
    FLAKES.unlink(missing_ok=True)
    lines, failed, broken = list[str](), list[Failed](), False
    for stage in stages:
        begin = time.monotonic()
        of_stage, is_broken = run(["make", "--no-print-directory", stage], FOLDER / f"{stage}.json")
        lines.append(f"{stage}: {time.monotonic() - begin:.0f} s{', FAILED: see its messages' if is_broken else ''}")
        failed, broken = failed + of_stage, broken or is_broken
    flakes = [one for one in failed if passes_alone(one)] if may_be_tried_again(failed) else []
    FLAKES.write_text(json.dumps([{"test": one.test, "cause": one.cause} for one in flakes], indent=1) + "\n")
    print("\n" + "\n".join(lines))
    for one in failed:
        print(f"{'FLAKE ' if one in flakes else 'FAILED'} {one.test}\n       {one.cause}")
    return int(broken or len(flakes) < len(failed))


def run(command: Sequence[str], file: Path) -> tuple[list[Failed], bool]:
    """The tests that failed, and whether anything else did."""
    file.unlink(missing_ok=True)
    status = subprocess.run(command, env={**os.environ, "DDP_LESSONS_FAILURES": str(file)}).returncode
    said = json.loads(file.read_text()) if file.exists() else {"status": None, "failed": []}
    failed = [Failed(**one) for one in said["failed"]]
    return failed, status != 0 and (not failed or said["status"] != pytest.ExitCode.TESTS_FAILED)


def may_be_tried_again(failed: Sequence[Failed]) -> bool:
    return len(failed) <= MOST_AGAIN and all(one.again and Path(one.python).exists() for one in failed)


def passes_alone(one: Failed) -> bool:
    print(f"\nonce more, alone: {one.test}", flush=True)
    is_lesson = one.test.endswith(".ipynb")
    command = [one.python, "-m", "pytest", *(["--nbval"] if is_lesson else ["-m", ""]), one.test]
    return run(command, FOLDER / "again.json") == ([], False)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
