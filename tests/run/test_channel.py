"""The channel between the notebook and a rank: what it puts on the stream at once."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import threading

import pytest
from processes import eventually

from ddp_lessons.run.wire.channel import Channel, gathering
from ddp_lessons.run.wire.messages import Command, Signal

_A_MEGABYTE = 1 << 20


@pytest.fixture
def packets() -> tuple[Channel, socket.socket]:
    """A channel, and the other end of its socket, where each write arrives as a packet of its own."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    theirs.settimeout(10)
    return Channel(ours), theirs


def received(packet: bytes) -> list[object]:
    """The messages in it, read by another channel."""
    ours, theirs = socket.socketpair()
    with theirs:
        theirs.sendall(packet)
    channel = Channel(ours)
    messages: list[object] = []
    try:
        while True:
            messages.append(channel.receive()[0])
    except EOFError:
        return messages
    finally:
        channel.close()


def test_a_small_message_is_one_piece(packets: tuple[Channel, socket.socket]) -> None:
    channel, other = packets
    channel.send(Command("numpy"), [b"some", b"buffers"])
    assert received(other.recv(_A_MEGABYTE)) == [Command("numpy")]


def test_the_messages_of_a_block_are_one_piece(packets: tuple[Channel, socket.socket]) -> None:
    channel, other = packets
    other.setblocking(False)
    with gathering([channel, channel]):
        channel.send(Command("numpy"))
        channel.send(Signal(3, 9))
        with pytest.raises(BlockingIOError):
            other.recv(_A_MEGABYTE)
    assert received(other.recv(_A_MEGABYTE)) == [Command("numpy"), Signal(3, 9)]


def test_a_block_that_cannot_send_shows_it_on_reading(packets: tuple[Channel, socket.socket]) -> None:
    channel, other = packets
    other.close()
    with gathering([channel]):
        channel.send(Command("numpy"))
    with pytest.raises(EOFError):
        channel.receive()


def test_a_child_that_is_forked_while_a_thread_sends_does_not_wait_for_that_thread() -> None:
    ours, theirs = socket.socketpair()
    channel = Channel(ours)
    sending = threading.Thread(target=channel.send, args=(Command("x" * 10_000_000),))
    sending.start()
    theirs.recv(1)  # it has begun, and waits until the rest is read
    child = os.fork()
    if child == 0:
        channel.leave()
        try:
            channel.send(Command("torch"))
        except OSError:
            os._exit(7)
        os._exit(1)
    try:
        assert eventually(lambda: os.waitpid(child, os.WNOHANG) == (child, 7 << 8))
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)
        theirs.settimeout(0.1)  # the thread may be about to end, and send no more
        while sending.is_alive():
            with contextlib.suppress(TimeoutError):
                theirs.recv(1 << 20)
        theirs.close()
