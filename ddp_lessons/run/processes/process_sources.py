"""Where new processes come from: forked from a clean template, or spawned one by one.

A nursery starts processes, which wait until they learn which rank they are, and stops them.
"""

from __future__ import annotations

import contextlib
import io
import itertools
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import weakref
from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass, field
from typing import IO, Protocol

from ddp_lessons.own_files import IMPORTED_FROM
from ddp_lessons.run.launcher.private_folders import current_folder, open_standard_descriptors, session_folder
from ddp_lessons.run.processes.shared_template import Sown, ask_seed
from ddp_lessons.run.wire.channel import Channel
from ddp_lessons.run.wire.clocks import Clock
from ddp_lessons.run.wire.messages import Ended, Fork, Import, Leave, Ready, Signal, Stop

_SECONDS_FOR_AN_IMPORT = 60.0
_SECONDS_TO_ANSWER = 10.0
_SECONDS_TO_DIE = 1.0
_open_channels: weakref.WeakSet[Channel] = weakref.WeakSet()
_READ_WHEN_IMPORTED = ("OMP_", "MKL_", "KMP_", "GOMP_", "OPENBLAS_", "TORCH_", "PYTORCH_", "PYTHON", "LD_", "DYLD_")
# ranks get the notebook's module path, so PYTHONPATH adds nothing: a change of it needs no new import of torch
_READ_BY_EACH_RANK = ("TORCH_DISTRIBUTED_DEBUG", "OMP_NUM_THREADS", "PYTHONPATH")


@dataclass(eq=False)
class Process:
    """One process that is, or will be, a rank: talk to it through `channel`, read what it prints from `output`."""

    number: int
    channel: Channel
    output: io.RawIOBase | IO[bytes]
    nursery: Nursery = field(repr=False)
    imported: Set[str] = frozenset()  # what is already imported in it, in addition to torch
    node: str = ""  # the node that it runs on, if it is not this machine

    def is_there(self) -> bool:
        """Whether it still waits for its rank. A process that died meanwhile has closed its channel."""
        try:
            self.channel.socket.setblocking(False)
            return len(self.channel.socket.recv(1, socket.MSG_PEEK)) > 0
        except BlockingIOError:
            return True
        except OSError:
            return False
        finally:
            with contextlib.suppress(OSError):
                self.channel.socket.setblocking(True)

    def close(self) -> None:
        self.channel.close()
        self.output.close()


class Nursery(Protocol):
    imported: Set[str]  # as far as is known, in addition to torch

    def bear(self, count: int) -> list[Process]:
        """Start new processes. They may not be ready yet, but already receive messages."""

    def stop(self, processes: Sequence[Process]) -> list[int | None]:
        """Stop processes, with all that they started. Returns how each ended: exit code, minus its signal, or None."""

    def signal(self, process: Process, number: int) -> None: ...

    def is_ready_within(self, seconds: float) -> bool:
        """Whether it is ready for requests now, or after waiting this long."""

    def import_ahead(self, modules: Set[str]) -> None:
        """Import these for all future processes, when there is time, if once is enough for all of them."""

    def busy_with(self) -> str:
        """What it is importing at this moment, to show while you wait; "" if nothing."""

    def is_usable(self) -> bool: ...

    def last_words(self) -> tuple[str, ...]:
        """What it wrote to stderr, if it exited by itself."""

    def clock(self) -> Clock | None:
        """The clock of its processes, if they run on another machine."""


class Forks:
    """Processes forked from a template that imported torch once, in the background."""

    def __init__(self) -> None:
        open_standard_descriptors()
        ours, theirs = socket.socketpair()
        self._environment = environment_of_import()
        self._folder = session_folder()  # its ranks keep sockets there
        self._numbers = itertools.count()
        self._one_request = threading.Lock()
        self._is_killed = False
        self.imported: Set[str] = frozenset()  # as far as is known, in addition to torch
        self._wanted: frozenset[str] = frozenset()
        self._has_torch = threading.Event()  # as far as is known; shared with the code that stops the template
        self._channel = opened(ours)
        self._complaints = tempfile.TemporaryFile(dir=self._folder)  # noqa: SIM115
        with theirs:
            descriptors = theirs.fileno(), self._complaints.fileno()
            arguments = f"{theirs.fileno()}, {os.getpid()}, {self._folder!a}"
            self._template = ask_seed(self._folder, self._environment, descriptors) or subprocess.Popen(
                clean_python("template", f"template.serve({arguments})"),
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=self._complaints,
                stderr=self._complaints,
                start_new_session=True,  # an interrupt of the notebook must not reach the template
                cwd=IMPORTED_FROM,  # the current folder may be gone; ranks change to it themselves
                env=quiet_environment(),
            )
        weakref.finalize(self, _end_template, self._channel, self._template, self._complaints, self._has_torch)

    def bear(self, count: int) -> list[Process]:
        return self.bear_these(tuple(itertools.islice(self._numbers, count)))

    def bear_these(self, numbers: tuple[int, ...]) -> list[Process]:
        with contextlib.ExitStack() as theirs, contextlib.ExitStack() as ours:
            born, descriptors = [], []
            for number in numbers:  # create all channels before asking: the next one may exceed the limit of open files
                channel, their_channel = socket.socketpair()
                ours.callback(channel.close)
                theirs.callback(their_channel.close)
                their_channel.settimeout(None)
                output, their_output = (io.FileIO(end, mode) for end, mode in zip(os.pipe(), "rw", strict=True))
                ours.callback(output.close)
                theirs.callback(their_output.close)
                born.append(Process(number, opened(channel), output, self, self.imported))
                descriptors.append([their_channel.fileno(), their_output.fileno()])
            with self._one_request:
                self._channel.send(Fork(numbers))
                for pair in descriptors:
                    socket.send_fds(self._channel.socket, [b"+"], pair)
            ours.pop_all()  # they stay open
        return born

    def stop(self, processes: Sequence[Process]) -> list[int | None]:
        try:
            with self._one_request:
                self._hear_from_template(0)
                if not self._has_torch.is_set():
                    raise TimeoutError  # stopping must not wait for the import of torch; later imports are worth it
                return list(self._answer_to(Stop(tuple(process.number for process in processes))).exit_codes)
        except (OSError, EOFError):
            self._kill()
            if self._has_torch.is_set():  # before that there are no ranks to wait for
                self._template.wait()
            return [None for _ in processes]

    def signal(self, process: Process, number: int) -> None:
        """Returns when it was sent: an import may come first."""
        with self._one_request, contextlib.suppress(OSError, EOFError):
            self._answer_to(Signal(process.number, number))

    def _answer_to(self, request: Stop | Signal) -> Ended:
        try:
            self._channel.socket.settimeout(_SECONDS_TO_ANSWER)
            self._channel.send(request)
            ended = None
            while ended is None:
                is_idle = self._wanted <= self.imported
                ended = self._next_of_template(_SECONDS_TO_ANSWER if is_idle else _SECONDS_FOR_AN_IMPORT)
            return ended
        except (OSError, EOFError):
            self._kill()
            raise

    def _kill(self) -> None:
        """Its ranks end with it."""
        self._template.kill()
        self._is_killed = True

    def is_ready_within(self, seconds: float) -> bool:
        with self._one_request, contextlib.suppress(OSError, EOFError):
            self._hear_from_template(0 if self._has_torch.is_set() else seconds)
        return self._has_torch.is_set()

    def import_ahead(self, modules: Set[str]) -> None:
        if not modules <= self._wanted:
            with self._one_request:
                self._wanted |= modules
                self._channel.send(Import(self._wanted))

    def busy_with(self) -> str:
        return "" if self.is_ready_within(0) else "torch"

    def is_usable(self) -> bool:
        is_alive = not self._is_killed and self._template.poll() is None
        return is_alive and self._environment == environment_of_import() and self._folder == session_folder()

    def last_words(self) -> tuple[str, ...]:
        if self._is_killed:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._template.wait(timeout=_SECONDS_TO_DIE)
        if self._template.poll() is None:
            return ()
        self._complaints.seek(0)
        return tuple(self._complaints.read().decode(errors="replace").strip().splitlines()[-1:])

    def clock(self) -> None:
        return None

    def _hear_from_template(self, seconds: float) -> None:
        """What it told by itself. EOFError if nobody listens any more, as in a child that the notebook forked."""
        if self._channel.fileno() < 0:
            raise EOFError
        while select.select([self._channel], [], [], seconds)[0]:
            self._next_of_template(_SECONDS_TO_ANSWER)
            seconds = 0.0

    def _next_of_template(self, seconds: float) -> Ended | None:
        """What it answers, or None if it tells by itself what it has imported."""
        self._channel.socket.settimeout(seconds)
        message, _ = self._channel.receive()
        if isinstance(message, Ended):
            return message
        assert isinstance(message, Ready)
        self._has_torch.set()
        self.imported = message.imported
        return None


class Spawns:
    """Spawned processes, each of which imports torch: slower, but possible on every system."""

    def __init__(self) -> None:
        open_standard_descriptors()
        self.imported: Set[str] = frozenset()
        self._environment = environment_of_import()
        self._numbers = itertools.count()
        self._started: dict[int, subprocess.Popen[bytes]] = {}

    def bear(self, count: int) -> list[Process]:
        return [self._bear_one(number) for number in itertools.islice(self._numbers, count)]

    def stop(self, processes: Sequence[Process]) -> list[int | None]:
        started = [self._started.pop(process.number) for process in processes]
        for process in started:
            _kill_group(process)
        return [process.wait() for process in started]

    def signal(self, process: Process, number: int) -> None:
        self._started[process.number].send_signal(number)

    def is_ready_within(self, seconds: float) -> bool:
        return True

    def import_ahead(self, modules: Set[str]) -> None:
        pass

    def busy_with(self) -> str:
        return "torch"  # each rank, before it joins

    def is_usable(self) -> bool:
        return self._environment == environment_of_import()

    def last_words(self) -> tuple[str, ...]:
        return ()

    def clock(self) -> None:
        return None

    def _bear_one(self, number: int) -> Process:
        ours, theirs = socket.socketpair()
        with theirs, _blocked(signal.SIGUSR1):  # it would kill a Python that does not handle it yet
            started = subprocess.Popen(
                clean_python("rank_main", f"rank_main.main({theirs.fileno()}, {os.getpid()}, {session_folder()!a})"),
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                cwd=IMPORTED_FROM,
                bufsize=0,
                env=quiet_environment(),
            )
        self._started[number] = started
        assert started.stdout is not None
        return Process(number, opened(ours), started.stdout, self)


@contextlib.contextmanager
def _blocked(number: signal.Signals) -> Iterator[None]:
    """Processes that are started meanwhile begin with this signal blocked."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [number])
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def stop_each(processes: Sequence[Process]) -> dict[int, int | None]:
    """Stop processes of any nurseries. Returns how each ended, by its number."""
    ended: dict[int, int | None] = {}
    for nursery in dict.fromkeys(process.nursery for process in processes):
        mine = [process for process in processes if process.nursery is nursery]
        ended |= zip([process.number for process in mine], nursery.stop(mine), strict=True)
    return ended


def start_method(asked: str | None) -> str:
    """How processes are started: forked where that is safe, unless asked otherwise."""
    if asked not in (None, "fork", "spawn"):
        raise ValueError(f'start_method must be "fork", "spawn" or None, not {asked!r}')
    if asked == "fork" and sys.platform != "linux":
        raise ValueError('start_method="fork" needs Linux. Next: leave it out, and the processes are spawned instead')
    return asked or ("fork" if sys.platform == "linux" else "spawn")


def opened(stream: socket.socket) -> Channel:
    """A channel that is closed in a child which the notebook forks."""
    channel = Channel(stream)
    _open_channels.add(channel)
    return channel


def _close_in_forked_child() -> None:
    """A child forked from the notebook must not keep ranks alive after the notebook has exited."""
    for channel in list(_open_channels):
        channel.close()


os.register_at_fork(after_in_child=_close_in_forked_child)


def _end_template(
    channel: Channel, template: subprocess.Popen[bytes] | Sown, complaints: IO[bytes], has_torch: threading.Event
) -> None:
    with contextlib.suppress(OSError, ValueError):  # a process that the notebook forked has closed its channel
        if has_torch.is_set() or select.select([channel], [], [], 0)[0]:
            channel.send(Leave())
        else:  # it reads no messages before torch is imported, and has nothing to lose
            template.kill()
    channel.close()
    complaints.close()
    end_within(2, template)


def end_within(seconds: float, process: subprocess.Popen[bytes] | Sown) -> None:
    """Wait for the end of a process that is about to end, and kill it if it does not."""
    try:
        process.wait(timeout=seconds)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _kill_group(process: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)


def clean_python(module: str, call: str) -> list[str]:
    """A clean interpreter that finds this package where the notebook found it, but nothing of the current folder."""
    here = current_folder()
    path = [os.path.join(here, folder) for folder in sys.path if folder not in ("", here)]
    code = f"import sys; sys.path[:] = {[*path, IMPORTED_FROM]!a}; from ddp_lessons.run.rank import {module}; {call}"
    flags: list[str] = subprocess._args_from_interpreter_flags()  # type: ignore[attr-defined]
    return [sys.executable, *flags, "-c", code]


def environment_of_import() -> dict[str, str]:
    """The variables that Python, torch and its libraries read once, when they are loaded."""
    return {
        name: value
        for name, value in os.environ.items()
        if name.startswith(_READ_WHEN_IMPORTED) and not name.startswith(_READ_BY_EACH_RANK)
    }


def quiet_environment() -> dict[str, str]:
    """Numpy must not start threads at import, and gloo must not log what it also raises."""
    return {"OPENBLAS_NUM_THREADS": "1", "TORCH_CPP_LOG_LEVEL": "FATAL", **os.environ}
