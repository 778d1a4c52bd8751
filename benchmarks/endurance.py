"""Five hundred launches in a row from one kernel: is there a leak?"""

import argparse
import os
import sys
from dataclasses import astuple, dataclass, fields
from pathlib import Path

from .family import MEGABYTE, resident_set_size
from .kernel import Kernel, peer_cell
from .tables import table

WORLD_SIZE = 4
EARLY = 50
TIMEOUT_SECONDS = 600.0
ALLOWED_MEGABYTES = 5.0

LAUNCHES = f"""
import time
begin = time.perf_counter()
wrong = sum(answers({WORLD_SIZE}) != {[WORLD_SIZE * (WORLD_SIZE - 1) / 2] * WORLD_SIZE} for _ in range({{count}}))
said = (time.perf_counter() - begin, wrong)
"""


@dataclass(frozen=True)
class Footprint:
    """The memory and processes of a kernel and its helpers at one moment."""

    file_descriptors_of_the_kernel: float
    threads_of_the_kernel: float
    processes_beside_the_kernel: float
    file_descriptors_of_the_helpers: float
    entries_in_the_temporary_folder: float
    entries_in_dev_shm: float
    megabytes_of_the_kernel: float
    megabytes_of_the_template: float


def footprint(kernel: Kernel) -> Footprint:
    kernel.family.settle()
    helpers = kernel.family.descendants()
    return Footprint(
        entries(f"/proc/{kernel.family.root}/fd"),
        entries(f"/proc/{kernel.family.root}/task"),
        len(helpers),
        sum(entries(f"/proc/{helper}/fd") for helper in helpers),
        sum(len(folders) + len(files) for _, folders, files in os.walk(kernel.folder.name)),
        entries("/dev/shm"),
        resident_set_size(kernel.family.root) / MEGABYTE,
        resident_set_size(min(helpers, default=0)) / MEGABYTE,  # the first process started
    )


def entries(folder: str) -> int:
    try:
        return len(list(Path(folder).iterdir()))
    except OSError:
        return 0


@dataclass(frozen=True)
class Endurance:
    """The same kernel, early and late in the run."""

    launches: int
    early: Footprint
    late: Footprint
    early_seconds: float
    late_seconds: float
    wrong: int


def endure(launches: int) -> Endurance:
    """Launch, measure, launch many more times, and measure again; seconds are per launch."""
    with Kernel() as kernel:
        kernel.run(peer_cell("ours"), timeout_seconds=TIMEOUT_SECONDS)
        kernel.family.settle()
        early_seconds, early_wrong = kernel.run(LAUNCHES.format(count=EARLY), "said", TIMEOUT_SECONDS)
        early = footprint(kernel)
        more = launches - EARLY
        late_seconds, late_wrong = kernel.run(LAUNCHES.format(count=more), "said", TIMEOUT_SECONDS)
        late = footprint(kernel)
    return Endurance(launches, early, late, early_seconds / EARLY, late_seconds / more, early_wrong + late_wrong)


def growths(found: Endurance) -> list[tuple[str, float, float, bool]]:
    """Name, early, late, and whether it counts as growth. Memory may vary by a few MB; nothing else may."""
    rows = []
    for field, early, late in zip(fields(Footprint), astuple(found.early), astuple(found.late), strict=True):
        allowed = ALLOWED_MEGABYTES if field.name.startswith("megabytes") else 0.0
        rows.append((field.name.replace("_", " "), early, late, late - early > allowed))
    return rows


def endurance_table(found: Endurance, markdown: bool) -> str:
    rows = [
        (name, f"{early:.0f}", f"{late:.0f}", f"{late - early:+.1f}", "GROWS" if grows else "steady")
        for name, early, late, grows in growths(found)
    ]
    rows.append(("seconds per launch", f"{found.early_seconds:.3f}", f"{found.late_seconds:.3f}", "", ""))
    header = (f"launches of {WORLD_SIZE} in one kernel", f"after {EARLY}", f"after {found.launches}", "growth", "")
    return table(header, rows, markdown)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.endurance", description=__doc__)
    parser.add_argument("launches", nargs="?", type=int, default=500, help="number of launches (500; at least 51)")
    parser.add_argument("--strict", action="store_true", help="exit status 1 if something grows")
    parser.add_argument("--markdown", action="store_true", help="print a Markdown table")
    return parser.parse_args()


def main() -> int:
    asked = arguments()
    found = endure(max(asked.launches, EARLY + 1))
    print(endurance_table(found, asked.markdown))
    print(f"\n{found.wrong} wrong answers")
    grows = any(row[-1] for row in growths(found))
    return int(bool(found.wrong) or (asked.strict and grows))


if __name__ == "__main__":
    sys.exit(main())
