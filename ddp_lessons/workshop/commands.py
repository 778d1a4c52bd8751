"""The commands for setting up and teaching: their options, and what they run.

A command's own module is imported when it runs, so that the command line loads where nothing is installed.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from ddp_lessons.own_files import NOTEBOOKS

if TYPE_CHECKING:
    Commands: TypeAlias = argparse._SubParsersAction[argparse.ArgumentParser]


def add_start(commands: Commands) -> None:
    start = commands.add_parser(
        "start",
        help="copy the lessons to your own folder, and open the first one in JupyterLab",
        description="Copy the lessons, without their stored outputs, to your own folder, and open the first one in "
        "JupyterLab. Run it again after an update: files that you changed are kept, and their new versions are saved "
        "next to them.",
    )
    start.add_argument("folder", nargs="?", type=Path, default=Path("my_lessons"), help="your folder (my_lessons)")
    start.add_argument("--no-open", action="store_true", help="only copy, and print the path of the first lesson")
    start.add_argument(
        "--jupyter",
        nargs=argparse.REMAINDER,
        default=[],
        metavar="OPTION",
        help="pass all options that follow to JupyterLab; for example: --jupyter --no-browser --port 9999",
    )
    start.set_defaults(run=_start)


def _start(chosen: argparse.Namespace) -> int:
    from ddp_lessons.workshop.start import start_lessons

    return start_lessons(chosen.folder, chosen.jupyter, chosen.no_open)


def add_doctor(commands: Commands) -> None:
    look = commands.add_parser(
        "doctor",
        help="check whether this machine is ready for the lessons, and say how to fix what is not",
        description="Check whether this machine is ready for the lessons. Exit status: 1 if there is a PROBLEM.",
    )
    look.add_argument(
        "--json", action="store_true", help="print the findings as JSON, to collect them from a classroom"
    )
    look.set_defaults(run=_doctor)


def _doctor(chosen: argparse.Namespace) -> int:
    from ddp_lessons.workshop import doctor

    return doctor.report(doctor.CHECKS, as_json=chosen.json)


def add_pair(commands: Commands) -> None:
    pair = commands.add_parser(
        "pair",
        help="check only whether torch and torchvision match (the setup runs this)",
        description="Check whether torch and torchvision match. If not, print the command that fixes it, and exit "
        "with status 1.",
    )
    pair.set_defaults(run=_pair)


def _pair(_: argparse.Namespace) -> int:
    from ddp_lessons.workshop import doctor

    return doctor.report(doctor.PAIR)


def add_progress(commands: Commands) -> None:
    progress = commands.add_parser(
        "progress",
        help="show which exercises you have passed, share your progress, or collect that of your learners",
        description="Show which exercises you have passed, by lesson. Your progress stays on this machine and is "
        "sent nowhere. Exit status: 1 if a file could not be read.",
    )
    act = progress.add_mutually_exclusive_group()
    act.add_argument(
        "--json",
        action="store_true",
        help="print your progress as JSON, so that you can share it: --json > YOUR-NAME.json",
    )
    act.add_argument("--collect", type=Path, metavar="FOLDER", help="make one table of all such files in this folder")
    progress.add_argument(
        "--csv", type=Path, metavar="FILE", help="with --collect: also write the table as CSV, for a spreadsheet"
    )
    progress.set_defaults(run=lambda chosen: _progress(chosen, progress))


def _progress(chosen: argparse.Namespace, parser: argparse.ArgumentParser) -> int:
    from ddp_lessons.workshop import progress_table

    if chosen.csv is not None and chosen.collect is None:
        parser.error("--csv FILE needs --collect FOLDER")
    if chosen.collect is not None:
        return progress_table.collect(chosen.collect, chosen.csv)
    return progress_table.show_as_json() if chosen.json else progress_table.show()


def add_room(commands: Commands) -> None:
    room = commands.add_parser(
        "room",
        help="for instructors: start a JupyterLab server on this machine for each learner",
        description="Start a JupyterLab server for each learner, with its own folder, copy of the notebooks, port "
        "and token, and write the links to hand out. The servers run until you press Ctrl+C. When you start them "
        "again, they use the same folders and links.",
    )
    room.add_argument("--learners", type=int, default=30, metavar="N", help="number of learners (30)")
    room.add_argument("--folder", type=Path, default=Path("workshop"), help="where to store their work (workshop)")
    room.add_argument("--notebooks", type=Path, default=NOTEBOOKS, help="notebooks to copy (those of the course)")
    room.add_argument(
        "--host", default="127.0.0.1", help="address to listen on (127.0.0.1, which only this machine can reach)"
    )
    room.add_argument("--name", help="this machine's name in the links (--host, or its IP address)")
    room.add_argument("--port", type=int, default=9001, help="port of the first learner; the others follow (9001)")
    room.add_argument(
        "--ranks", default="8", metavar="N", help="maximum number of ranks per launch (8, which the lessons need)"
    )
    room.add_argument("--memory", default="1 GB", help='maximum memory per rank, such as "600 MB" (default: 1 GB)')
    room.set_defaults(run=lambda chosen: _room(chosen, room))


def _room(chosen: argparse.Namespace, parser: argparse.ArgumentParser) -> int:
    from ddp_lessons.workshop.room import run

    return run(chosen, parser)


def add_export(commands: Commands) -> None:
    export = commands.add_parser(
        "export",
        help="export a lesson as a graded assignment for nbgrader or Otter",
        description="Write the instructor version of an assignment, with solutions, from a lesson. Each exercise is "
        "worth one point, and its check is the test. The grader generates the student version, without solutions.",
    )
    export.add_argument("--for", dest="grader", choices=("nbgrader", "otter"), required=True, help="the grader")
    export.add_argument("--notebooks", type=Path, default=NOTEBOOKS, help="where the lessons are")
    export.add_argument("lesson", help="number or name of the lesson")
    export.add_argument("folder", type=Path, nargs="?", default=Path("graded"), help="your course's folder (graded)")
    export.set_defaults(run=_export)


def _export(chosen: argparse.Namespace) -> int:
    from ddp_lessons.workshop.assignments import export

    return export(chosen.grader, chosen.lesson, chosen.notebooks, chosen.folder)
