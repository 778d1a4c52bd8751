"""Inside a rank: call the main thread out of a function, whatever it waits for, and cut what ties it to the others.

Python's own code leaves at a signal. A wait inside gloo does not see signals, but it ends, with an error, when the
connection that it waits for is shut down; the signal is then taken on the way out.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import stat
import threading
from types import FrameType, TracebackType


class CalledOut(KeyboardInterrupt):
    """The notebook has given this call up."""


class Freedom:
    """Around a learner's function in the main thread, so that another thread can call it out of there."""

    def __init__(self) -> None:
        self._is_inside = False
        self._calling = threading.Lock()

    def __enter__(self) -> None:
        signal.signal(signal.SIGINT, self._leave)
        self._is_inside = True

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, path: TracebackType | None
    ) -> None:
        self._is_inside = False
        with self._calling:  # else it would go on to cut the connections that are made next
            pass

    def call_out(self) -> None:
        """From another thread; again and again, since a function may hold on to a moment of its own."""
        with self._calling:
            if self._is_inside:
                signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
                cut_connections()

    def _leave(self, number: int, frame: FrameType | None) -> None:
        """On the way in and out it passes by: else who was out would be taken for one who is inside."""
        on_the_way = frame is not None and frame.f_code in (Freedom.__enter__.__code__, Freedom.__exit__.__code__)
        if self._is_inside and not on_the_way:
            raise CalledOut


def cut_connections() -> None:
    """Shut down each connection to another process of this machine: what waits for one gets an error.

    The channel to the notebook is none of these: it has no address.
    """
    with contextlib.suppress(OSError):
        for number in map(int, os.listdir("/dev/fd")):
            with contextlib.suppress(OSError):  # the list itself was one of them, and is closed by now
                if stat.S_ISSOCK(os.fstat(number).st_mode):
                    _cut(socket.socket(fileno=os.dup(number)))


def _cut(connection: socket.socket) -> None:
    with connection:
        if connection.family in (socket.AF_INET, socket.AF_INET6) and connection.type == socket.SOCK_STREAM:
            here, there = connection.getsockname(), connection.getpeername()
            if here[0] == there[0]:
                connection.shutdown(socket.SHUT_RDWR)
