"""Where fresh processes come from: forked from a clean template, or started one by one.

A nursery hands out processes that wait to be told which rank they are, and takes them back to end them.
"""

from __future__ import annotations

import array
import contextlib
import io
import itertools
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import weakref
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import IO, Protocol

from ddp_lessons.run.channel import Channel
from ddp_lessons.run.folders import current_folder, session_folder
from ddp_lessons.run.messages import Ended, Fork, Import, Leave, Ready, Signal, Stop
from ddp_lessons.run.sown import Sown, ask_seed

_READ_WHEN_IMPORTED = ("OMP_", "MKL_", "KMP_", "GOMP_", "OPENBLAS_", "TORCH_", "PYTORCH_", "PYTHON", "LD_", "DYLD_")
_READ_BY_EACH_RANK = ("TORCH_DISTRIBUTED_DEBUG", "OMP_NUM_THREADS")
_PACKAGE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
_open_channels: weakref.WeakSet[Channel] = weakref.WeakSet()


@dataclass(eq=False)
class Process:
    """One process that is, or will be, a rank: talk to it through `channel`, read what it prints from `output`."""

    number: int
    channel: Channel
    output: io.RawIOBase | IO[bytes]
    nursery: Nursery = field(repr=False)

    def is_there(self) -> bool:
        """Whether it still waits for its start. One that died while it waited has closed its channel."""
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
    def bear(self, count: int) -> list[Process]:
        """Begin new processes. They may not be ready yet, but can be spoken to."""

    def stop(self, processes: Sequence[Process]) -> list[int | None]:
        """End processes, with all that they started. How each ended: its exit code, minus its signal, or not known."""

    def signal(self, process: Process, number: int) -> None: ...

    def is_ready_within(self, seconds: float) -> bool:
        """Whether it can do by now what it is asked, or could after waiting so long."""

    def import_ahead(self, module: str) -> None:
        """Import this for all processes to come, if it can be done once for all of them."""

    def is_usable(self) -> bool: ...

    def last_words(self) -> tuple[str, ...]:
        """What it complained of, if it ended itself."""


class Forks:
    """Processes forked from a template that imported torch once, in the background."""

    def __init__(self) -> None:
        ours, theirs = socket.socketpair()
        self._environment = _environment_of_import()
        self._numbers = itertools.count()
        self._one_request = threading.Lock()
        self._is_ready = False
        self._channel = _opened(ours)
        self._complaints = tempfile.TemporaryFile(dir=session_folder())  # noqa: SIM115
        with theirs:
            descriptors = theirs.fileno(), self._complaints.fileno()
            arguments = f"{theirs.fileno()}, {os.getpid()}, {session_folder()!a}"
            self._template = ask_seed(session_folder(), self._environment, descriptors) or subprocess.Popen(
                _command("template", f"template.serve({arguments})"),
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=self._complaints,
                stderr=self._complaints,
                start_new_session=True,  # an interrupt of the notebook is not for the template
                cwd=_PACKAGE,  # the current folder may be gone; ranks go there by themselves
                env=_quiet_environment(),
            )
        weakref.finalize(self, _end_template, self._channel, self._template, self._complaints)

    def bear(self, count: int) -> list[Process]:
        numbers = tuple(itertools.islice(self._numbers, count))
        with contextlib.ExitStack() as theirs, contextlib.ExitStack() as ours:
            born, descriptors = [], []
            for number in numbers:  # all before anything is asked for: one more may be one too many
                channel, their_channel = socket.socketpair()
                ours.callback(channel.close)
                theirs.callback(their_channel.close)
                their_channel.settimeout(None)
                output, their_output = (io.FileIO(end, mode) for end, mode in zip(os.pipe(), "rw", strict=True))
                ours.callback(output.close)
                theirs.callback(their_output.close)
                born.append(Process(number, _opened(channel), output, self))
                descriptors.append(array.array("i", [their_channel.fileno(), their_output.fileno()]))
            with self._one_request:
                self._channel.send(Fork(numbers))
                for pair in descriptors:
                    self._channel.socket.sendmsg([b"+"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, pair)])
            ours.pop_all()  # they stay open
        return born

    def stop(self, processes: Sequence[Process]) -> list[int | None]:
        try:
            with self._one_request:
                self._wait_until_ready(0.3)  # it still imports torch: nobody shall wait for that to stop something
                self._channel.socket.settimeout(10)
                self._channel.send(Stop(tuple(process.number for process in processes)))
                ended, _ = self._channel.receive()
            assert isinstance(ended, Ended)
            return list(ended.exit_codes)
        except (OSError, EOFError):
            self._template.kill()  # its ranks end with it
            self._template.wait()
            return [None for _ in processes]

    def signal(self, process: Process, number: int) -> None:
        with self._one_request:
            self._channel.send(Signal(process.number, number))

    def is_ready_within(self, seconds: float) -> bool:
        with self._one_request, contextlib.suppress(OSError, EOFError):
            self._wait_until_ready(seconds)
        return self._is_ready

    def import_ahead(self, module: str) -> None:
        with self._one_request:
            self._channel.send(Import(module))

    def is_usable(self) -> bool:
        return self._template.poll() is None and self._environment == _environment_of_import()

    def last_words(self) -> tuple[str, ...]:
        if self._template.poll() is None:
            return ()
        self._complaints.seek(0)
        return tuple(self._complaints.read().decode(errors="replace").strip().splitlines()[-1:])

    def _wait_until_ready(self, seconds: float) -> None:
        if not self._is_ready:
            self._channel.socket.settimeout(seconds)
            greeting, _ = self._channel.receive()
            self._is_ready = isinstance(greeting, Ready)


class Spawns:
    """Processes started one by one, each importing torch for itself: slower, but possible on every system."""

    def __init__(self) -> None:
        self._environment = _environment_of_import()
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
        return False  # each imports for itself

    def import_ahead(self, module: str) -> None:
        pass

    def is_usable(self) -> bool:
        return self._environment == _environment_of_import()

    def last_words(self) -> tuple[str, ...]:
        return ()

    def _bear_one(self, number: int) -> Process:
        ours, theirs = socket.socketpair()
        windows = os.name == "nt"
        with theirs:
            descriptor = None if windows else theirs.fileno()
            started = subprocess.Popen(
                _command("rank", f"rank.main({descriptor}, {os.getpid()}, {session_folder()!a})"),
                pass_fds=[] if descriptor is None else [descriptor],
                stdin=subprocess.PIPE if windows else subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                cwd=_PACKAGE,
                bufsize=0,
                env=_quiet_environment(),
            )
            if windows and started.stdin is not None:
                started.stdin.write(theirs.share(started.pid))  # type: ignore[attr-defined,unused-ignore]
                started.stdin.close()
        self._started[number] = started
        assert started.stdout is not None
        output = _through_socket(started.stdout) if windows else started.stdout
        return Process(number, _opened(ours), output, self)


def start_method(asked: str | None) -> str:
    """The way in which processes are begun: forked where that is safe, unless asked otherwise."""
    if asked not in (None, "fork", "spawn"):
        raise ValueError(f'start_method must be "fork", "spawn" or None, not {asked!r}')
    if asked == "fork" and sys.platform != "linux":
        raise ValueError('start_method="fork" needs Linux; leave it out, and processes are started ahead of need')
    set_outside = os.environ.get("DDP_LESSONS_START_METHOD")
    if set_outside not in (None, "", "fork", "spawn"):
        raise ValueError(f'the variable DDP_LESSONS_START_METHOD must be "fork" or "spawn", not {set_outside!r}')
    return asked or set_outside or ("fork" if sys.platform == "linux" else "spawn")


def _command(module: str, call: str) -> list[str]:
    """A clean interpreter that finds this package where the notebook found it, but nothing of the current folder."""
    here = current_folder()
    path = [os.path.join(here, folder) for folder in sys.path if folder not in ("", here)]
    code = f"import sys; sys.path[:] = {[*path, _PACKAGE]!a}; from ddp_lessons.run import {module}; {call}"
    flags: list[str] = subprocess._args_from_interpreter_flags()  # type: ignore[attr-defined]
    return [sys.executable, *flags, "-c", code]


def _environment_of_import() -> dict[str, str]:
    """The variables that Python, torch and its libraries read once, when they are loaded."""
    return {
        name: value
        for name, value in os.environ.items()
        if name.startswith(_READ_WHEN_IMPORTED) and not name.startswith(_READ_BY_EACH_RANK)
    }


def _quiet_environment() -> dict[str, str]:
    """Numpy starts no threads when it is imported; gloo's C++ leaves complaining to the exceptions that it raises."""
    return {"OPENBLAS_NUM_THREADS": "1", "TORCH_CPP_LOG_LEVEL": "FATAL", **os.environ}


def _opened(stream: socket.socket) -> Channel:
    channel = Channel(stream)
    _open_channels.add(channel)
    return channel


def _close_in_forked_child() -> None:
    """A child that the notebook forks must not keep ranks alive when the notebook is gone."""
    for channel in list(_open_channels):
        channel.close()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_close_in_forked_child)


def _end_template(channel: Channel, template: subprocess.Popen[bytes] | Sown, complaints: IO[bytes]) -> None:
    with contextlib.suppress(OSError):
        channel.send(Leave())
    channel.close()
    complaints.close()
    try:
        template.wait(timeout=2)
    except subprocess.TimeoutExpired:
        template.kill()
        template.wait()


def _kill_group(process: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        if os.name == "posix":
            os.killpg(process.pid, signal.SIGKILL)
        else:
            process.kill()


def _through_socket(pipe: IO[bytes]) -> io.RawIOBase:
    """On Windows one cannot wait for a pipe and a socket at once, so a thread copies the pipe into a socket."""
    ours, theirs = socket.socketpair()

    def copy() -> None:
        with theirs, contextlib.suppress(OSError):
            while data := pipe.read(65536):
                theirs.sendall(data)

    threading.Thread(target=copy, daemon=True).start()
    return ours.makefile("rb", buffering=0)
