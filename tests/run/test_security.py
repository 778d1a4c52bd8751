"""A stranger on the same machine can neither join the ranks nor read what is theirs."""

from __future__ import annotations

import os
import shutil
import socket
import stat
import subprocess
import sys
from collections.abc import Iterator

import psutil
import pytest
import torch
import torch.distributed as dist
from processes import family

from ddp_lessons import Workers
from ddp_lessons.run.folders import session_folder

LOOPBACK = ("127.0.0.1", "::1", "::ffff:127.0.0.1")
AS_STRANGER = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]


@pytest.fixture(scope="module", params=["fork", "spawn"])
def workers(request: pytest.FixtureRequest) -> Iterator[Workers]:
    """Four ranks that wait for their next task, in a group."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("ddp_lessons.run.pool.pool.prepare", lambda count, method: None)
        with Workers(4 if request.param == "fork" else 2, start_method=request.param, quiet=True) as group:
            add_up(group)
            yield group


def add_up(workers: Workers) -> None:
    def add_up(rank: int, world_size: int) -> float:
        total = torch.ones(1) * rank
        dist.all_reduce(total)
        dist.barrier(dist.new_group())  # type: ignore[arg-type]
        return total.item()

    size = workers.world_size
    assert list(workers.run(add_up)) == [float(sum(range(size)))] * size


def ours() -> list[psutil.Process]:
    return [psutil.Process(), *family(os.getpid())]


def listening() -> list[tuple[str, int]]:
    """Where we listen, for TCP of both kinds; UDP is listened on by being bound."""
    connections = [connection for process in ours() for connection in process.net_connections("inet")]
    return [
        (connection.laddr.ip, connection.laddr.port)
        for connection in connections
        if connection.status == psutil.CONN_LISTEN or (connection.type == socket.SOCK_DGRAM and not connection.raddr)
    ]


def test_what_we_listen_on_is_loopback_only(workers: Workers) -> None:
    places = listening()
    assert places  # gloo's; else this test would look at the wrong processes
    assert {address for address, _ in places} <= set(LOOPBACK)


def test_no_socket_of_ours_has_a_name_that_others_could_use(workers: Workers) -> None:
    named = [c.laddr for process in ours() for c in process.net_connections("unix") if c.laddr]
    assert named == []


def test_the_meeting_place_is_closed_to_others(workers: Workers) -> None:
    folders = [session_folder(), *(entry.path for entry in os.scandir(session_folder()) if entry.is_dir())]
    assert {stat.S_IMODE(os.stat(folder).st_mode) for folder in folders} == {0o700}
    assert {os.stat(folder).st_uid for folder in folders} == {os.getuid()}


@pytest.fixture
def stranger() -> list[str]:
    if os.geteuid() != 0 or not shutil.which("setpriv"):
        pytest.skip("only root can become another user, and only with setpriv")
    return AS_STRANGER


def test_a_stranger_cannot_read_the_meeting_place(workers: Workers, stranger: list[str]) -> None:
    look = subprocess.run([*stranger, "ls", session_folder()], capture_output=True, text=True, check=False)
    assert look.returncode != 0
    assert "Permission denied" in look.stderr


KNOCK = """
import socket, sys
heard = b""
for place in sys.argv[1:]:
    address, port = place.rsplit(",", 1)
    for word in (bytes(8), bytes(range(8)) * 100):
        try:
            with socket.create_connection((address, int(port)), timeout=0.1) as knock:
                knock.sendall(word)
                heard += knock.recv(1000)
        except OSError:
            pass
print(len(heard))
"""


def test_a_stranger_who_knocks_hears_nothing_and_disturbs_nobody(workers: Workers, stranger: list[str]) -> None:
    places = [f"{address},{port}" for address, port in set(listening())]
    python = shutil.which("python3", path="/usr/bin:/usr/local/bin") or sys.executable
    knock = subprocess.run([*stranger, python, "-c", KNOCK, *places], capture_output=True, text=True, check=False)
    assert knock.stdout == "0\n", knock.stderr
    add_up(workers)


def test_a_stranger_cannot_read_a_rank_s_environment_or_memory(workers: Workers, stranger: list[str]) -> None:
    def who(rank: int, world_size: int) -> int:
        return os.getpid()

    for process_id in workers.run(who):
        files = [f"/proc/{process_id}/{name}" for name in ("environ", "maps")]
        assert subprocess.run([*stranger, "cat", *files], capture_output=True, check=False).stdout == b""
