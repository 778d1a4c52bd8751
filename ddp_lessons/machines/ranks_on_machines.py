"""One rank on each node, without starting Python there: a rank that is ready moves into the node's network."""

from __future__ import annotations

import ctypes
import os
import time
import traceback
from collections.abc import Callable, Sequence
from typing import NamedTuple

from ddp_lessons.machines.attempts import Attempt, Said
from ddp_lessons.run.launch import launch

MASTER_PORT = "29500"
_NAMESPACES = ("net", "uts")
_OURS = ("GLOO_SOCKET_IFNAME", "TP_SOCKET_IFNAME", "TORCHELASTIC_USE_AGENT_STORE")  # launch set them for one node


def launch_on(
    pids: Sequence[int],
    address: str,
    function: Callable[..., object],
    args: tuple[object, ...],
    timeout_seconds: float,
    happened_since: Callable[[float], tuple[Said, ...]],
) -> Attempt:
    """Call the function on one rank on the node of each of these processes, and keep its output and exceptions.

    MASTER_ADDR is `address`. As in a script, the ranks have not joined a process group.
    """
    done = launch(
        _live_there,
        len(pids),
        tuple(pids),
        address,
        function,
        args,
        join=False,
        quiet=True,
        record=False,
        timeout_seconds=timeout_seconds,
    )
    begin = min(each.begin for each in done)
    said = [
        Said(rank, each.end - begin, line)
        for rank, each in enumerate(done)
        for line in [*done.lines[rank], *each.words]
    ]
    in_order = tuple(sorted(said, key=lambda one: one.seconds))
    return Attempt(tuple(each.status for each in done), in_order, done.seconds, happened=happened_since(begin))


class _Lived(NamedTuple):
    """How a rank's call ended, and when, by the clock of all processes of this machine."""

    status: int
    begin: float
    end: float
    words: list[str]


def _live_there(
    rank: int,
    world_size: int,
    pids: tuple[int, ...],
    address: str,
    function: Callable[..., object],
    args: tuple[object, ...],
) -> _Lived:
    """Runs in the rank."""
    for kind in _NAMESPACES:
        _move(f"/proc/{pids[rank]}/ns/{kind}")
    for name in _OURS:
        os.environ.pop(name, None)
    os.environ.update(MASTER_ADDR=address, MASTER_PORT=MASTER_PORT, LOCAL_RANK="0", LOCAL_WORLD_SIZE="1")
    begin = time.monotonic()
    try:
        answer = function(rank, world_size, *args)
    except Exception as error:
        words = traceback.format_exception_only(type(error), error)
        return _Lived(1, begin, time.monotonic(), [line for word in words for line in word.rstrip().split("\n")])
    return _Lived(0, begin, time.monotonic(), [] if answer is None else [f"returned {answer}"])


def _move(namespace: str) -> None:
    """Move this thread, and everything that it starts later, to the node."""
    descriptor = os.open(namespace, os.O_RDONLY)
    try:
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.setns(descriptor, 0) != 0:
            code = ctypes.get_errno()
            raise OSError(code, f"cannot move to {namespace}: {os.strerror(code)}")
    finally:
        os.close(descriptor)
