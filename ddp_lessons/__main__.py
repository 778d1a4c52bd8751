"""The commands of `python -m ddp_lessons`."""

from __future__ import annotations

import argparse
import io
import sys
from collections.abc import Sequence
from pathlib import Path

from ddp_lessons import __version__
from ddp_lessons.dumps.explain_command import add_explain, add_record
from ddp_lessons.sameness.sameness_command import add_same_as_one
from ddp_lessons.script.script_files import add_command
from ddp_lessons.workshop.commands import add_doctor, add_export, add_pair, add_progress, add_room, add_start


def main(arguments: Sequence[str] | None = None) -> int:
    prog = "ddp-lessons" if Path(sys.argv[0]).name == "ddp-lessons" else "python -m ddp_lessons"
    parser = argparse.ArgumentParser(
        prog=prog,
        description="Learn distributed training with PyTorch in notebooks.",
        epilog=f"Begin with `{prog} start`.\nIf something does not work, run `{prog} doctor`.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"ddp-lessons {__version__}")
    commands = parser.add_subparsers(title="commands", dest="command", metavar="")
    for add in (
        add_start,
        add_doctor,
        add_pair,
        add_progress,
        add_explain,
        add_record,
        add_same_as_one,
        add_command,
        add_room,
        add_export,
    ):
        add(commands)
    chosen = parser.parse_args(arguments)

    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # for letters that the terminal cannot show
    if chosen.command is None:
        parser.print_help()
        return 0
    status: int = chosen.run(chosen)
    return status


if __name__ == "__main__":
    sys.exit(main())
