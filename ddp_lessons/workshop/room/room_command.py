"""`python -m ddp_lessons room`: one machine, a JupyterLab for each learner, and a list of links to hand out."""

from __future__ import annotations

import argparse
import contextlib
import os
import socket
import sys
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from ddp_lessons.own_files import NOTEBOOKS

if TYPE_CHECKING:
    Commands: TypeAlias = argparse._SubParsersAction[argparse.ArgumentParser]

_OPEN = """WARNING: these servers listen on the network without encryption. Anyone who has or intercepts a link can run
any program on this machine as you. Use it only in a network that you trust, as a user who owns nothing else."""


def add_room(commands: Commands) -> None:
    room = commands.add_parser(
        "room",
        help="for an instructor: start a JupyterLab for each of many learners on this machine",
        description="Start a JupyterLab for each learner, each with its own folder, copy of the notebooks, port and "
        "token, and write the links to hand out. It runs until you press Ctrl+C. Started again, it uses the same "
        "folders and links.",
    )
    room.add_argument("--learners", type=int, default=30, metavar="N", help="number of learners (30)")
    room.add_argument("--folder", type=Path, default=Path("workshop"), help="where to store their work (workshop)")
    room.add_argument("--notebooks", type=Path, default=NOTEBOOKS, help="notebooks to copy (those of the course)")
    room.add_argument(
        "--host", default="127.0.0.1", help="address to listen on (127.0.0.1, which only this machine reaches)"
    )
    room.add_argument("--name", help="this machine's name in the links (--host, or its IP address)")
    room.add_argument("--port", type=int, default=9001, help="port of the first learner; the others follow (9001)")
    room.add_argument("--ranks", default="8", metavar="N", help="maximum ranks of a launch (8, which the lessons need)")
    room.add_argument("--memory", default="1 GB", help='maximum memory of a rank, such as "600 MB" (1 GB)')
    room.set_defaults(run=lambda chosen: run(chosen, room))


def run(chosen: argparse.Namespace, parser: argparse.ArgumentParser) -> int:
    from ddp_lessons.run.launcher.limits import limits
    from ddp_lessons.workshop.room.interruptions import all_as_ctrl_c
    from ddp_lessons.workshop.room.servers import Room

    os.environ.update(DDP_LESSONS_MOST_RANKS=chosen.ranks, DDP_LESSONS_MOST_MEMORY=chosen.memory)
    try:
        limits()
        room = Room(chosen.learners, chosen.folder, chosen.notebooks, chosen.host, _names(chosen)[0], chosen.port)
    except ValueError as refusal:
        parser.error(str(refusal))
    if chosen.host not in ("127.0.0.1", "localhost", "::1"):
        print(_OPEN, file=sys.stderr)
    all_as_ctrl_c()
    with contextlib.suppress(KeyboardInterrupt), room:
        print(f"Starting {chosen.learners} servers; this takes some seconds each.", flush=True)
        room.wait_until_they_answer()
        print(*room.links, f"\nThe links are in {room.list_of_links}; print {room.page_of_strips}.", sep="\n")
        if others := _names(chosen)[1:]:
            print(f"Other addresses of this machine: {', '.join(others)}. Choose one with --name.")
        print("Press Ctrl+C to stop all servers.", flush=True)
        room.keep_up()
    with contextlib.suppress(OSError):  # the terminal may be gone
        print(f"All servers have stopped. The work is in {chosen.folder}; start again to continue.", flush=True)
    return 0


def _names(chosen: argparse.Namespace) -> list[str]:
    """The addresses under which learners may reach this machine; the first is for the links."""
    from ddp_lessons.workshop.room.handouts import own_numbers

    if chosen.name or chosen.host not in ("0.0.0.0", "::"):
        return [chosen.name or chosen.host]
    return own_numbers() or [socket.gethostname()]
