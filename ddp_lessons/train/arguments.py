"""The command-line arguments of the scripts, and the digits that they select.

A script exits at once with one sentence if a value is invalid, because on a cluster it may have queued for a day.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from ddp_lessons.train.digits import COUNT, Digits, digits
from ddp_lessons.train.mnist import NotMnist
from ddp_lessons.train.networks import Net, QuickNet

NETWORKS = {network.__name__: network for network in (QuickNet, Net)}


def training_arguments(description: str | None) -> argparse.ArgumentParser:
    """Return the arguments of every script. The first paragraph of the script's docstring describes it."""
    what, _, how = (description or "").partition("\n\n")
    parser = argparse.ArgumentParser(
        description=what, epilog=how.strip("\n"), formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--epochs", type=at_least_one, default=3, metavar="N", help="number of epochs (3)")
    add("--samples", type=samples, metavar="N", help=f"number of training digits ({COUNT[True]:,})")
    add("--batch-size", type=at_least_one, default=64, metavar="N", help="global batch size, over all ranks (64)")
    add("--learning-rate", type=above_zero, default=0.1, metavar="X", help="learning rate (0.1)")
    add("--network", choices=NETWORKS, default="QuickNet", help="QuickNet (default) has no dropout, learns faster")
    add("--seed", type=int, default=1, metavar="N", help="seed of the initial weights (1)")
    add("--folder", type=folder, metavar="FOLDER", help="folder with MNIST's files (the course's)")
    add("--save", type=file_to_write, metavar="FILE", help="save the trained weights to this file")
    return parser


def need_starter(parser: argparse.ArgumentParser) -> None:
    """Exit if the environment variables are missing that a launcher such as torchrun sets."""
    missing = [name for name in ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT") if name not in os.environ]
    if missing:
        parser.error(
            f"not set: {', '.join(missing)}. Start the script with torchrun, for example on two ranks:\n"
            f"  torchrun --standalone --nproc-per-node=2 {parser.prog}"
        )


def digits_of(asked: argparse.Namespace) -> tuple[Digits, Digits]:
    """Return the training and the test digits, or exit with the reason why there are none."""
    try:
        return digits(samples=asked.samples, folder=asked.folder), digits(train=False, folder=asked.folder)
    except (NotMnist, OSError) as error:
        raise SystemExit(f"no digits: {error}") from None


def at_least_one(text: str) -> int:
    number = int(text) if text.strip().isascii() and text.strip().isdecimal() else 0
    if number < 1:
        raise argparse.ArgumentTypeError(f"must be an integer of at least 1, not {text!r}")
    return number


def samples(text: str) -> int:
    number = at_least_one(text)
    if number > COUNT[True]:
        raise argparse.ArgumentTypeError(f"there are only {COUNT[True]:,} digits, not {number:,}")
    return number


def above_zero(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = 0.0
    if not 0 < number < float("inf"):  # nan fails this too
        raise argparse.ArgumentTypeError(f"must be a number above 0, not {text!r}")
    return number


def folder(text: str) -> Path:
    if not Path(text).is_dir():
        raise argparse.ArgumentTypeError(f"there is no folder {text!r}")
    return Path(text)


def file_to_write(text: str) -> Path:
    """Require that the file's folder exists, because otherwise the script would fail only after hours of training."""
    path = Path(text).absolute()
    if not path.parent.is_dir():
        raise argparse.ArgumentTypeError(f"there is no folder {os.fspath(path.parent)!r} to write into")
    if path.is_dir():
        raise argparse.ArgumentTypeError(f"{text!r} is a folder, not a file")
    if not os.access(path.parent, os.W_OK):
        raise argparse.ArgumentTypeError(f"the folder {os.fspath(path.parent)!r} is not writable")
    return path
