"""Nodes made of Linux namespaces, each with its own network, address, name and processes.

A link (a veth pair) connects each node to a switch (a bridge). The switch has its own namespace too, so this machine's
network is not affected. In every namespace, a process waits and reads from us. When we end, in whatever way, it ends,
and all processes of its node, its link and its address end with it.
"""

from __future__ import annotations

import functools
import os
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType

from ddp_lessons.machines.anchors import ANCHOR, anchor, end_anchor, enter, in_new_user_space, pid_inside, rules_here
from ddp_lessons.machines.attempts import Attempt, Said
from ddp_lessons.machines.jobs import Job
from ddp_lessons.machines.places import NotHere, environment_of_jobs, missing_commands, said_by
from ddp_lessons.machines.ranks_on_machines import launch_on
from ddp_lessons.run.nodes.hosts import NodeCommand

_NEEDED = {"ip": "iproute2", "unshare": "util-linux", "nsenter": "util-linux", "mount": "mount"}
_ALL_BUT_USER = ("--net", "--uts", "--mount", "--pid")


class Machines:
    """So many nodes, named machine0, machine1, ..., connected by a switch.

    Use it with `with`. Each node knows the others by name, and sees the files of this machine.
    """

    interface = "eth0"

    def __init__(self, count: int = 2) -> None:
        if not 1 <= count <= 16:
            raise ValueError(f"there can be 1 to 16 machines, not {count}")
        self.names = tuple(f"machine{number}" for number in range(count))
        self.addresses = tuple(f"10.77.0.{number + 1}" for number in range(count))
        self._anchors: list[subprocess.Popen[bytes]] = []  # of the nodes, in order
        self._pids: list[int] = []
        self._happened: list[tuple[int, float, str]] = []  # node, time, text

    def __repr__(self) -> str:
        return f"Machines({len(self.names)})"

    def why_not(self) -> str:
        """Why this machine can't simulate nodes, or ""."""
        return _why_not()

    def __enter__(self) -> Machines:
        if reason := self.why_not():
            raise NotHere(reason)
        return self._make()

    def __exit__(
        self,
        kind: type[BaseException] | None = None,
        error: BaseException | None = None,
        traceback: TracebackType | None = None,
    ) -> None:
        for number in range(len(self._anchors)):
            self._end_machine(number)
        if hasattr(self, "_switch"):
            end_anchor(self._switch)
        if hasattr(self, "_hosts"):
            os.unlink(self._hosts)
            del self._hosts

    def run(
        self, machine: int, command: str | Sequence[str], timeout_seconds: float | None = 60.0
    ) -> subprocess.CompletedProcess[str]:
        """Run a command on one node until it ends, and return its output and its exit status."""
        inside = self.command(machine, command)
        return subprocess.run(
            inside, capture_output=True, text=True, timeout=timeout_seconds, check=False, env=environment_of_jobs()
        )

    def start(
        self,
        command: str | Sequence[str] | Callable[[int], str | Sequence[str]],
        on: Sequence[int] | None = None,
        environment: Mapping[str, str] | None = None,
        job: Job | None = None,
    ) -> Job:
        """Start a command on every node, or on those in `on`, and return at once.

        Args:
            command: a string or a list of words, or a function that makes one from the node's number.
            on: the numbers of the nodes.
            environment: additional variables.
            job: an earlier job, whose log this one continues.
        """
        numbers = range(len(self.names)) if on is None else on
        commands = {
            number: self.command(number, command(number) if callable(command) else command) for number in numbers
        }
        variables = environment_of_jobs() | dict(environment or {})
        if job:
            job.run_also(commands, variables)
        return job or Job(commands, variables, self.stop, self._happened_since)

    def commands(self) -> list[NodeCommand]:
        """For `launch(..., on=machines)`: the command that gives a shell on each node."""
        shell = ["env", f"PATH={environment_of_jobs()['PATH']}", "sh"]
        return [NodeCommand(name, self.command(number, shell)) for number, name in enumerate(self.names)]

    def everywhere(
        self,
        command: str | Callable[[int], str],
        timeout_seconds: float = 180.0,
        environment: Mapping[str, str] | None = None,
    ) -> Attempt:
        """Run a command on all nodes until it has ended on all of them, or the time is over."""
        return self.start(command, environment=environment).finish(timeout_seconds)

    def launch(self, function: Callable[..., object], *args: object, timeout_seconds: float = 30.0) -> Attempt:
        """Call `function(rank, world_size, *args)` on one rank on each node; faster than `start`."""
        if not rules_here():
            raise NotHere("only root can move a rank to another machine; others can start commands there")
        self._check(0)
        return launch_on(self._pids, self.addresses[0], function, args, timeout_seconds, self._happened_since)

    def cut(self, machine: int) -> None:
        """Cut this node's link to the switch. No process is notified: packets get lost.

        A node that is already gone is ignored.
        """
        self._check(machine)
        try:
            if self._is_there(machine):
                self._wire(f"link set port{machine} down")
                self._happened.append((machine, time.monotonic(), "the network link is down"))
        except NotHere:  # it may have ended in the meantime
            if self._is_there(machine):
                raise

    def stop(self, machine: int) -> None:
        """End every process on this node."""
        if self._is_there(machine):
            # -1 means every visible process except the node's first one, so all processes of this node
            subprocess.run(self.command(machine, ["kill", "-KILL", "-1"]), capture_output=True, check=False)

    def power_off(self, machine: int) -> None:
        """Remove the node, with everything that runs on it."""
        self._check(machine)
        self._happened.append((machine, time.monotonic(), "the machine is switched off"))
        self._end_machine(machine)

    def power_on(self, machine: int) -> None:
        """Make the node again, with its name and address; nothing runs on it yet."""
        self._check(machine)
        if self._is_there(machine):
            raise RuntimeError(f"machine {machine} is on")
        self._make_machine(machine)
        self._happened.append((machine, time.monotonic(), "the machine is on again"))

    def command(self, machine: int, command: str | Sequence[str]) -> list[str]:
        """The command that runs `command` on that node, in the current folder."""
        self._check(machine)
        words = shlex.split(command) if isinstance(command, str) else list(command)
        return [*enter(self._pids[machine], *_ALL_BUT_USER), "env", f"--chdir={os.getcwd()}", *words]

    def _make(self) -> Machines:
        try:
            self._write_hosts()
            self._switch = anchor([*in_new_user_space(), "unshare", "--net", "sh", "-c", ANCHOR])
            self._switch_pid = pid_inside(self._switch)
            self._wire("link add switch type bridge", "link set switch up")
            for number in range(len(self.names)):
                self._make_machine(number)
        except BaseException:
            self.__exit__()
            raise
        return self

    def _make_machine(self, number: int) -> None:
        begin = f"hostname {self.names[number]}; mount --bind '{self._hosts}' /etc/hosts; ip link set lo up; {ANCHOR}"
        unshare = ["unshare", *_ALL_BUT_USER, "--fork", "--mount-proc", "--kill-child", "sh", "-c", begin]
        first_process = anchor([*enter(self._switch_pid), *unshare])
        self._anchors[number : number + 1] = [first_process]
        pid = pid_inside(first_process)
        self._pids[number : number + 1] = [pid]
        port = f"port{number}"
        self._wire(
            f"link add {port} type veth peer name {self.interface} netns {pid}", f"link set {port} master switch"
        )
        here = [
            f"link set {self.interface} addrgenmode none up",  # no second address (IPv6)
            f"address add {self.addresses[number]}/24 dev {self.interface}",
        ]
        said_by([*enter(pid, "--net"), "ip", "-batch", "-"], "\n".join(here))
        self._wire(f"link set {port} up")

    def _check(self, machine: int) -> None:
        last = len(self.names) - 1
        if machine not in range(last + 1):
            raise ValueError(f"there is no machine {machine}: they are numbered from 0 to {last}")
        if not self._pids:
            raise RuntimeError("these machines are not made yet: `with Machines(2) as machines:` or attempt() does it")

    def _is_there(self, machine: int) -> bool:
        return machine < len(self._pids) and self._anchors[machine].poll() is None

    def _end_machine(self, machine: int) -> None:
        self.stop(machine)
        end_anchor(self._anchors[machine])

    def _happened_since(self, begin: float) -> tuple[Said, ...]:
        return tuple(Said(machine, when - begin, words) for machine, when, words in self._happened if when >= begin)

    def _wire(self, *commands: str) -> None:
        said_by([*enter(self._switch_pid, "--net"), "ip", "-batch", "-"], "\n".join(commands))

    def _write_hosts(self) -> None:
        lines = ["127.0.0.1 localhost", *map(" ".join, zip(self.addresses, self.names, strict=True))]
        with tempfile.NamedTemporaryFile("w", prefix="ddp-lessons-hosts-", delete=False) as file:
            file.write("\n".join(lines) + "\n")
        os.chmod(file.name, 0o644)
        self._hosts = file.name


@functools.cache
def _why_not() -> str:
    if sys.platform != "linux":
        return "machines are made of Linux namespaces, and this system has none"
    if reason := missing_commands(_NEEDED):
        return reason
    alone = Machines(1)
    try:
        alone._make().run(0, ["true"]).check_returncode()
    except (NotHere, OSError, subprocess.SubprocessError) as refusal:
        return f"only root may make machines here, or who may make user namespaces ({refusal})"
    finally:
        alone.__exit__()
    return ""
