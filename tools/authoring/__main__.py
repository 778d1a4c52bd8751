"""The commands of an author: `python -m tools.authoring notebooks`, `clinic`, `gpu` and `hosted`."""

from __future__ import annotations

import argparse
import importlib
import sys


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.authoring", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    store = commands.add_parser("notebooks", help="run lessons and store their outputs with the smallest diff")
    store.add_argument("lessons", nargs="*", metavar="LESSON", help="a number or a part of a name (default: all)")
    store.add_argument("--twice", action="store_true", help="run each twice, and name the cells that differ")
    store.add_argument("--pictures", action="store_true", help="also store all new pictures")
    jobs = commands.add_parser("clinic", help="run the broken jobs of the clinic and keep what they leave behind")
    jobs.add_argument("cases", nargs="*", type=int, metavar="CASE", help="the number of a case (default: all)")
    gpu = commands.add_parser("gpu", help="run and record the experiments that need an NVIDIA GPU")
    gpu.add_argument("experiments", nargs="*", metavar="EXPERIMENT", help="memory, speed or overlap (default: all)")
    commands.add_parser("hosted", help="write the lessons for Colab and Kaggle")
    options = vars(parser.parse_args(arguments))
    # imported only now: torch takes seconds
    command = importlib.import_module(f"tools.authoring.{options.pop('command')}")
    try:
        return int(command.main(**options))
    except ValueError as refusal:
        print(refusal, file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
