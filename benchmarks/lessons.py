"""All lessons, run repeatedly and compared with their stored outputs: how long does it take, and does it ever fail?"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from dataclasses import dataclass

from .load import busy_cores
from .measurement import Target, at_most
from .tables import plain_table, target_table

LONGEST_SECONDS = 240.0
COMMAND = ("make", "--no-print-directory", "lessons")


@dataclass(frozen=True)
class Run:
    """One run of the whole course."""

    seconds: float
    passed: bool
    last_line: str
    output: str


def run_all() -> Run:
    begin = time.monotonic()
    ended = subprocess.run(COMMAND, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    seconds = time.monotonic() - begin
    lines = [line for line in ended.stdout.splitlines() if " passed" in line or " failed" in line] or [""]
    return Run(seconds, ended.returncode == 0, lines[-1].strip("= "), ended.stdout)


def promises(runs: list[Run], loaded: bool) -> list[Target]:
    failures = at_most("runs that failed", sum(not run.passed for run in runs), 0, "")
    if loaded:
        return [failures]  # the time next to another process depends on this
    return [failures, at_most("the slowest run", max(run.seconds for run in runs), LONGEST_SECONDS)]


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.lessons", description=__doc__)
    parser.add_argument("--times", type=int, default=10, help="number of runs (10)")
    parser.add_argument("--load", type=int, default=0, metavar="CORES", help="keep so many cores busy at the same time")
    return parser.parse_args()


def main() -> int:
    asked = arguments()
    runs: list[Run] = []
    with busy_cores(asked.load):
        for number in range(1, asked.times + 1):
            runs.append(run_all())
            print(f"{number}: {runs[-1].seconds:.0f} s, {runs[-1].last_line}", flush=True)
            if not runs[-1].passed:
                print(runs[-1].output)
    rows = [(str(number), f"{run.seconds:.0f}", run.last_line) for number, run in enumerate(runs, 1)]
    targets = promises(runs, bool(asked.load))
    print("", plain_table(("run", "seconds", "what pytest says"), rows), "", sep="\n")
    print(target_table(targets, markdown=False))
    return int(not all(target.met for target in targets))


if __name__ == "__main__":
    sys.exit(main())
