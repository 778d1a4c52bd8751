"""A clean process with torch imported, from which ranks are forked.

Importing torch takes seconds, forking milliseconds. The notebook's own process must not be forked: it has threads,
maybe a GPU, and a fork of it can hang in its first large operation. This one has neither, and does nothing but fork.
It lives as long as the notebook's process keeps the other end of its channel open, and ends its ranks when it exits.

The standard library's forkserver could fork, too. But there is one per process, shared with the learner's own use of
it, it loses its children when the notebook dies, and it uses a path in the file system.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import gc
import importlib
import importlib.metadata
import json
import os
import select
import shutil
import signal
import socket
import struct
import sys
from typing import NoReturn

from ddp_lessons.run.rank import own_process, rank_main  # the code that runs cells is imported in advance, too
from ddp_lessons.run.recording.interception import install
from ddp_lessons.run.wire.channel import Channel
from ddp_lessons.run.wire.messages import HEAVY_IMPORTS, MARK, Ended, Fork, Import, Leave, Ready, Signal, Stop

_SECONDS_OF_IDLENESS = 1.0  # before an import, during which requests wait
_DIE_WITH_PARENT, _ADOPT_ORPHANS = 1, 36  # prctl's PR_SET_PDEATHSIG and PR_SET_CHILD_SUBREAPER


def serve(channel_number: int, notebook: int, folder: str) -> NoReturn:
    """Import torch, then fork, stop and signal ranks as the notebook asks. At the end, remove the notebook's folder."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # a server may have been started with it ignored; then wait() fails
    own_process.leave_when_orphaned(notebook, folder)
    _import_ahead()
    own_process.stay_when_orphaned()
    _tend(channel_number, folder)


def sow(listening: int, python: list[object]) -> NoReturn:
    """Run the seed: import everything slow, then fork a template for each notebook of this user that asks."""
    signal.signal(signal.SIGUSR1, signal.SIG_IGN)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # exited children need no wait()
    _import_ahead()
    for module in HEAVY_IMPORTS:
        importlib.import_module(module)
    gc.freeze()
    seed = socket.socket(fileno=listening)
    while True:
        asking, _ = seed.accept()
        with asking, contextlib.suppress(Exception):  # a bad request must not end the seed
            _answer(asking, seed, python)


def _answer(asking: socket.socket, seed: socket.socket, python: list[object]) -> None:
    asking.settimeout(5)
    told, descriptors, _, _ = socket.recv_fds(asking, 1_000_000, 2)
    try:
        _, owner, _ = struct.unpack("3i", asking.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
        question = json.loads(told)
        if owner == os.getuid() and question["python"] == python and len(descriptors) == 2:
            folder = str(question["folder"])
            if (template := os.fork()) == 0:
                seed.close()
                asking.close()
                _become_template(descriptors, folder)
            asking.send(str(template).encode())
    finally:
        for descriptor in descriptors:
            os.close(descriptor)


def _become_template(descriptors: list[int], folder: str) -> NoReturn:
    try:
        os.setsid()
        channel, complaints = descriptors
        for output in (1, 2):
            os.dup2(complaints, output)
        os.close(complaints)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        _tend(channel, folder)
    finally:
        os._exit(1)


def _tend(channel_number: int, folder: str) -> NoReturn:
    """Fork, stop and signal ranks as the notebook asks, until it exits."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_ADOPT_ORPHANS, 1)
    own_process.keep_sockets_in(folder)
    stream = socket.socket(fileno=channel_number)
    channel = Channel(stream)
    children: dict[int, int] = {}  # number -> process id, until it is reaped
    endings: dict[int, int] = {}
    outputs: dict[int, str] = {}  # number -> the pipe into which it prints
    wanted, imported = set[str](), set[str]()
    with contextlib.suppress(EOFError, OSError):
        channel.send(Ready())
        while True:
            while wanted and not select.select([stream], [], [], _SECONDS_OF_IDLENESS)[0]:
                imported.add(module := wanted.pop())
                importlib.import_module(module)
                gc.freeze()
                channel.send(Ready(frozenset(imported)))
            request, _ = channel.receive()
            if isinstance(request, Fork):
                for number in request.numbers:
                    rank_channel, output = _receive_descriptors(stream, 2)
                    outputs[number] = f"pipe:[{os.fstat(output).st_ino}]"
                    children[number] = _fork(rank_channel, output, [channel_number])
            elif isinstance(request, Import):
                wanted |= request.modules - imported
            elif isinstance(request, Stop):
                _stop(children, endings, outputs, request.numbers)
                channel.send(Ended(tuple(endings.pop(number, 0) for number in request.numbers)))
            elif isinstance(request, Signal):
                if request.number in children:
                    os.kill(children[request.number], request.signal)
                channel.send(Ended(()))
            elif isinstance(request, Leave):
                folder = ""  # the notebook still runs and uses it
    _stop(children, endings, outputs, tuple(children))
    if folder:
        shutil.rmtree(folder, ignore_errors=True)
    os._exit(0)


def _import_ahead() -> None:
    gc.disable()  # collecting while modules load takes a tenth of the time and finds almost nothing
    import torch.distributed
    import torch.nn.parallel
    import torch.utils.data  # noqa: F401

    # torch scans all installed packages whenever a group is created: this saves each rank 12 ms
    importlib.metadata.entry_points = functools.cache(importlib.metadata.entry_points)  # type: ignore[assignment]
    importlib.metadata.entry_points(group="torch.distributed.backends")
    install()
    gc.freeze()  # these objects are shared by all ranks: keep the collector from touching, and so copying, them


def _receive_descriptors(stream: socket.socket, count: int) -> list[int]:
    """Receive the descriptors that come with one byte of the stream."""
    _, received, _, _ = socket.recv_fds(stream, 1, count)
    if len(received) != count:
        raise EOFError("the notebook has exited")
    return received


def _fork(rank_channel: int, output: int, not_for_ranks: list[int]) -> int:
    process = os.fork()
    if process == 0:
        _live_as_rank(rank_channel, output, not_for_ranks, os.getppid())
    os.close(rank_channel)
    os.close(output)
    return process


def _live_as_rank(rank_channel: int, output: int, not_for_ranks: list[int], template: int) -> NoReturn:
    try:
        os.setsid()  # its own process group: what the rank starts ends with it
        if sys.platform == "linux":
            ctypes.CDLL(None).prctl(_DIE_WITH_PARENT, signal.SIGKILL)
        if os.getppid() != template:
            os._exit(1)
        for descriptor in not_for_ranks:
            os.close(descriptor)
        gc.enable()
        own_process.forget_inherited_state()
        rank_main.serve(Channel(socket.socket(fileno=rank_channel)), output, own_process.end_group)
    finally:
        os._exit(1)


def _stop(children: dict[int, int], endings: dict[int, int], outputs: dict[int, str], numbers: tuple[int, ...]) -> None:
    """Kill these ranks and all that they started, and note how each ended."""
    doomed = [number for number in numbers if number in children]
    for number in doomed:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(children[number], signal.SIGKILL)
        with contextlib.suppress(ProcessLookupError):
            os.kill(children[number], signal.SIGKILL)  # it may not have its own process group yet
    for number in doomed:
        group = children.pop(number)
        _, status = os.waitpid(group, 0)
        endings[number] = os.waitstatus_to_exitcode(status)
        with contextlib.suppress(ChildProcessError):
            while True:  # the children of a dead rank are ours now
                os.waitpid(-group, 0)
    marks = {f"{MARK}={number}".encode() for number in doomed}
    pipes = {outputs.pop(number) for number in doomed}
    while orphans := [
        process
        for process in _adopted(children)
        if marks & _environment_of(process) or pipes & _files_of(process)  # without exec, it has our environment
    ]:
        for process in orphans:  # they had left the rank's process group
            os.kill(process, signal.SIGKILL)
            os.waitpid(process, 0)
    for process in _adopted(children):
        with contextlib.suppress(ChildProcessError):
            os.waitpid(process, os.WNOHANG)  # those that exited by themselves


def _adopted(children: dict[int, int]) -> list[int]:
    """Processes that became our children when the rank that started them exited."""
    try:
        with open(f"/proc/self/task/{os.getpid()}/children") as listed:
            return [int(process) for process in listed.read().split() if int(process) not in children.values()]
    except OSError:
        return []


def _environment_of(process: int) -> set[bytes]:
    try:
        with open(f"/proc/{process}/environ", "rb") as variables:
            return set(variables.read().split(b"\0"))
    except OSError:
        return set()


def _files_of(process: int) -> set[str]:
    folder, found = f"/proc/{process}/fd", set()
    with contextlib.suppress(OSError):
        for descriptor in os.listdir(folder):
            with contextlib.suppress(OSError):
                found.add(os.readlink(f"{folder}/{descriptor}"))
    return found
