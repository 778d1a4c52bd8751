"""Launches on simulated nodes, in turns with a launch on this machine and `srun` by hand.

After them, if they are installed: submitit in a job for each call, and torchrunx over ssh.

Also: how long a printed line takes to the cell, what a large value costs, and the memory of an agent. With --many 64,
so many agents run on this machine, to see what grows with their number. Needs what lesson 13 needs to simulate nodes.
"""

import argparse
import importlib.util
import io
import json
import re
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import redirect_stdout
from functools import partial
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

import torch
import torch.distributed as dist

from ddp_lessons import Hosts, Slurm, WorkersStuck, launch
from ddp_lessons.machines import Machines, SlurmOnMachines
from ddp_lessons.run.nodes.node_commands import NodeCommand, Nodes, agent_command
from ddp_lessons.run.nodes.node_group import connected, disconnect

from . import __main__ as everything
from .family import Family
from .kernel import ROOT
from .sshd import client_settings, reached_by_ssh
from .tables import Row, table

RANKS = 4
VALUE_MEGABYTES = 100
_MEGABYTE = 1 << 20
_SUBMITIT = "submitit, a job for each call"
_TORCHRUNX = "torchrunx over ssh"
Way = Callable[[], Sequence[float]]


def add_up(rank: int, world_size: int) -> float:
    total = torch.tensor(float(rank))
    dist.all_reduce(total)
    return total.item()


def say_the_time(rank: int, world_size: int) -> None:
    for _ in range(20 if rank == world_size - 1 else 0):
        print(f"said at {time.time()!r}", flush=True)
        time.sleep(0.05)


def large_value(rank: int, world_size: int, megabytes: int) -> torch.Tensor:
    return torch.ones(megabytes * _MEGABYTE // 4 if rank == world_size - 1 else 0)


def leave_early(rank: int, world_size: int) -> None:
    if rank != world_size - 1:
        dist.all_reduce(torch.ones(1))


def say_one_line(rank: int, world_size: int) -> int:
    print(f"rank {rank} is here")
    return rank


class Noted(io.TextIOBase):
    """A terminal that notes when each line arrives."""

    def __init__(self) -> None:
        self.delays: list[float] = []

    def write(self, text: str) -> int:
        self.delays += [time.time() - float(said) for said in re.findall(r"said at ([\d.]+)", text)]
        return len(text)


class OnThisMachine:
    """Nodes that are no more than agents, all on this machine."""

    def __init__(self, count: int) -> None:
        self._count = count

    def commands(self) -> list[NodeCommand]:
        return [NodeCommand(f"node{number}", agent_command()) for number in range(self._count)]


def timed(way: Way, ranks: int = RANKS) -> float:
    begin = time.perf_counter()
    answers = list(way())
    seconds = time.perf_counter() - begin
    assert answers == [ranks * (ranks - 1) / 2] * ranks, answers
    return seconds


def on(nodes: Nodes | None, ranks: int = RANKS) -> Way:
    return lambda: launch(add_up, ranks, on=nodes, quiet=True)


class ByHand:
    """`srun` in the job that is already held; each time at another port, so that no old socket is in the way."""

    def __init__(self, site: SlurmOnMachines) -> None:
        self._site, self._port = site, 29700

    def __call__(self) -> list[float]:
        self._port += 1
        (job,) = self._site.run("squeue --noheader --states=RUNNING --format=%i").split()[:1]
        share = f"--jobid={job} --overlap --nodes=2 --ntasks-per-node={RANKS // 2} --overcommit --mpi=none"
        program = Path(ROOT, "benchmarks", "programs", "adding_under_slurm.py")
        said = self._site.run(f"srun {share} {sys.executable} {program} tcp://machine0:{self._port}")
        return [float(line) for line in said.splitlines() if re.fullmatch(r"[\d.]+", line)]


def submitit_seconds(site: SlurmOnMachines, folder: Path, jobs: int) -> list[float]:
    settings = ["env", f"SLURM_CONF={site.folder}/slurm.conf"]
    return peer_seconds(site, settings, "submitit_jobs.py", [str(folder), str(RANKS), str(jobs)])


def torchrunx_seconds(site: SlurmOnMachines, folder: Path, launches: int) -> list[float]:
    arguments = [str(client_settings(folder)), str(RANKS), str(launches), *site.machines.names]
    return peer_seconds(site, [], "torchrunx_on_hosts.py", arguments)


def peer_seconds(site: SlurmOnMachines, before: Sequence[str], program: str, arguments: Sequence[str]) -> list[float]:
    """Of each call; none if this peer is not installed."""
    if importlib.util.find_spec(program.partition("_")[0]) is None:
        return []
    path = str(Path(ROOT, "benchmarks", "peers", program))
    done = site.machines.run(0, [*before, sys.executable, path, *arguments], timeout_seconds=300)
    done.check_returncode()
    seconds = []
    for line in done.stdout.splitlines():
        if line.startswith("["):
            took, answers = json.loads(line)
            assert answers == [6.0] * RANKS, answers
            seconds.append(took)
    return seconds


def measure_launches(site: SlurmOnMachines, cluster: Slurm, hosts: Hosts, folder: Path, rounds: int) -> list[Row]:
    ways: dict[str, Way] = {
        "launch on this machine": on(None),
        "launch(on=Machines(2))": on(site.machines),
        'launch(on=Hosts("alpha", "beta")), over ssh': on(hosts),
        "launch(on=Slurm(nodes=2)), the job is kept": on(cluster),
        "srun by hand in the same job": ByHand(site),
    }
    first = {name: timed(way) for name, way in ways.items()}
    later: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(rounds):
        for name, way in ways.items():
            later[name].append(timed(way))
    cluster.close()  # its job holds both nodes
    for name, peer in ((_SUBMITIT, submitit_seconds), (_TORCHRUNX, torchrunx_seconds)):
        if seconds := peer(site, folder, 4):
            first[name], later[name] = seconds[0], seconds[1:]
    here = median(later["launch on this machine"])
    return [
        (name, f"{first[name]:.2f}", f"{median(seconds):.3f}", f"{median(seconds) / here:.1f}")
        for name, seconds in later.items()
    ]


def round_trip_seconds(nodes: Nodes) -> float:
    return max(2 * link.clock().error for link in connected(nodes).links)


def line_delay(nodes: Nodes | None) -> float:
    terminal = Noted()
    with redirect_stdout(terminal):
        launch(say_the_time, 2, on=nodes)
    assert len(terminal.delays) == 20, terminal.delays
    return median(terminal.delays)


def bytes_per_second(nodes: Nodes | None, rounds: int) -> float:
    def seconds(megabytes: int) -> float:
        begin = time.perf_counter()
        assert len(launch(large_value, 2, megabytes, on=nodes, quiet=True)[1]) == megabytes * _MEGABYTE // 4
        return time.perf_counter() - begin

    with_value, without = (min(seconds(megabytes) for _ in range(rounds)) for megabytes in (VALUE_MEGABYTES, 0))
    return VALUE_MEGABYTES / (with_value - without)


def agent_megabytes(nodes: Nodes) -> list[float]:
    """Of each agent with its template, while no rank runs: pages shared by several processes are divided among them."""
    found = []
    for link in connected(nodes).links:
        link.is_ready_within(60)
        found.append(Family(root=link._process.pid).megabytes())
    return found


def clocked(call: Callable[[], object]) -> str:
    """How long it took, and how much of it this process, the notebook, computed."""
    begin, computed = time.perf_counter(), time.process_time()
    call()
    return f"{time.perf_counter() - begin:.1f} s; here {time.process_time() - computed:.2f} s"


def measure_many(many: int) -> Iterator[Row]:
    """What grows with the number of agents. They share this machine's cores, as nodes would not."""
    nodes = OnThisMachine(many)
    begin = time.perf_counter()
    group = connected(nodes)
    yield f"{many} agents started and known", f"{time.perf_counter() - begin:.1f} s"
    for link in group.links:
        link.is_ready_within(600)
    yield "all have imported torch", f"{time.perf_counter() - begin:.1f} s"
    yield "memory of an agent", f"{median(agent_megabytes(nodes)):.0f} MB"
    for ranks in (many, 4 * many, 8 * many):
        yield f"launch of {ranks} ranks that print a line and return", clocked(partial(print_lines, nodes, ranks))
    yield f"launch of {many} ranks with an all_reduce", f"{timed(on(nodes, many), many):.1f} s"
    yield f"{many} ranks, of which one has left: until the message", clocked(partial(hang, nodes, many))
    disconnect(nodes)


def print_lines(nodes: Nodes, ranks: int) -> None:
    results = launch(say_one_line, ranks, on=nodes, join=False, quiet=True, timeout_seconds=None)
    assert list(results) == list(range(ranks))


def hang(nodes: Nodes, ranks: int) -> None:
    try:
        launch(leave_early, ranks, on=nodes, quiet=True)
    except WorkersStuck:
        return
    raise AssertionError("no hang was reported")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.nodes", description=__doc__)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--markdown", action="store_true", help="print Markdown tables")
    parser.add_argument("--many", type=int, default=0, help="only this: so many agents on this machine")
    asked = parser.parse_args()
    print(everything.machine(), "\n")
    if asked.many:
        for what, measured in measure_many(asked.many):
            print(f"{what}: {measured}", flush=True)
        return
    with SlurmOnMachines(2) as site, site.allocate(nodes=2, time_minutes=60) as cluster, TemporaryDirectory() as folder:
        header = (f"{RANKS} ranks", "first call, s", "later calls, s (median)", "times a local launch")
        with reached_by_ssh(site.machines, Path(folder)) as hosts:
            print(table(header, measure_launches(site, cluster, hosts, Path(folder), asked.rounds), asked.markdown))
            disconnect(hosts)
        delays = [f"{1e3 * line_delay(nodes):.1f} ms" for nodes in (None, site.machines)]
        facts: list[Row] = [
            ("round trip to a node", "", f"{1e3 * round_trip_seconds(site.machines):.2f} ms"),
            ("a printed line until it is shown", *delays),
            (
                f"a value of {VALUE_MEGABYTES} MB returned",
                f"{bytes_per_second(None, 3):.0f} MB/s",
                f"{bytes_per_second(site.machines, 3):.0f} MB/s",
            ),
            ("memory of an agent, no rank running", "", f"{median(agent_megabytes(site.machines)):.0f} MB"),
        ]
        disconnect(site.machines)
    with Machines(8) as machines:
        first, *later = [timed(on(machines, 32), 32) for _ in range(4)]
        here = median(timed(on(None, 32), 32) for _ in range(3))
        facts.append(("32 ranks: first launch on 8 nodes", "", f"{first:.2f} s"))
        facts.append(("32 ranks: later launches (median)", f"{here:.2f} s", f"{median(later):.2f} s"))
        disconnect(machines)
    print()
    print(table(("", "this machine", "2 nodes, or 8"), facts, asked.markdown))


if __name__ == "__main__":
    main()
