"""scripts/training.py beside a minimal DDP script and that of the PyTorch tutorial: accuracy and throughput, in turns.

The peer is a minimal script in the style of PyTorch's tutorial, written here: benchmarks/peers/minimal_ddp.py. With
--peer, the tutorial's own Trainer runs, too: the path of a clone of github.com/pytorch/examples, or "fetch". Its script
needs a GPU per rank and its own data, so it gets the same data, network and CPU from outside.

Of all that scripts/training.py does more than a minimal script, only clipping takes time that can be measured. So the
target is the throughput of the minimal script with clipping; a lower one allows for it.
"""

import argparse
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from ddp_lessons.train.mnist import mnist_folder
from scripts import training

from .measurement import Target
from .peers import minimal_ddp
from .tables import table, target_table

RANKS = 2
SCRIPT, MINIMAL, CLIPPING, TUTORIAL = "scripts/training.py", "minimal script", "with clipping", "the tutorial's Trainer"
EXAMPLES = "https://github.com/pytorch/examples"
TRAINER = Path("distributed", "ddp-tutorial-series", "multigpu_torchrun.py")
NOISE, LESS_ACCURATE = 0.05, 0.005  # what counts as equal: 5 % of the throughput, half a percent of the test images
FOR_CLIPPING = 0.10  # of the time of a step, with this small network on a CPU
_EPOCH = re.compile(r"(\d+) of (\d+) test images correct, (\d+) images/s")


@dataclass(frozen=True)
class Start:
    """What one start of a program has printed."""

    accuracy: float  # after the last epoch
    throughput: float  # of the fastest epoch, which other load on the machine disturbs least


def programs(peer: Path | None) -> dict[str, list[str]]:
    """Each one's command after torchrun's own arguments."""
    found = {SCRIPT: [str(Path(training.__file__))], MINIMAL: [str(Path(minimal_ddp.__file__))]}
    found[CLIPPING] = [*found[MINIMAL], "--clip"]
    if peer is not None:
        found[TUTORIAL] = [*found[MINIMAL], "--trainer", str(peer)]
    return found


def start(command: Sequence[str], arguments: Sequence[str]) -> Start:
    torchrun = ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={RANKS}"]
    printed = subprocess.run(
        [sys.executable, *torchrun, *command, *arguments], stdout=subprocess.PIPE, text=True, check=True
    ).stdout
    epochs = [tuple(map(float, match)) for match in _EPOCH.findall(printed)]
    correct, tested, _ = epochs[-1]
    return Start(correct / tested, max(throughput for *_, throughput in epochs))


def measure(rounds: int, commands: dict[str, list[str]], arguments: Sequence[str]) -> dict[str, list[Start]]:
    """In turns, every second round backwards, because a machine's speed varies over time."""
    found: dict[str, list[Start]] = {name: [] for name in commands}
    for number in range(rounds):
        for name in list(commands)[:: 1 if number % 2 else -1]:
            found[name].append(start(commands[name], arguments))
            print(f"round {number + 1}: {name} {found[name][-1].throughput:.0f} images/s", file=sys.stderr, flush=True)
    return found


def ratio(found: dict[str, list[Start]], peer: str) -> float:
    """Of the fastest epochs of all rounds: other load can only make an epoch slower, and rarely all of them."""
    ours, its = (max(one.throughput for one in found[name]) for name in (SCRIPT, peer))
    return ours / its


def promises(found: dict[str, list[Start]]) -> list[Target]:
    targets = []
    for peer in [name for name in found if name != SCRIPT]:
        speed = ratio(found, peer)
        least = 1 - NOISE - FOR_CLIPPING * (peer != CLIPPING)
        promise = f"images per second, {SCRIPT} / {peer}: at least"
        targets.append(Target(promise, f"{speed:.2f} x", f"{least:.2f} x", speed >= least))
        gain = median(one.accuracy for one in found[SCRIPT]) - median(one.accuracy for one in found[peer])
        promise = f"test accuracy, {SCRIPT} - {peer}: at least"
        targets.append(Target(promise, f"{100 * gain:+.2f} %", f"{-100 * LESS_ACCURATE:.2f} %", gain >= -LESS_ACCURATE))
    return targets


def trainer_of(peer: str, folder: str) -> Path | None:
    if not peer:
        return None
    if peer == "fetch":
        subprocess.run(["git", "clone", "--quiet", "--depth=1", EXAMPLES, folder], check=True)
    path = Path(folder if peer == "fetch" else peer, TRAINER).resolve()
    if not path.is_file():
        raise SystemExit(f"--peer {peer} is no clone of {EXAMPLES}: there is no {path}")
    return path


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.training_script", description=__doc__)
    parser.add_argument("--peer", default="", metavar="PATH", help='a clone of pytorch/examples, or "fetch"')
    parser.add_argument("--folder", help="folder of the MNIST files (default: those of the course)")
    parser.add_argument("--rounds", type=int, default=3, help="number of starts of each (3)")
    parser.add_argument("--epochs", type=int, default=6, help="epochs per start (6)")
    parser.add_argument("--samples", type=int, default=6_400, help="number of training images (6,400)")
    parser.add_argument("--workers", type=int, default=0, help="DataLoader workers of each rank (0)")
    parser.add_argument("--strict", action="store_true", help="exit status 1 if a target is not met")
    parser.add_argument("--markdown", action="store_true", help="print Markdown tables")
    asked = parser.parse_args()
    os.environ.setdefault("OMP_NUM_THREADS", "1")  # as torchrun sets it
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (os.getcwd(), os.environ.get("PYTHONPATH"))))
    arguments = ["--plain", "--data", asked.folder or mnist_folder()]
    arguments += [f"--epochs={asked.epochs}", f"--samples={asked.samples}", f"--workers={asked.workers}"]
    with tempfile.TemporaryDirectory() as folder:
        found = measure(asked.rounds, programs(trainer_of(asked.peer, folder)), arguments)
    rows = [
        (
            name,
            f"{100 * median(one.accuracy for one in starts):.2f} %",
            f"{max(one.throughput for one in starts):,.0f}",
            f"{median(one.throughput for one in starts):,.0f}",
            f"{min(one.throughput for one in starts):,.0f}",
            f"{1 if name == SCRIPT else ratio(found, name):.2f}",
        )
        for name, starts in found.items()
    ]
    names = (
        f"{asked.samples:,} images, {asked.epochs} epochs",
        "accuracy",
        "images per s, best",
        "median",
        "min",
        "ours / this",
    )
    targets = promises(found)
    print(table(names, rows, asked.markdown), target_table(targets, asked.markdown), sep="\n\n")
    return int(asked.strict and not all(target.met for target in targets))


if __name__ == "__main__":
    sys.exit(main())
