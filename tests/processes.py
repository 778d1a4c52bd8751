"""What the tests look at from outside: which processes live, and a Python process in the notebook's place."""

from __future__ import annotations

import contextlib
import os
import re
import select
import signal
import socket
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import psutil

from ddp_lessons.run.launcher.launched_call import LaunchedCall

PROJECT = Path(__file__).parent.parent
_MARK = "DDP_LESSONS_FAMILY"
_PROCESS = re.compile(r"\bprocess (\d+)")


def without_address(value: object) -> str:
    """A name for a test that is the same in every process."""
    return re.sub(r" at 0x[0-9a-f]+", "", ascii(value))


def processes_named_in(text: str) -> list[int]:
    return [int(number) for number in _PROCESS.findall(text)]


def alive(process_ids: Sequence[int]) -> list[int]:
    """Those that are still there, also as zombies, unless the system's own first process is to bury them."""
    found = []
    for process_id in process_ids:
        with contextlib.suppress(psutil.NoSuchProcess):
            process = psutil.Process(process_id)
            found += [process_id] * (process.status() != psutil.STATUS_ZOMBIE or process.ppid() != 1)
    return found


def running(process_ids: Iterable[int]) -> list[int]:
    """Those that are still there, and no zombies."""
    found = []
    for process_id in process_ids:
        with contextlib.suppress(psutil.NoSuchProcess):
            found += [process_id] if psutil.Process(process_id).status() != psutil.STATUS_ZOMBIE else []
    return found


def family(process_id: int) -> list[psutil.Process]:
    """All that this process started, and what that started."""
    return list(psutil.Process(process_id).children(recursive=True))


def connections_of(process: psutil.Process, kind: str) -> list[Any]:
    """psutil 5 has it under another name."""
    return list(getattr(process, "net_connections" if hasattr(process, "net_connections") else "connections")(kind))


def listening(process: psutil.Process) -> list[tuple[str, int]]:
    """Where it listens, for TCP of both kinds; UDP is listened on by being bound."""
    return [
        (connection.laddr.ip, connection.laddr.port)
        for connection in connections_of(process, "inet")
        if connection.status == psutil.CONN_LISTEN or (connection.type == socket.SOCK_DGRAM and not connection.raddr)
    ]


_kept: list[socket.socket] = []


def kept_port(count: int = 1) -> int:
    """The first of so many free ports. They stay bound, so no other process gets them; a store or a server may still
    listen there, because Linux lets sockets with SO_REUSEADDR share a port until one of them listens."""
    for _ in range(100):
        kept = [socket.socket() for _ in range(count)]
        port = 0
        try:
            for number, one in enumerate(kept):
                one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                one.bind(("127.0.0.1", port + number if port else 0))
                port = port or one.getsockname()[1]
        except (OSError, OverflowError):  # one of the next ports is in use, or there is none
            for one in kept:
                one.close()
            continue
        _kept.extend(kept)
        return port
    raise OSError(f"found no {count} free ports in a row")


def template_of(process_id: int) -> psutil.Process:
    return next(child for child in family(process_id) if "template.serve" in " ".join(child.cmdline()))


def eventually(claim: Callable[[], object]) -> bool:
    """Whether it becomes true within a minute. How soon is for benchmarks to say, but build/waits.txt notes it."""
    begin = time.monotonic()
    while not (holds := bool(claim())) and time.monotonic() < begin + 60:
        time.sleep(0.02)
    (PROJECT / "build").mkdir(exist_ok=True)
    with open(PROJECT / "build" / "waits.txt", "a") as waits:
        waits.write(f"{time.monotonic() - begin:.2f} {os.environ.get('PYTEST_CURRENT_TEST', '')}\n")
    return holds


class Doorbell:
    """Ranks ring it where a test wants to act: `open(bell, "w").write("!")`."""

    def __init__(self, folder: Path) -> None:
        self.path = os.fspath(folder / "bell")
        os.mkfifo(self.path)
        self._end = os.open(self.path, os.O_RDWR)

    def wait_for(self, rings: int, seconds: float = 30) -> None:
        heard = 0
        while heard < rings:
            assert select.select([self._end], [], [], seconds)[0], f"{heard} of {rings} ranks came so far"
            heard += len(os.read(self._end, rings - heard))

    def close(self) -> None:
        os.close(self._end)


class Family:
    """A process and all that it started, found by a mark in their environment, whosever children they become."""

    def __init__(self) -> None:
        self._mark = uuid.uuid4().hex
        self.environment = {**os.environ, "PYTHONPATH": os.fspath(PROJECT), _MARK: self._mark}

    def members(self) -> list[psutil.Process]:
        """Those that are alive."""
        found = []
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error, OSError):
                if process.environ().get(_MARK) == self._mark and process.status() != psutil.STATUS_ZOMBIE:
                    found.append(process)
        return found

    def kill(self) -> None:
        """End them all, including those started meanwhile."""
        for _ in range(20):
            if not (living := self.members()):
                return
            for process in living:
                with contextlib.suppress(psutil.Error):
                    process.kill()
            time.sleep(0.05)


class Program:
    """A Python process in the notebook's place, and all that it starts."""

    def __init__(
        self,
        source: str,
        *,
        environment: Mapping[str, str | None] | None = None,
        prefix: Sequence[str] = (),
        folder: Path | None = None,
        options: Sequence[str] = (),
    ) -> None:
        self._family = Family()
        wanted = {**self._family.environment, **(environment or {})}
        self._process = subprocess.Popen(
            [*prefix, sys.executable, *options, "-c", "import os\n" + source],
            env={name: value for name, value in wanted.items() if value is not None},
            cwd=folder,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        self.said = ""

    @property
    def process_id(self) -> int:
        return self._process.pid

    def wait_until_said(self, word: str, times: int = 1, seconds: float = 60) -> None:
        assert self._process.stdout is not None
        end = time.monotonic() + seconds
        while self.said.count(word) < times:
            ready, _, _ = select.select([self._process.stdout], [], [], max(0, end - time.monotonic()))
            data = os.read(self._process.stdout.fileno(), 65536) if ready else b""
            assert data, f"it said {word!r} {self.said.count(word)} of {times} times, and in all: {self.said}"
            self.said += data.decode(errors="replace")

    def finish(self, seconds: float = 60) -> str:
        """What it said until it ended, with its exit status on a last line if that is not 0."""
        try:
            rest, _ = self._process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            stacks = "\n".join(" ".join(process.cmdline()[:1]) + f" {process.status()}" for process in self.marked())
            raise AssertionError(f"it did not end; it said: {self.said}\nstill there: {stacks}") from None
        self.said += rest.decode(errors="replace")
        if self._process.returncode:
            self.said += f"exit status {self._process.returncode}\n"
        return self.said

    def kill(self) -> None:
        """As the system does when memory runs out."""
        self._process.kill()
        self._process.wait()

    def interrupt(self) -> None:
        """As Ctrl-C in a terminal: the whole group of processes is told."""
        os.killpg(self._process.pid, signal.SIGINT)

    def marked(self) -> list[psutil.Process]:
        """What is alive of it, and of all that it started."""
        return self._family.members()

    def __enter__(self) -> Program:
        return self

    def __exit__(self, *reason: object) -> None:
        self._family.kill()
        self._process.communicate()


def run_on_a_terminal(
    arguments: Sequence[str], environment: Mapping[str, str], stream: Literal["stdout", "stderr"]
) -> tuple[str, str]:
    """What a Python program writes to a terminal, which one of its streams is; and to the other one, a pipe."""
    ours, theirs = os.openpty()
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, stream: theirs}
    program = subprocess.Popen([sys.executable, *arguments], env=environment, text=True, **streams)  # type: ignore[call-overload]
    os.close(theirs)
    said = b""
    with contextlib.suppress(OSError):  # Linux says so of a terminal that nobody has open any more
        while part := os.read(ours, 10_000):
            said += part
    os.close(ours)
    piped = program.communicate(timeout=60)
    assert program.returncode == 0, piped
    return said.decode().replace("\r\n", "\n"), piped[stream == "stdout"]


def when_a_launch_waits(act: Callable[[], object], after_seconds: float = 0.0) -> None:
    """Do this as soon as the next launch waits for its ranks, which on a busy machine may take a while."""
    waits, name = threading.Event(), "until_the_end"
    until_the_end = getattr(LaunchedCall, name)

    def noted(*arguments: Any) -> Any:
        setattr(LaunchedCall, name, until_the_end)
        waits.set()
        return until_the_end(*arguments)

    def act_then() -> None:
        if waits.wait(60):
            time.sleep(after_seconds)
            act()

    setattr(LaunchedCall, name, noted)
    threading.Thread(target=act_then, daemon=True).start()
