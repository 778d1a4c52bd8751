"""`python -m ddp_lessons room`: one machine, a JupyterLab for each learner, and a list of links to hand out."""

from __future__ import annotations

import argparse
import contextlib
import os
import socket
import sys
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    Commands: TypeAlias = argparse._SubParsersAction[argparse.ArgumentParser]

_OPEN = """WARNING: these servers listen to the network, without encryption. Whoever has a link, or reads it on its way,
can run any program on this machine as you. Use it in a network that you trust, as a user who owns nothing else."""


def add_room(commands: Commands) -> None:
    room = commands.add_parser(
        "room",
        help="for an instructor: start a JupyterLab for each of many learners on this machine",
        description="Start a JupyterLab for each learner, each with a folder, a copy of the notebooks, a port and a "
        "token of its own, and write the links to hand out. Runs until you press Ctrl+C; started again it goes on with "
        "the same folders and the same links.",
    )
    room.add_argument("--learners", type=int, default=30, metavar="N", help="how many (30)")
    room.add_argument("--folder", type=Path, default=Path("workshop"), help="where their work is kept (workshop)")
    room.add_argument("--notebooks", type=Path, default=Path("notebooks"), help="what each gets a copy of (notebooks)")
    room.add_argument(
        "--host", default="127.0.0.1", help="where to listen (127.0.0.1, which only this machine reaches)"
    )
    room.add_argument("--name", help="this machine in the links (--host, or its number in the network)")
    room.add_argument("--port", type=int, default=9001, help="of the first learner; the others follow (9001)")
    room.add_argument("--ranks", default="8", metavar="N", help="most ranks of a launch (8, as the lessons need)")
    room.add_argument("--seconds", default="120", help="most seconds of a launch (120)")
    room.add_argument("--memory", default="1 GB", help='most memory of a rank, as "600 MB" (1 GB)')
    room.set_defaults(run=lambda chosen: run(chosen, room))


def run(chosen: argparse.Namespace, parser: argparse.ArgumentParser) -> int:
    from ddp_lessons.run.launcher.limits import limits
    from ddp_lessons.workshop.room.interruptions import all_as_ctrl_c
    from ddp_lessons.workshop.room.servers import Room

    os.environ.update(
        DDP_LESSONS_MOST_RANKS=chosen.ranks,
        DDP_LESSONS_MOST_SECONDS=chosen.seconds,
        DDP_LESSONS_MOST_MEMORY=chosen.memory,
    )
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
        print(*room.links, f"\nThe links are in {room.list_of_links}, and to print in {room.page_of_strips}.", sep="\n")
        if others := _names(chosen)[1:]:
            print(f"This machine has other addresses, too: {', '.join(others)}. Choose with --name.")
        print("Ctrl+C ends all.", flush=True)
        room.keep_up()
    with contextlib.suppress(OSError):  # the terminal may be gone
        print(f"All servers have ended. The work is in {chosen.folder}; start again to go on.", flush=True)
    return 0


def _names(chosen: argparse.Namespace) -> list[str]:
    """How learners may reach this machine; the first is for the links."""
    from ddp_lessons.workshop.room.handouts import own_numbers

    if chosen.name or chosen.host not in ("0.0.0.0", "::"):
        return [chosen.name or chosen.host]
    return own_numbers() or [socket.gethostname()]
