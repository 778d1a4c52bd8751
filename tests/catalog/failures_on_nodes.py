"""Every mistake of the catalog, and every way in which a rank can fail, here and on two nodes, in turns.

Does the message name the same ranks, calls, lines and cause as here, and the node? What is left on the nodes?
"""

import os
import re
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from processes import running
from slurm_sites import allocate
from ssh_sites import reached_by_ssh

from ddp_lessons import Results
from ddp_lessons.machines import Machines, SlurmOnMachines
from ddp_lessons.run.nodes.hosts import Nodes
from ddp_lessons.run.nodes.node_group import disconnect

from .findings import TIMEOUT_SECONDS, launched, next_is_right
from .mistakes import MISTAKES
from .programs.failing import FAILURES, NEVER_BEGIN, NEVER_RETURN, sleeps
from .programs.noted import notes
from .sentences import cause

RANKS = 4
SECONDS_TO_RETURN = 1.0
ON_A_NODE = re.compile(r" on machine\d( and machine\d)?\b")


@dataclass(frozen=True)
class Case:
    """One function, and how it is launched."""

    name: str
    function: Callable[[int, int], object]
    join: bool = True
    timeout_seconds: float = TIMEOUT_SECONDS
    is_interrupted: bool = False
    may_return: bool = False  # sometimes torch completes the calls, and only the results are wrong

    @property
    def is_stored(self) -> bool:
        """Whether every run ends with the same sentences, which are those of a failure."""
        return not self.is_interrupted and self.name not in (
            "outside_the_group",
            *(one.__name__ for one in NEVER_BEGIN),
        )


@dataclass(frozen=True)
class Outcome:
    ended: BaseException | Results[object]
    left: int  # processes on the nodes that were not there before
    is_alive: bool  # the next launch returned the right answer

    @property
    def message(self) -> str:
        return f"{type(self.ended).__name__}: {self.ended}"

    def sentences(self, case: Case) -> list[str]:
        """As they are stored."""
        return [f"{case.name}: {getattr(self.ended, 'key', '')}", *cause(self.message)[case.may_return :]]


@dataclass(frozen=True)
class Pair:
    """The same case here and on nodes."""

    case: Case
    here: Outcome
    there: Outcome

    @property
    def is_same(self) -> bool:
        """But for the node. What each rank was doing may differ: a hang stops each of them at one of several lines."""
        here, there = cause(self.here.message), cause(ON_A_NODE.sub("", self.there.message))
        return here[self.case.may_return :] == there[self.case.may_return :]

    @property
    def names_node(self) -> bool | None:
        """None: no rank began, or none failed."""
        if self.case.function in NEVER_BEGIN or isinstance(self.there.ended, Results):
            return None
        return ON_A_NODE.search(self.there.message) is not None


def cases() -> list[Case]:
    return [
        *(Case(one.name, one.function, one.join, may_return=one.ends == "either") for one in MISTAKES),
        *(Case(function.__name__, function) for function in (*FAILURES, *NEVER_BEGIN)),
        *(Case(function.__name__, function, timeout_seconds=SECONDS_TO_RETURN) for function in NEVER_RETURN),
        Case("is_interrupted", sleeps, is_interrupted=True),
    ]


def outcome(case: Case, on: Nodes | None = None, processes: Callable[[], set[int]] = set) -> Outcome:
    before = processes()
    with TemporaryDirectory() as folder:
        if case.is_interrupted:
            threading.Thread(target=_interrupt_when_all_sleep, args=(folder,)).start()
        try:
            ended: BaseException | Results[object] = launched(
                case.function, RANKS, folder, join=case.join, timeout_seconds=case.timeout_seconds, on=on
            )
        except (TypeError, KeyboardInterrupt) as error:
            ended = error
        left = len(running(processes() - before))
    return Outcome(ended, left, next_is_right(on))


def _interrupt_when_all_sleep(folder: str) -> None:
    while len(notes(folder)["began"]) < RANKS:
        time.sleep(0.05)
    time.sleep(0.5)
    os.kill(os.getpid(), signal.SIGINT)


def processes_on(machines: Machines) -> set[int]:
    """All processes of these nodes, as this machine's process table has them."""
    spaces = {_space(anchor.pid) for anchor in machines._anchors}
    return {process for process in map(int, filter(str.isdigit, os.listdir("/proc"))) if _space(process) in spaces}


def _space(process: int) -> str:
    try:
        return os.readlink(f"/proc/{process}/ns/pid")
    except OSError:
        return ""


@contextmanager
def site(kind: str) -> Iterator[tuple[Nodes, Machines]]:
    with ExitStack() as stack:
        if kind == "slurm":
            cluster = stack.enter_context(SlurmOnMachines(2))
            yield stack.enter_context(allocate(cluster, nodes=2, time=60)), cluster.machines
            return
        machines = stack.enter_context(Machines(2))
        hosts = stack.enter_context(reached_by_ssh(machines, Path(stack.enter_context(TemporaryDirectory()))))
        yield hosts, machines
        disconnect(hosts)


def pairs(kind: str, names: Sequence[str]) -> Iterator[Pair]:
    with site(kind) as (nodes, machines):
        assert next_is_right()
        assert next_is_right(nodes)
        for case in cases():
            if case.name in names:
                yield Pair(case, outcome(case), outcome(case, nodes, lambda: processes_on(machines)))
