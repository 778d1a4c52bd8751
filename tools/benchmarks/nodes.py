"""What is reported if several nodes are set up wrongly, and after how many seconds.

torchrun is unchanged, with its own timeouts. Each mistake gets its own two nodes.
With --keep, the table is stored for lesson 14.
"""

import argparse
import itertools
import os
import re
import sys
import tempfile
import textwrap
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from ddp_lessons.machines import Attempt, Machines
from ddp_lessons.machines.live_or_recorded import TROUBLES
from tools.benchmarks.tables import Target

LIMIT_SECONDS = 150.0
MOST_LETTERS = 100  # the longest line that a notebook shows without wrapping
SCRIPT = """\
import os, sys, time
from datetime import timedelta
import torch, torch.distributed as dist
limit = {"timeout": timedelta(seconds=int(os.environ["LIMIT"]))} if "LIMIT" in os.environ else {}
dist.init_process_group("gloo", **limit)
for step in range(int(os.environ.get("STEPS", "1"))):
    dist.all_reduce(torch.ones(1000))
    print("step", step, flush=True)
    time.sleep(0.05)
dist.destroy_process_group()
"""
MEET = "--rdzv-backend=c10d --rdzv-endpoint=machine0:29400"
Trouble = Callable[[Machines, str], Attempt]


def torchrun(options: str, script: str) -> str:
    return f"{sys.executable} -m torch.distributed.run --nnodes=2 --nproc-per-node=1 {options} {script}"


def with_options(on_0: str, on_1: str, environment: dict[str, str] | None = None) -> Trouble:
    def run(machines: Machines, script: str) -> Attempt:
        commands = [torchrun(on_0, script), torchrun(on_1, script)]
        return machines.everywhere(lambda number: commands[number], LIMIT_SECONDS, environment)

    return run


def alone(machines: Machines, script: str) -> Attempt:
    return machines.start(torchrun(MEET, script), [1]).finish(LIMIT_SECONDS)


def port_is_taken(machines: Machines, script: str) -> Attempt:
    listen = "import socket, time; s = socket.create_server(('', 29400)); print('taken', flush=True); time.sleep(1000)"
    other = machines.start(f'{sys.executable} -S -E -c "{listen}"', [0])
    other.wait_for("taken")
    return with_options(MEET, MEET)(machines, script)


def names_at_loopback(machines: Machines, script: str) -> Attempt:
    """Let each node's own name resolve to loopback, as on many systems."""
    for number, (own, other) in enumerate([("machine0", "10.77.0.2 machine1"), ("machine1", "10.77.0.1 machine0")]):
        hosts = f"{script}.hosts{number}"
        Path(hosts).write_text(f"127.0.0.1 localhost\n127.0.1.1 {own}\n{other}\n")
        machines.run(number, f"mount --bind {hosts} /etc/hosts").check_returncode()
    return with_options(MEET, MEET)(machines, script)


def without_a_link(machines: Machines, script: str) -> Attempt:
    machines.cut(1)
    return with_options(MEET, MEET)(machines, script)


def in_the_middle(lose: Callable[[Machines], None], limit: str = "") -> Trouble:
    def run(machines: Machines, script: str) -> Attempt:
        environment = {"STEPS": "100000"} | ({"LIMIT": limit} if limit else {})
        job = machines.start(torchrun(MEET, script), environment=environment)
        job.wait_for("step 20", 100)
        lose(machines)
        moment = job.seconds
        whole = job.finish(LIMIT_SECONDS)
        later = [said._replace(seconds=said.seconds - moment) for said in whole.said if said.seconds > moment]
        return Attempt(whole.statuses, tuple(later), whole.seconds - moment)

    return run


TROUBLES_TRIED: dict[str, Trouble] = {
    "none": with_options(MEET, MEET),
    "GLOO_SOCKET_IFNAME=eth7: no such interface": with_options(MEET, MEET, {"GLOO_SOCKET_IFNAME": "eth7"}),
    "GLOO_SOCKET_IFNAME=lo: loopback": with_options(MEET, MEET, {"GLOO_SOCKET_IFNAME": "lo"}),
    "own names resolve to 127.0.1.1": names_at_loopback,
    "an unused address": with_options(MEET, MEET.replace("machine0", "10.77.0.99")),
    "a host name that does not resolve": with_options(MEET, MEET.replace("machine0", "machine7")),
    "another port on machine 1": with_options(MEET, MEET.replace("29400", "29401")),
    "no torchrun on machine 0": alone,
    "the port is taken by another program": port_is_taken,
    "machine 1 without a network link": without_a_link,
    "another --rdzv-id on machine 1": with_options(MEET, f"{MEET} --rdzv-id=other"),
    "no rendezvous, only --nnodes=2": with_options("", ""),
    "network link cut while training": in_the_middle(lambda machines: machines.cut(1)),
    "the same with timeout=10 seconds": in_the_middle(lambda machines: machines.cut(1), "10"),
    # a node without power would be silent, as with a cut link; here the system still runs and closes the connections
    "all processes on machine 1 killed while training": in_the_middle(lambda machines: machines.power_off(1)),
}


def try_out(name: str) -> tuple[str, str, str]:
    """Return the mistake, the seconds from the mistake to the first message, and the message."""
    with tempfile.TemporaryDirectory() as folder, Machines(2) as machines:
        script = Path(folder) / "steps.py"
        script.write_text(SCRIPT)
        attempt = TROUBLES_TRIED[name](machines, os.fspath(script))
    print(f"--- {name}\n{attempt}"[:6000], file=sys.stderr, flush=True)
    complaints = [complaint for machine in (0, 1) if (complaint := attempt.complaint(machine))]
    found = [complaint for complaint in complaints if complaint.seconds < LIMIT_SECONDS]  # later: we ended it
    if attempt.statuses == (0, 0):
        return name, f"{attempt.seconds:.0f} s", "completed"
    if not found:
        return name, f"not in {LIMIT_SECONDS:.0f} s", "no message"
    first = min(found, key=lambda said: said.seconds)
    return name, f"{first.seconds:.0f} s", shortened(first.line)


def shortened(line: str) -> str:
    line = re.sub(r"^\[rank\d\]: ", "", line)
    line = re.sub(r"\[(enforce fail at )?/\S+\] *|torch\.distributed\.(elastic\.\S+\.api\.)?", "", line)
    return line if len(line) <= 70 else f"{line[:67]}..."


def left_aligned(rows: list[tuple[str, str, str]]) -> str:
    """Format a table narrow enough for a notebook, in which long messages wrap in their column."""
    before = max(len(name) for name, _, _ in rows), max(len(after) for _, after, _ in rows)
    widths = (*before, MOST_LETTERS - sum(before) - 4)
    lines = [["-" * width for width in widths]]
    for row in rows:
        columns = [textwrap.wrap(cell, width) for cell, width in zip(row, widths, strict=True)]
        lines += map(list, itertools.zip_longest(*columns, fillvalue=""))
    lines[:2] = lines[1::-1]
    return "\n".join("  ".join(map(str.ljust, line, widths)).rstrip() for line in lines)


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--keep", action="store_true", help="store the table for lesson 14")
    parser.add_argument("--at-once", type=int, default=3, metavar="N", help="mistakes at the same time (3)")
    parser.add_argument("--only", default="", metavar="WORDS", help="only mistakes with this in their name")


def measure(asked: argparse.Namespace) -> list[Target]:
    with ThreadPoolExecutor(asked.at_once) as pool:
        rows = list(pool.map(try_out, [name for name in TROUBLES_TRIED if asked.only in name]))
    text = left_aligned([("mistake", "reported", "first message"), *rows])
    print(text)
    if asked.keep:
        TROUBLES.write_text(text + "\n", encoding="utf-8")
    return []
