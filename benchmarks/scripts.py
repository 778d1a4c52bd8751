"""A script under torchrun, compared with the same function under launch: steps per second, in turns."""

import argparse
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from statistics import median

from ddp_lessons import launch
from ddp_lessons.train.arguments import training_arguments
from scripts import started

from .measurement import Target
from .tables import table, target_table

RANKS = 2
SCRIPT = Path(started.__file__)
LARGEST_DIFFERENCE = 0.05
_SPEED = re.compile(r"([\d.]+) steps per second")


def under_torchrun(arguments: list[str]) -> list[str]:
    """The output of rank 0."""
    torchrun = ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={RANKS}"]
    command = [sys.executable, *torchrun, str(SCRIPT), *arguments]
    return subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout.splitlines()


def under_launch(arguments: list[str]) -> list[str]:
    asked = training_arguments(started.__doc__).parse_args(arguments)
    return list(launch(started.train, RANKS, asked, quiet=True, timeout_seconds=900).lines[0])


WAYS: dict[str, Callable[[list[str]], list[str]]] = {"torchrun": under_torchrun, "launch": under_launch}


def steps_per_second(lines: list[str]) -> list[float]:
    """For each epoch but the first, which is slower because of work in the first step."""
    return [float(match[1]) for line in lines if (match := _SPEED.search(line))][1:]


def measure(rounds: int, arguments: list[str]) -> dict[str, list[float]]:
    """The median of each start, in turns, because a machine's speed varies over time."""
    found: dict[str, list[float]] = {way: [] for way in WAYS}
    for number in range(rounds):
        for way in list(WAYS)[:: 1 if number % 2 else -1]:
            found[way].append(median(steps_per_second(WAYS[way](arguments))))
            print(f"round {number + 1}: {way} {found[way][-1]:.1f} steps per second", file=sys.stderr, flush=True)
    return found


def promise(found: dict[str, list[float]]) -> Target:
    pairs = zip(found["torchrun"], found["launch"], strict=True)
    ratio = median(torchrun / launched for torchrun, launched in pairs)
    limit = f"1 +- {LARGEST_DIFFERENCE}"
    return Target("steps per second, torchrun / launch", f"{ratio:.3f}", limit, abs(ratio - 1) <= LARGEST_DIFFERENCE)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.scripts", description=__doc__)
    parser.add_argument("--rounds", type=int, default=7, help="number of starts of each (7)")
    parser.add_argument("--epochs", type=int, default=7, help="epochs per start (7)")
    parser.add_argument("--samples", type=int, default=19_200, help="samples per epoch (19,200: 300 steps)")
    parser.add_argument("--strict", action="store_true", help="exit status 1 if the target is not met")
    parser.add_argument("--markdown", action="store_true", help="print Markdown tables")
    asked = parser.parse_args()
    os.environ.setdefault("OMP_NUM_THREADS", "1")  # as torchrun sets it, for both
    found = measure(asked.rounds, [f"--epochs={asked.epochs}", f"--samples={asked.samples}"])
    rows = [(way, f"{median(some):.1f}", f"{min(some):.1f}-{max(some):.1f}") for way, some in found.items()]
    target = promise(found)
    print(table((f"{SCRIPT.name}, {RANKS} ranks", "steps per s", "min-max"), rows, asked.markdown))
    print("\n" + target_table([target], asked.markdown))
    return int(asked.strict and not target.met)


if __name__ == "__main__":
    sys.exit(main())
