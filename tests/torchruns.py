"""torchrun for tests: scripts started as people start them, on this machine and on two that this machine plays."""

from __future__ import annotations

import contextlib
import os
import re
import socket
from collections.abc import Sequence

import psutil
from processes import PROJECT, Program, kept_port

# One thread for each rank, as torchrun would choose, and no word about it.
SURROUNDINGS = {"OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}
# Without it the store of torch 2.15's agent lives on with the addresses of dead ranks, which new ones may read and then
# wait for ever; and rank 0 does not tell a machine that comes later where to meet, and both give up after a minute.
ELASTIC = {"TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"}
QUICK = ("--samples", "1280", "--batch-size", "64")  # twenty steps an epoch
SECONDS = 180.0  # on a busy machine importing torch alone takes long


def script(name: str) -> str:
    return os.fspath(PROJECT / "scripts" / f"{name}.py")


def torchrun(name: str, *arguments: str, options: Sequence[str] = ("--standalone", "--nproc-per-node=2")) -> Program:
    """One torchrun with a script of ours; it is the agent of one machine."""
    given = ["--local-addr", "127.0.0.1", *options, script(name), *arguments]
    return Program(f"from torch.distributed.run import main; main({given!r})", environment=SURROUNDINGS | ELASTIC)


def plain(name: str, *arguments: str) -> Program:
    """A script without torchrun."""
    run = f"import runpy, sys; sys.argv = [{script(name)!r}, *{list(arguments)!r}]"
    return Program(f"{run}; runpy.run_path(sys.argv[0], run_name='__main__')", environment=SURROUNDINGS)


def machine(meeting: str, *options: str, conf: Sequence[str] = ()) -> tuple[str, ...]:
    """The options of an agent that meets the others by torch's own store: at an address, or in a file."""
    conf = [*conf, "store_type=file"] if os.sep in meeting else list(conf)
    return (
        "--rdzv-backend=c10d",
        f"--rdzv-endpoint={meeting}",
        "--rdzv-id=test",
        f"--rdzv-conf={','.join(conf)}",
        *options,
    )


def kept_address() -> str:
    return f"127.0.0.1:{kept_port()}"


def listens(address: str) -> bool:
    host, port = address.split(":")
    try:
        socket.create_connection((host, int(port)), timeout=1).close()
    except OSError:
        return False
    return True


def ranks_of(program: Program, name: str) -> dict[int, psutil.Process]:
    """The processes that run the script for it, by rank, while they are there."""
    found = {}
    for process in program.marked():
        with contextlib.suppress(psutil.Error, KeyError):
            if script(name) in process.cmdline():  # the agent has it inside of another word
                found[int(process.environ()["RANK"])] = process
    return found


# Ranks print into one pipe, and a line and its end are two writes: so lines may follow each other without one.


def epochs_told(said: str) -> list[int]:
    """The epochs that rank 0 said were done, in the order in which it did."""
    return [int(number) for number in re.findall(r"epoch (\d+) of ", said)]


def begun_with(said: str) -> list[int]:
    """The epoch with which each start began."""
    return [int(number) for number in re.findall(r"begins with epoch (\d+),", said)]


def ranks_told(said: str) -> list[str]:
    """What each rank said of itself: "0 of 2"."""
    return re.findall(r"rank (\d+ of \d+) is process", said)


def accuracy_told(said: str) -> str:
    """What rank 0 said in the end, the last time if it was more than once."""
    return str(re.findall(r"recognizes ([\d.]+%)", said)[-1])
