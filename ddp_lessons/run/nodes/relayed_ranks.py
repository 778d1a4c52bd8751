"""What the notebook holds of a rank on a node: the two ends that the launcher reads, fed from the connection."""

from __future__ import annotations

import contextlib
import io
import queue
import socket
import threading
from collections.abc import Callable, Iterator, Sequence

from ddp_lessons.run.wire.channel import Channel, framed
from ddp_lessons.run.wire.messages import Buffer, Message
from ddp_lessons.run.wire.relayed import Relayed

PIECE = 1 << 16  # bytes of a message that are sent at once, so that a large one does not keep the others waiting


class RelayedRank:
    """What arrives from one rank."""

    def __init__(self, channel: socket.socket, output: io.FileIO) -> None:
        self.is_stopped = False
        self.crash_file = ""  # here; what the rank writes into its own is appended to it
        self._channel, self._output = channel, output
        self._arrived: queue.SimpleQueue[tuple[str, bytes]] = queue.SimpleQueue()
        threading.Thread(target=self._pass_on, daemon=True).start()  # because the launcher reads only during a call

    def message(self, data: bytes) -> None:
        """No bytes: its channel is closed."""
        self._arrived.put(("message", data))

    def printed(self, data: bytes) -> None:
        """No bytes: its output is closed."""
        self._arrived.put(("printed", data))

    def crashing(self, data: bytes | bytearray) -> None:
        if self.crash_file:
            with contextlib.suppress(OSError), open(self.crash_file, "ab") as file:
                file.write(data)

    def end(self) -> None:
        self.printed(b"")
        self._arrived.put(("end", b""))

    def _pass_on(self) -> None:
        while (arrival := self._arrived.get())[0] != "end":
            kind, data = arrival
            with contextlib.suppress(OSError, ValueError):  # the launcher has closed its end, or we have
                if kind == "printed" and data:
                    left = memoryview(data)
                    while left:
                        left = left[self._output.write(left) or 0 :]
                elif kind == "printed":
                    self._output.close()
                elif data:
                    self._channel.sendall(data)
                else:
                    self._channel.shutdown(socket.SHUT_RDWR)
        self._channel.close()
        self._output.close()


class ChannelOfNode(Channel):
    """Messages to a rank go over the connection to its node; those from it arrive at a socket here."""

    def __init__(self, stream: socket.socket, say: Callable[[bytes, float], None], connection: Channel) -> None:
        super().__init__(stream)
        self._say, self._connection = say, connection

    @contextlib.contextmanager
    def gathering(self) -> Iterator[None]:
        with self._connection.gathering():
            yield

    def shut(self) -> None:
        with contextlib.suppress(OSError):
            self.socket.shutdown(socket.SHUT_RDWR)

    def send(self, message: Message | Relayed, buffers: Sequence[Buffer] = (), patience_seconds: float = -1) -> None:
        if not self._sending.acquire(timeout=patience_seconds):
            raise TimeoutError("another message is still being sent")
        try:
            for piece in _pieces(framed(message, buffers)):
                self._say(piece, patience_seconds)
                patience_seconds = -1  # half a message would be worse than a late one
        finally:
            self._sending.release()


def _pieces(parts: Sequence[Buffer]) -> Iterator[bytes]:
    """The bytes of a message. A small one is a single piece."""
    held = b""
    for part in parts:
        left = memoryview(part).cast("B")
        while left:
            fits = PIECE - len(held)
            held, left = held + left[:fits], left[fits:]
            if len(held) == PIECE:
                yield held
                held = b""
    if held:
        yield held
