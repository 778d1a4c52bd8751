"""Inside a rank: a store that a function opens on loopback, or where the ranks meet, listens at that address only.

torch's own store listens on all interfaces of the machine, whatever address you pass, and has no password.
"""

from __future__ import annotations

import contextlib
import functools
import ipaddress
import os
import socket
import time
from collections.abc import Container, Iterator
from typing import Any

_MOST_WAITING = 2048
_TICK_SECONDS = 0.005
_SECONDS_UNTIL_IT_LISTENS = 20.0
_SECONDS_TO_CONNECT = 3.0


def keep_stores_private(agreed_address: str, kept_ports: Container[int], folder: str) -> None:
    """Apply this in this process. `kept_ports` at MASTER_ADDR are those that the launcher reserved for these ranks."""
    from torch._C._distributed_c10d import TCPStore

    torchs_own = TCPStore.__init__

    @functools.wraps(torchs_own)
    def opened(store: Any, host_name: str, port: int, *args: Any, **kwargs: Any) -> None:
        is_master = kwargs.get("is_master", args[1] if len(args) > 1 else False)
        address = _one_address(host_name, port, agreed_address)
        if address and len(args) <= 3 and "master_listen_fd" not in kwargs:
            if ipaddress.ip_address(address).is_loopback:
                check_loopback_is_up(address)
            if is_master and (listener := _listening(address, port, port in kept_ports, folder)) is not None:
                port = listener.getsockname()[1]
                kwargs["master_listen_fd"] = listener.detach()
        torchs_own(store, host_name, port, *args, **kwargs)

    TCPStore.__init__ = opened  # type: ignore[assignment,method-assign]


def wait_until_it_listens(address: str, port: int) -> None:
    """Wait for the rank that opens the store: torch would try again only half a second after it was refused, and for
    minutes if nothing answers."""
    end = time.monotonic() + _SECONDS_UNTIL_IT_LISTENS
    while not _answers(address, port):
        if time.monotonic() > end:
            raise ConnectionError(
                f"{os.uname().nodename} did not reach rank 0 at {address}, port {port}, within "
                f"{_SECONDS_UNTIL_IT_LISTENS:.0f} seconds"
            )
        time.sleep(_TICK_SECONDS)


def check_loopback_is_up(address: str) -> None:
    """Otherwise torch would try for half an hour to reach the store."""
    with socket.socket(_family(address), socket.SOCK_DGRAM) as trial:
        try:
            trial.connect((address, 9))  # nothing is sent
        except OSError as error:
            raise OSError(error.errno, f"the loopback interface is down, so no rank can reach {address}") from None


def _one_address(host_name: str, port: int, agreed_address: str) -> str:
    """The address of this name if it is this machine's loopback, or the one at which these ranks meet; else ""."""
    with contextlib.suppress(OSError, ValueError, TypeError, UnicodeError):
        found = [str(place[4][0]) for place in socket.getaddrinfo(host_name, port, type=socket.SOCK_STREAM)]
        if all(address == agreed_address or ipaddress.ip_address(address).is_loopback for address in found):
            return found[0]
    return ""


def _listening(address: str, port: int, is_kept: bool, folder: str) -> socket.socket | None:
    """A socket that listens there; None if that fails: then torch raises its own error."""
    listener = socket.socket(_family(address))
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        if not is_kept:
            listener.bind((address, port))
            listener.listen(_MOST_WAITING)
            return listener
        with _one_at_a_time(folder):  # because two sockets of one user may share this port
            if not _answers(address, port):
                listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
                listener.bind((address, port))
                listener.listen(_MOST_WAITING)
                return listener
    except OSError:
        pass
    listener.close()
    return None


@contextlib.contextmanager
def _one_at_a_time(folder: str) -> Iterator[None]:
    import fcntl

    with open(os.path.join(folder, "store"), "wb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _answers(address: str, port: int) -> bool:
    with socket.socket(_family(address)) as knock:
        knock.settimeout(_SECONDS_TO_CONNECT)
        return knock.connect_ex((address, port)) == 0


def _family(address: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in address else socket.AF_INET
