"""Commands for authors: `python -m tools.authoring notebooks`, `clinic`, `gpu` and `hosted`."""

from __future__ import annotations

import argparse
import importlib
import sys


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.authoring", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    store = commands.add_parser("notebooks", help="run lessons and store their outputs, with small diffs")
    store.add_argument("lessons", nargs="*", metavar="LESSON", help="number or part of the name (default: all)")
    store.add_argument("--twice", action="store_true", help="run each lesson twice and report the cells that differ")
    store.add_argument("--pictures", action="store_true", help="also store new figures whose text is unchanged")
    jobs = commands.add_parser("clinic", help="run the broken jobs of the clinic and store the files that they leave")
    jobs.add_argument("cases", nargs="*", type=int, metavar="CASE", help="number of a case (default: all)")
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
