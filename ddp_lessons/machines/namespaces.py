"""Nodes made of Linux namespaces, each with its own network, address, name and processes.

A link (a veth pair) connects each node to a switch (a bridge). The switch has its own namespace too, so this machine's
network is not affected. In every namespace, a process waits and reads from us. When we end, in whatever way, it ends,
and all processes of its node, its link and its address end with it.
"""

from __future__ import annotations

import contextlib
import functools
import os
import shlex
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType

from ddp_lessons.machines.attempts import Attempt, Said
from ddp_lessons.machines.jobs import Job
from ddp_lessons.machines.places import (
    ANCHOR,
    Anchor,
    environment_of_jobs,
    in_new_user_space,
    missing_commands,
    said_by,
)
from ddp_lessons.record.recordings import NotHere
from ddp_lessons.run.launch import launch
from ddp_lessons.run.launcher.private_folders import session_folder
from ddp_lessons.run.nodes.hosts import NodeCommand

_NEEDED = {"ip": "iproute2", "unshare": "util-linux", "nsenter": "util-linux", "mount": "mount"}
_ALL_BUT_USER = ("--net", "--uts", "--mount", "--pid")
_INTERFACE = "eth0"


class Machines:
    """This many nodes, named machine0, machine1, and so on, connected by a switch.

    Use it in a `with` statement. Each node can reach the others by name, and sees this machine's files.
    """

    def __init__(self, count: int = 2) -> None:
        if not 1 <= count <= 16:
            raise ValueError(f"the number of machines must be from 1 to 16, not {count}")
        self.names = tuple(f"machine{number}" for number in range(count))
        self.addresses = tuple(f"10.77.0.{number + 1}" for number in range(count))
        self._anchors: list[Anchor] = []  # of the nodes, in order
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
        path: TracebackType | None = None,
    ) -> None:
        for number, machine in enumerate(self._anchors):
            self.stop(number)
            machine.end()
        if hasattr(self, "_switch"):
            self._switch.end()
        if hasattr(self, "_folder"):
            self._folder.cleanup()

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
        job = job or Job(self.stop, self._happened_since)
        job.run_also(commands, environment_of_jobs() | dict(environment or {}))
        return job

    def commands(self) -> list[NodeCommand]:
        """For `launch(..., on=machines)`: the command that gives a shell on each node."""
        # agents are killed with their node, and leave their files: in a folder that ends with it
        shell = ["env", f"PATH={environment_of_jobs()['PATH']}", f"TMPDIR={self._folder.name}", "sh"]
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
        """Call `function(rank, world_size, *args)` on one rank on each node, and keep its output and exceptions.

        As in a script, the ranks have not joined a process group.
        """
        size, options = len(self.names), {"timeout_seconds": timeout_seconds, "on": self}
        done = launch(_kept, size, function, args, join=False, quiet=True, record=False, **options)  # type: ignore[arg-type]
        begin = min(began for began, _, _ in done)
        said = [
            Said(rank, end - begin, line)
            for rank, (_, end, words) in enumerate(done)
            for line in [*done.lines[rank], *words]
        ]
        statuses = tuple(int(bool(words)) for _, _, words in done)
        in_order = tuple(sorted(said, key=lambda one: one.seconds))
        return Attempt(statuses, in_order, done.seconds, happened=self._happened_since(begin))

    def cut(self, machine: int) -> None:
        """Cut this node's link to the switch. No process is notified; packets are lost.

        A node that is already gone is ignored.
        """
        self._check(machine)
        try:
            self._wire(f"link set port{machine} down")
            self._happened.append((machine, time.monotonic(), "the network link is down"))
        except NotHere:
            if self._anchors[machine].is_there():
                raise

    def stop(self, machine: int) -> None:
        """End every process on this node."""
        if self._anchors[machine].is_there():
            # -1 means every visible process except the node's first one, so all processes of this node
            subprocess.run(self.command(machine, ["kill", "-KILL", "-1"]), capture_output=True, check=False)

    def power_off(self, machine: int) -> None:
        """Remove the node, with everything that runs on it."""
        self._check(machine)
        self._happened.append((machine, time.monotonic(), "the machine is switched off"))
        self.stop(machine)
        self._anchors[machine].end()
        with contextlib.suppress(NotHere):  # Linux removes it, too, but later than the node may be on again
            self._wire(f"link del port{machine}")

    def power_on(self, machine: int) -> None:
        """Create the node again, with its name and address; nothing runs on it yet."""
        self._check(machine)
        if self._anchors[machine].is_there():
            raise RuntimeError(f"machine {machine} is already on")
        self._make_machine(machine)
        self._happened.append((machine, time.monotonic(), "the machine is on again"))

    def command(self, machine: int, command: str | Sequence[str]) -> list[str]:
        """The command that runs `command` on that node, in the current folder."""
        self._check(machine)
        words = shlex.split(command) if isinstance(command, str) else list(command)
        return [*self._anchors[machine].enter(*_ALL_BUT_USER), "env", f"--chdir={os.getcwd()}", *words]

    def _make(self) -> Machines:
        lines = ["127.0.0.1 localhost", *map(" ".join, zip(self.addresses, self.names, strict=True))]
        try:
            self._folder = tempfile.TemporaryDirectory(dir=session_folder(), ignore_cleanup_errors=True)
            self._hosts = Path(self._folder.name, "hosts")
            self._hosts.write_text("\n".join(lines) + "\n")
            self._hosts.chmod(0o644)
            self._switch = Anchor([*in_new_user_space(), "unshare", "--net", "sh", "-c", ANCHOR])
            self._wire("link add switch type bridge", "link set switch up")
            for number in range(len(self.names)):
                self._make_machine(number)
        except BaseException:
            self.__exit__()
            raise
        return self

    def _make_machine(self, number: int) -> None:
        prepare = f"hostname {self.names[number]}; mount --bind '{self._hosts}' /etc/hosts; ip link set lo up"
        unshare = ["unshare", *_ALL_BUT_USER, "--fork", "--mount-proc", "--kill-child"]
        machine = Anchor([*self._switch.enter(), *unshare, "sh", "-c", f"{prepare}; {ANCHOR}"])
        self._anchors[number : number + 1] = [machine]
        port, pair = f"port{number}", f"type veth peer name {_INTERFACE} netns {machine.pid}"
        self._wire(f"link add {port} {pair}", f"link set {port} master switch")
        here = [
            f"link set {_INTERFACE} addrgenmode none up",  # no second address (IPv6)
            f"address add {self.addresses[number]}/24 dev {_INTERFACE}",
        ]
        said_by([*machine.enter("--net"), "ip", "-batch", "-"], "\n".join(here))
        self._wire(f"link set {port} up")

    def _check(self, machine: int) -> None:
        last = len(self.names) - 1
        if machine not in range(last + 1):
            raise ValueError(f"there is no machine {machine}: machines are numbered from 0 to {last}")
        if not self._anchors:
            raise RuntimeError("these machines do not exist yet: use `with Machines(2) as machines:` or attempt()")

    def _happened_since(self, begin: float) -> tuple[Said, ...]:
        return tuple(Said(machine, when - begin, words) for machine, when, words in self._happened if when >= begin)

    def _wire(self, *commands: str) -> None:
        said_by([*self._switch.enter("--net"), "ip", "-batch", "-"], "\n".join(commands))


def _kept(
    rank: int, world_size: int, function: Callable[..., object], args: tuple[object, ...]
) -> tuple[float, float, list[str]]:
    """In a rank: when the call began and ended, by the clock of all processes of this machine, and its exception."""
    begin, words = time.monotonic(), ""
    try:
        function(rank, world_size, *args)
    except Exception as error:
        words = "".join(traceback.format_exception_only(type(error), error))
    return begin, time.monotonic(), words.splitlines()


@functools.cache
def _why_not() -> str:
    if sys.platform != "linux":
        return "machines need Linux namespaces, which this system does not have"
    if reason := missing_commands(_NEEDED):
        return reason
    alone = Machines(1)
    try:
        alone._make().run(0, ["true"]).check_returncode()
    except (NotHere, OSError, subprocess.SubprocessError) as refusal:
        return f"creating machines needs root or the permission to create user namespaces ({refusal})"
    finally:
        alone.__exit__()
    return ""
