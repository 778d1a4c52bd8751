"""The channel that carries messages: a socket between the notebook and the template, or the notebook and a rank."""

from __future__ import annotations

import pickle
import socket
import struct
import threading
from collections.abc import Iterator, Sequence
from typing import Any

from ddp_lessons.run.wire.messages import Buffer, Message

_COUNT = struct.Struct("<I")
_LENGTH = struct.Struct("<Q")


class Channel:
    """A two-way stream of messages over one socket. Any thread may send; one thread receives."""

    def __init__(self, stream: socket.socket) -> None:
        stream.settimeout(None)  # ignore socket.setdefaulttimeout
        self.socket = stream
        self._sending = threading.Lock()
        self._parts = _assemble()
        self._wanted: memoryview | None = None

    def fileno(self) -> int:
        return self.socket.fileno()

    def send(self, message: Message, buffers: Sequence[Buffer] = (), patience_seconds: float = -1) -> None:
        """Send a message. TimeoutError if another thread is still sending after this many seconds (-1: no limit)."""
        parts: list[Buffer] = [pickle.dumps(message, protocol=5), *buffers]
        lengths = [_LENGTH.pack(memoryview(part).nbytes) for part in parts]
        header = _COUNT.pack(len(parts)) + b"".join(lengths)
        if not self._sending.acquire(timeout=patience_seconds):
            raise TimeoutError("another message is still being sent")
        try:
            self.socket.sendall(header)
            for part in parts:
                self.socket.sendall(part)
        finally:
            self._sending.release()

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

    def close(self) -> None:
        self.socket.close()

    def _advance(self) -> tuple[Message, list[bytearray]] | None:
        part = next(self._parts)
        if isinstance(part, memoryview):
            self._wanted = part
            return None
        self._wanted = None
        message, buffers = part
        part.clear()  # they may be large: keep nothing of them while waiting for the next
        return message, buffers


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
        whole = [pickle.loads(parts[0]), parts[1:]]
        del parts
        yield whole
