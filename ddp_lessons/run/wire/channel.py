"""The channel that carries messages: a socket between the notebook and the template, or the notebook and a rank."""

from __future__ import annotations

import contextlib
import itertools
import pickle
import socket
import struct
import threading
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from ddp_lessons.run.wire.messages import Buffer, Message
from ddp_lessons.run.wire.relayed import Relayed

_COUNT = struct.Struct("<I")
_LENGTH = struct.Struct("<Q")
_SMALL = 1 << 16  # bytes, which are copied sooner than they are sent


class Channel:
    """A two-way stream of messages over one socket. Any thread may send; one thread receives."""

    def __init__(self, stream: socket.socket) -> None:
        stream.settimeout(None)  # ignore socket.setdefaulttimeout
        self.socket = stream
        self._sending = threading.Lock()
        self._gatherers = 0
        self._gathered: list[Buffer] = []
        self._parts = _assemble()
        self._wanted: memoryview | None = None

    def fileno(self) -> int:
        return self.socket.fileno()

    def send(self, message: Message | Relayed, buffers: Sequence[Buffer] = (), patience_seconds: float = -1) -> None:
        """Send a message. TimeoutError if another thread is still sending after this many seconds (-1: no limit)."""
        parts = framed(message, buffers)
        if not self._sending.acquire(timeout=patience_seconds):
            raise TimeoutError("another message is still being sent")
        try:
            if self._gatherers:
                self._gathered += parts
            else:
                self._write(parts)
        finally:
            self._sending.release()

    @contextlib.contextmanager
    def gathering(self) -> Iterator[None]:
        """Send the messages of the block at its end, in one piece. A channel that is broken shows it on reading."""
        with self._sending:
            self._gatherers += 1
        try:
            yield
        finally:
            with self._sending, contextlib.suppress(OSError):
                self._gatherers -= 1
                if not self._gatherers:
                    parts, self._gathered = self._gathered, []
                    self._write(parts)

    def receive(self) -> tuple[Message, list[bytearray]]:
        """Wait for the next message. EOFError if the other side is gone."""
        while (whole := self.receive_some()) is None:
            pass
        return whole

    def receive_some(self) -> tuple[Message, list[bytearray]] | None:
        """Read once, and return the message if it is complete."""
        if self._wanted is None:
            self._advance()
        assert self._wanted is not None
        try:
            count = self.socket.recv_into(self._wanted)
        except ConnectionError:
            count = 0
        if count == 0:
            raise EOFError("the other side closed the channel")
        self._wanted = self._wanted[count:]
        return self._advance() if not self._wanted.nbytes else None

    def shut(self) -> None:
        """Say that no more messages come; those of the other side still arrive."""
        with contextlib.suppress(OSError):
            self.socket.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        self.socket.close()

    def leave(self) -> None:
        """In a forked child process, where no thread is left that would release the lock: sending raises OSError."""
        self._sending = threading.Lock()
        self.close()

    def _write(self, parts: Sequence[Buffer]) -> None:
        """In few pieces. To a node, TCP may keep a second small one for 40 ms, until the first has arrived."""
        for is_small, together in itertools.groupby(parts, lambda part: memoryview(part).nbytes <= _SMALL):
            for piece in [b"".join(together)] if is_small else together:
                self.socket.sendall(piece)

    def _advance(self) -> tuple[Message, list[bytearray]] | None:
        part = next(self._parts)
        if isinstance(part, memoryview):
            self._wanted = part
            return None
        self._wanted = None
        message, buffers = part
        part.clear()  # they may be large: keep nothing of them while waiting for the next
        return message, buffers


@contextlib.contextmanager
def gathering(channels: Iterable[Channel]) -> Iterator[None]:
    with contextlib.ExitStack() as together:
        for channel in channels:
            together.enter_context(channel.gathering())
        yield


def framed(message: Message | Relayed, buffers: Sequence[Buffer]) -> list[Buffer]:
    """The bytes of a message on the stream, one piece after the other."""
    parts: list[Buffer] = [pickle.dumps(message, protocol=5), *buffers]
    lengths = [_LENGTH.pack(memoryview(part).nbytes) for part in parts]
    return [_COUNT.pack(len(parts)) + b"".join(lengths), *parts]


def _assemble() -> Iterator[list[Any] | memoryview]:
    """Yield each piece of memory to fill, then the message and its buffers."""
    while True:
        count = bytearray(_COUNT.size)
        yield memoryview(count)
        lengths = bytearray(_LENGTH.size * _COUNT.unpack(count)[0])
        yield memoryview(lengths)
        parts = [bytearray(length) for (length,) in _LENGTH.iter_unpack(lengths)]
        for number in range(len(parts)):
            if parts[number]:
                yield memoryview(parts[number])
        whole = [pickle.loads(parts[0]), parts[1:]]  # noqa: S301  no other user reaches the socket
        del parts
        yield whole
