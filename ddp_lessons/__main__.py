"""What `python -m ddp_lessons` can do from a terminal."""

from __future__ import annotations

import argparse
import io
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ddp_lessons import __version__
from ddp_lessons.dumps.explain_command import add_explain, add_record
from ddp_lessons.sameness.sameness_command import add_same_as_one
from ddp_lessons.script.script_files import add_command
from ddp_lessons.workshop import doctor
from ddp_lessons.workshop.grading.export_command import add_export
from ddp_lessons.workshop.room.room_command import add_room
from ddp_lessons.workshop.start import add_start

if TYPE_CHECKING:
    from ddp_lessons.script.script_files import Commands


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
        _add_doctor,
        _add_pair,
        _add_progress,
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
        sys.stdout.reconfigure(
            errors="backslashreplace"
        )  # a folder's name may have letters that the terminal cannot show
    if chosen.command is None:
        parser.print_help()
        return 0
    status: int = chosen.run(chosen)
    return status


def _add_doctor(commands: Commands) -> None:
    look = commands.add_parser(
        "doctor",
        help="check whether this machine is ready for the lessons, and how to fix what is not",
        description="Check whether this machine is ready for the lessons. Exit status: 1 if there is a PROBLEM.",
    )
    act = look.add_mutually_exclusive_group()
    act.add_argument("--json", action="store_true", help="print the findings as JSON, to collect them from a classroom")
    act.add_argument("--ticket", action="store_true", help="write one line for the instructor into a file")
    act.add_argument("--collect", metavar="PATH", help="make one table of the tickets in this file or folder")
    look.set_defaults(run=_doctor)


def _doctor(chosen: argparse.Namespace) -> int:
    if chosen.collect is not None:
        from ddp_lessons.workshop.ticket_table import collect

        return collect(chosen.collect)
    return doctor.report(doctor.CHECKS, as_json=chosen.json, with_ticket=chosen.ticket)


def _add_pair(commands: Commands) -> None:
    pair = commands.add_parser(
        "pair",
        help="check only whether torch and torchvision match (the set-up does this)",
        description="Check whether torch and torchvision match. Exit status: 1 if not, and the command that fixes it.",
    )
    pair.set_defaults(run=lambda chosen: doctor.report({"torch and torchvision": doctor.check_pair}))


def _add_progress(commands: Commands) -> None:
    kept = commands.add_parser(
        "progress",
        help="show which exercises passed, share your progress, or collect that of learners",
        description="Show which exercises passed, by lesson. Progress stays on this machine and is sent nowhere. "
        "Exit status: 1 if a file could not be read or written.",
    )
    act = kept.add_mutually_exclusive_group()
    act.add_argument("--share", metavar="FILE", help="write a copy to share, with the name given by --name")
    act.add_argument(
        "--collect", metavar="FOLDER", help="make one table of all copies in this folder and its subfolders"
    )
    kept.add_argument("--name", help="your name in the shared copy")
    kept.add_argument("--csv", metavar="FILE", help="with --collect: also write the table as CSV, for a spreadsheet")
    kept.set_defaults(run=lambda chosen: _progress(chosen, kept))


def _progress(chosen: argparse.Namespace, parser: argparse.ArgumentParser) -> int:
    from ddp_lessons.workshop import progress_table

    if (chosen.share is None) != (chosen.name is None):
        parser.error('to share your progress, run with --share FILE --name "the name that your instructor knows"')
    if chosen.csv is not None and chosen.collect is None:
        parser.error("--csv FILE needs --collect FOLDER")
    if chosen.share is not None:
        return progress_table.share(chosen.share, chosen.name)
    if chosen.collect is not None:
        return progress_table.collect(chosen.collect, chosen.csv)
    return progress_table.show()


if __name__ == "__main__":
    sys.exit(main())
