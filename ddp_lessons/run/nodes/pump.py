"""Many streams over one connection: all that the ranks of a node receive, print and answer.

Both ends run one. What it reads from a local stream arrives at the stream of the same number at the other end. It knows
nothing of their content, and it never waits for a reader: a rank that reads nothing must not keep the others waiting.
"""

from __future__ import annotations

import contextlib
import io
import os
import selectors
import socket
import struct
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence

CONTROL = 0  # the stream of requests and replies
CHANNEL, OUTPUT, CRASH = range(3)  # of each rank
SECONDS_OF_SILENCE = 20.0  # after which the other side is taken to be gone
_SECONDS_BETWEEN_SIGNS_OF_LIFE = 1.0
_SECONDS_TO_GATHER = 0.001
_MOST_AT_ONCE = 1 << 16
_FRAME = struct.Struct("<qI")  # the stream, and how many bytes follow; none: it was closed
_SIGN_OF_LIFE = _FRAME.pack(-1, 0)


def stream_of(rank: int, kind: int) -> int:
    return 3 * (rank + 1) + kind


class Pump:
    """The descriptors are its own. Nobody else may close them: the next file or socket would get their numbers."""

    def __init__(self, incoming: int, outgoing: int, control: int) -> None:
        self.is_over = threading.Event()
        self._incoming, self._outgoing = io.BufferedReader(io.FileIO(incoming)), io.FileIO(outgoing, "w")
        self._heard = time.monotonic()
        self._streams: dict[int, int] = {}  # their descriptors
        self._half_closed: set[int] = set()  # channels in which one side has ended
        # by rank, because a message must not overtake what was printed before it
        self._waiting: dict[int, deque[tuple[int, bytes]]] = {}
        self._selector = selectors.DefaultSelector()
        self._outward, self._inward = threading.Lock(), threading.Lock()  # taken in this order
        self.carry(CONTROL, control)  # before anything is read: a request may be there already
        for work in ((self._collect, self._outgoing), (self._hand_on, self._incoming)):
            threading.Thread(target=self._until_the_end, args=work, daemon=True).start()

    def carry(self, stream: int, descriptor: int, *, is_read: bool = True) -> None:
        """From now on the descriptor is this pump's. It is closed when one of the two ends is."""
        os.set_blocking(descriptor, False)
        with self._inward:
            self._streams[stream] = descriptor
            if is_read:
                self._selector.register(descriptor, selectors.EVENT_READ, stream)
            if self.is_over.is_set():
                self._close(stream)

    def finish(self, streams: Sequence[int]) -> None:
        """Send what is left in these streams, and close them."""
        with self._outward:
            with self._inward:
                rest = b"".join(self._rest(stream) for stream in streams)
            self._send(rest)

    def _until_the_end(self, work: Callable[[], None], file: io.IOBase) -> None:
        with contextlib.suppress(OSError, EOFError, struct.error):  # struct.error: it ended within a frame
            work()
        self.is_over.set()
        with self._inward:
            for stream in list(self._streams):
                self._close(stream)
        with self._outward:
            file.close()

    def _collect(self) -> None:
        """Send what comes from the local streams."""
        while not self.is_over.is_set() and time.monotonic() < self._heard + SECONDS_OF_SILENCE:
            if self._selector.select(_SECONDS_BETWEEN_SIGNS_OF_LIFE):
                time.sleep(_SECONDS_TO_GATHER)  # ranks often speak at once, and TCP keeps a second piece for 40 ms
            ready = self._selector.select(0)
            with self._outward:
                with self._inward:
                    frames = b"".join(self._moved(key.data, events) for key, events in ready)
                self._send(frames or _SIGN_OF_LIFE)

    def _hand_on(self) -> None:
        """Write to the local streams what comes from the other end."""
        while head := self._incoming.read(_FRAME.size):
            stream, size = _FRAME.unpack(head)
            data = self._incoming.read(size)
            if stream == CONTROL and not data:
                return  # whoever made requests or answered them is about to end
            self._heard = time.monotonic()
            with self._inward:
                self._waiting.setdefault(stream // 3, deque()).append((stream, data))
                self._flush(stream // 3)

    def _send(self, frames: bytes) -> None:
        left = memoryview(frames)
        while left and not self._outgoing.closed:
            left = left[self._outgoing.write(left) :]

    def _moved(self, stream: int, events: int) -> bytes:
        if events & selectors.EVENT_WRITE and stream in self._streams:
            self._watch(stream, 0)
            self._flush(stream // 3)
        return self._read(stream) if events & selectors.EVENT_READ and stream in self._streams else b""

    def _read(self, stream: int) -> bytes:
        """A frame of what is there; b"" if nothing is."""
        try:
            data = os.read(self._streams[stream], _MOST_AT_ONCE)
        except BlockingIOError:
            return b""
        except ConnectionError:
            data = b""
        if not data:
            self._end(stream, socket.SHUT_RD)
        return _FRAME.pack(stream, len(data)) + data

    def _rest(self, stream: int) -> bytes:
        frames = b""
        while stream in self._streams and (frame := self._read(stream)):
            frames += frame
        if stream in self._streams:  # a process that the rank started still has the other end open
            self._close(stream)
            frames += _FRAME.pack(stream, 0)
        return frames

    def _flush(self, rank: int) -> None:
        """Write what waits for it, as much as its reader takes now."""
        waiting = self._waiting.get(rank, deque())
        while waiting:
            stream, data = waiting[0]
            try:
                written = os.write(self._streams[stream], data) if data and stream in self._streams else len(data)
            except BlockingIOError:
                self._watch(stream, selectors.EVENT_WRITE)
                return
            except OSError:  # its reader is gone
                written, data = 0, b""
            if not data:
                self._end(stream, socket.SHUT_WR)
            waiting[0] = stream, data[written:]
            if written == len(data):
                waiting.popleft()
        self._waiting.pop(rank, None)

    def _end(self, stream: int, direction: int) -> None:
        """Nothing more comes from one side. A channel stays open for what the other side still says."""
        if stream % 3 != CHANNEL or stream in self._half_closed or stream not in self._streams:
            self._half_closed.discard(stream)
            self._close(stream)
            return
        self._half_closed.add(stream)
        if direction == socket.SHUT_RD:
            self._watch(stream, 0)
        else:
            with contextlib.suppress(OSError), socket.socket(fileno=os.dup(self._streams[stream])) as channel:
                channel.shutdown(socket.SHUT_WR)

    def _watch(self, stream: int, events: int) -> None:
        """For these, and for what is to be read, unless its writer has ended."""
        with contextlib.suppress(KeyError):
            self._selector.unregister(self._streams[stream])
        if events := events | (0 if stream in self._half_closed else selectors.EVENT_READ):
            self._selector.register(self._streams[stream], events, stream)

    def _close(self, stream: int) -> None:
        if (descriptor := self._streams.pop(stream, None)) is not None:
            with contextlib.suppress(KeyError):
                self._selector.unregister(descriptor)
            os.close(descriptor)
