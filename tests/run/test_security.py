"""A stranger on the same machine can neither join the ranks nor read what is theirs."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
import torch
import torch.distributed as dist
import torch.distributed.rpc as rpc
from nights import nightly
from processes import PROJECT, Program, connections_of, family, listening

from ddp_lessons import Workers
from ddp_lessons.run.processes.shared_template import SEED
from ddp_lessons.workshop.seed import Seed

pytestmark = pytest.mark.no_second_try
LOOPBACK = ("127.0.0.1", "::1", "::ffff:127.0.0.1")
PYTHON = shutil.which("python3", path="/usr/bin:/usr/local/bin") or sys.executable  # which a stranger may use
AS_STRANGER = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]


@pytest.fixture(scope="module")
def workers() -> Iterator[Workers]:
    """Four ranks that wait for their next task, in a group."""
    with Workers(4, quiet=True) as group:
        add_up(group)
        yield group


def add_up(workers: Workers) -> None:
    def add_up(rank: int, world_size: int) -> float:
        total = torch.ones(1) * rank
        dist.all_reduce(total)
        dist.barrier(dist.new_group())  # type: ignore[arg-type]
        return total.item()

    assert list(workers.run(add_up)) == [6.0] * 4


def ours() -> list[psutil.Process]:
    return [psutil.Process(), *family(os.getpid())]


def where_we_listen() -> list[tuple[str, int]]:
    return [place for process in ours() for place in listening(process)]


def test_what_we_listen_on_is_loopback_only(workers: Workers) -> None:
    places = where_we_listen()
    assert places  # gloo's; else this test would look at the wrong processes
    assert {address for address, _ in places} <= set(LOOPBACK)


def test_a_store_that_the_function_opens_is_on_loopback_only(monkeypatch: pytest.MonkeyPatch) -> None:
    def join(rank: int, world_size: int) -> int:
        os.environ["MASTER_ADDR"] = "localhost"
        dist.init_process_group("gloo")
        return int(os.environ["MASTER_PORT"])

    monkeypatch.setenv("GLOO_SOCKET_IFNAME", "eth0")
    with Workers(2, join=False, quiet=True) as group:
        port = group.run(join)[0]
        places = where_we_listen()
    assert port in {number for _, number in places}  # torch's store; else this test would look at the wrong processes
    assert {address for address, _ in places} <= set(LOOPBACK)


def test_rpc_listens_on_loopback_only(monkeypatch: pytest.MonkeyPatch) -> None:
    def join(rank: int, world_size: int) -> None:
        rpc.init_rpc(str(rank), rank=rank, world_size=world_size)

    other = next((name for name in psutil.net_if_addrs() if not name.startswith("lo")), "lo")
    monkeypatch.setenv("TP_SOCKET_IFNAME", other)
    with Workers(2, join=False, quiet=True) as group:
        group.run(join)
        places = where_we_listen()
    assert len(places) >= 3  # rank 0's store, and TensorPipe's socket on each rank
    assert {address for address, _ in places} <= set(LOOPBACK)


TAKE_PORT = """
import socket, sys
for option in (socket.SO_REUSEADDR, socket.SO_REUSEPORT):
    for address in ("127.0.0.1", ""):
        with socket.socket() as taken:
            taken.setsockopt(socket.SOL_SOCKET, option, 1)
            try:
                taken.bind((address, int(sys.argv[1])))
                taken.listen()
                print("taken", address, option)
            except OSError:
                pass
"""


def test_nobody_else_can_take_the_port_that_is_kept_for_the_store(stranger: list[str]) -> None:
    with Workers(2, join=False, quiet=True) as group:
        (port, _) = group.run(lambda rank, world_size: os.environ["MASTER_PORT"])
        command = [*stranger, PYTHON, "-c", TAKE_PORT, port]
        assert subprocess.run(command, capture_output=True, text=True, check=True, cwd="/").stdout == ""


def test_no_socket_of_ours_has_a_name_that_others_could_use(workers: Workers) -> None:
    named = [c.laddr for process in ours() for c in connections_of(process, "unix") if c.laddr]
    assert named == []


@pytest.fixture
def stranger() -> list[str]:
    if os.geteuid() != 0 or not shutil.which("setpriv"):
        pytest.skip("only root can become another user, and only with setpriv")
    return AS_STRANGER


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
    places = [f"{address},{port}" for address, port in set(where_we_listen())]
    knock = subprocess.run([*stranger, PYTHON, "-c", KNOCK, *places], capture_output=True, text=True, check=False)
    assert knock.stdout == "0\n", knock.stderr
    add_up(workers)


WITH_ALL_THAT_WE_KEEP = """
import os, sys, time
os.umask(0)
from ddp_lessons import Workers
with Workers(2, standing=True, quiet=True) as workers:
    workers.run(lambda rank, size: None)
    print("ready", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def open_to_all() -> Iterator[Path]:
    """A temporary folder as a machine has it: everybody may look into it, and write there."""
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        os.chmod(folder, 0o1777)
        yield Path(folder)


def test_a_stranger_can_read_no_file_and_reach_no_socket_of_a_launch(stranger: list[str], open_to_all: Path) -> None:
    with Program(WITH_ALL_THAT_WE_KEEP, environment={"TMPDIR": os.fspath(open_to_all)}) as program:
        program.wait_until_said("ready")
        ours = [file for file in open_to_all.rglob("*") if file.is_file()]
        look = [*stranger, "find", os.fspath(open_to_all), "-mindepth", "2"]
        seen = subprocess.run(look, capture_output=True, text=True, check=False, cwd="/")
    assert len(ours) > 2  # where they crashed, where they met
    assert (seen.stdout, "Permission denied" in seen.stderr) == ("", True)


CONNECT = """
import socket, sys
with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as knock:
    knock.connect(sys.argv[1])
"""


@pytest.mark.skipif(sys.platform != "linux", reason="a room has a seed on Linux only")
def test_a_stranger_does_not_reach_the_seed_of_a_room(stranger: list[str]) -> None:
    with Seed() as seed:
        knock = [PYTHON, "-c", CONNECT, seed.variables[SEED]]
        tries = [subprocess.run([*who, *knock], capture_output=True, text=True, cwd="/") for who in ([], stranger)]
    assert [one.returncode == 0 for one in tries] == [True, False]
    assert "Permission denied" in tries[1].stderr


TELL_THE_DOOR = """
import os, socket, stat
place = os.environ["DDP_LESSONS_WITNESSED"]
print(len(place), stat.S_ISSOCK(os.stat(place).st_mode), oct(stat.S_IMODE(os.stat(os.path.dirname(place)).st_mode)))
"""


@nightly
def test_the_door_of_explain_is_private_and_short_enough_wherever_temporary_files_go(open_to_all: Path) -> None:
    temporary = open_to_all / ("long" * 40)
    temporary.mkdir()
    script = open_to_all / "script.py"
    script.write_text(TELL_THE_DOOR)
    command = [sys.executable, "-m", "ddp_lessons", "explain", os.fspath(script)]
    environment = {**os.environ, "PYTHONPATH": os.fspath(PROJECT), "TMPDIR": os.fspath(temporary)}
    said = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    letters, *rest = said.stdout.split()
    assert (int(letters) < 104, rest) == (True, ["True", "0o700"])
