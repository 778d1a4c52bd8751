"""Inside a rank: interrupt the function in the main thread, whatever it waits for, and close its connections.

A signal interrupts Python code. A wait inside gloo does not see signals, but ends with an error when its connection is
shut down; the signal is handled after that.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import stat
import threading
from collections.abc import Collection
from types import FrameType, TracebackType


class CalledOut(KeyboardInterrupt):
    """The notebook has aborted this call."""


class Freedom:
    """Wraps a learner's function in the main thread, so that another thread can interrupt it.

    `addresses`: of the other nodes, if there are any.
    """

    def __init__(self, addresses: Collection[str]) -> None:
        self._addresses = addresses
        self._is_inside = False
        self._calling = threading.Lock()

    def __enter__(self) -> None:
        signal.signal(signal.SIGINT, self._leave)
        self._is_inside = True

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, path: TracebackType | None
    ) -> None:
        self._is_inside = False
        with self._calling:  # otherwise it would also close the next connections
            pass

    def call_out(self) -> None:
        """Called from another thread, repeatedly, because a function may catch the interrupt."""
        with self._calling:
            if self._is_inside:
                signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
                cut_connections(self._addresses)

    def _leave(self, number: int, frame: FrameType | None) -> None:
        """Frames of entering and leaving do not count as inside."""
        on_the_way = frame is not None and frame.f_code in (Freedom.__enter__.__code__, Freedom.__exit__.__code__)
        if self._is_inside and not on_the_way:
            raise CalledOut


def cut_connections(addresses: Collection[str]) -> None:
    """Shut down each connection to this machine or these addresses: a wait for one fails with an error.

    The channel to the notebook is not one of these: it has no address.
    """
    with contextlib.suppress(OSError):
        for number in map(int, os.listdir("/dev/fd")):
            with contextlib.suppress(OSError):  # the descriptor of the listing itself, closed by now
                if stat.S_ISSOCK(os.fstat(number).st_mode):
                    _cut(socket.socket(fileno=os.dup(number)), addresses)


def _cut(connection: socket.socket, addresses: Collection[str]) -> None:
    with connection:
        if connection.family in (socket.AF_INET, socket.AF_INET6) and connection.type == socket.SOCK_STREAM:
            here, there = connection.getsockname(), connection.getpeername()
            if here[0] == there[0] or there[0] in addresses:
                connection.shutdown(socket.SHUT_RDWR)
