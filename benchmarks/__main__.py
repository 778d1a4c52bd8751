"""Run everything once and print it: launches, beginnings, memory, recording, and the promises."""

import argparse
import os
import platform
import sys
import time
from collections.abc import Callable
from importlib.metadata import version
from typing import TypeVar

from .beginnings import measure_beginnings
from .launches import Contest
from .memory import measure_idle_ranks
from .promises import all_promises
from .report import beginning_table, launch_table, memory_table
from .tables import target_table
from .talking import measure_talking, talking_promises, talking_table
from .tools import TOOLS
from .troubles import broken, troubles

T = TypeVar("T")

WORLD_SIZES = (2, 4)
LARGER = max(WORLD_SIZES)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="few repetitions, for a quick test")
    parser.add_argument("--strict", action="store_true", help="exit status 1 if a target is not met")
    parser.add_argument("--markdown", action="store_true", help="print Markdown tables")
    return parser.parse_args()


def machine() -> str:
    return (
        f"{os.cpu_count()} cores, {platform.system()}, Python {platform.python_version()}, torch {version('torch')}, "
        f"load {os.getloadavg()[0]:.1f} before; medians; every answer was checked."
    )


def said(what: str, measure: Callable[[], T]) -> T:
    """Measure, and print on stderr what is being measured."""
    begin = time.monotonic()
    print(f"{what} ...", end=" ", file=sys.stderr, flush=True)
    found = measure()
    print(f"{time.monotonic() - begin:.0f} s", file=sys.stderr, flush=True)
    return found


def main() -> int:
    asked = arguments()
    rounds, slow_rounds, fresh_starts = (4, 1, 1) if asked.quick else (20, 2, 3)
    heading = machine()
    idle = said("idle ranks", measure_idle_ranks)
    beginnings = said("the beginning of a notebook", lambda: measure_beginnings(LARGER, fresh_starts))
    launches = {
        world_size: said(f"launches of {world_size}", Contest(TOOLS, world_size, rounds, slow_rounds).run)
        for world_size in WORLD_SIZES
    }
    talking = said("what ranks say", lambda: measure_talking(fresh_starts * 3))
    targets = [*all_promises(launches, beginnings, idle, LARGER), *talking_promises(talking)]
    tables = [
        launch_table(launches, asked.markdown),
        beginning_table(beginnings, asked.markdown),
        memory_table(idle, asked.markdown),
        talking_table(talking, asked.markdown),
        target_table(targets, asked.markdown),
    ]
    print(heading, *tables, *troubles(launches, beginnings, idle), sep="\n\n")
    is_unmet = not all(target.met for target in targets)
    return int(broken(launches, beginnings, idle) or (asked.strict and is_unmet))


if __name__ == "__main__":
    sys.exit(main())
