"""A stranger who reaches a socket of ours runs no code here: nothing that arrives there is unpickled.

The stranger is another process, without our secrets, that knows our source. docs/security.md lists what listens where.
"""

from __future__ import annotations

import json
import os
import pickle
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
from nights import by_day, nightly
from places import here
from processes import Program, eventually, listening

from ddp_lessons import WorkerFailed, Workers
from ddp_lessons.machines import Machines
from ddp_lessons.run.nodes.agent import Agent
from ddp_lessons.run.wire.channel import Channel

pytestmark = pytest.mark.no_second_try


class Payload:
    """To unpickle it is to create the folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = os.fspath(folder)

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.mkdir, (self.folder,)


# The stranger computes the keys under which ranks announce their next calls, and is there first.
ANNOUNCE = """
import hashlib, struct, sys
from torch.distributed import TCPStore
address, port, point, payload = sys.argv[1], int(sys.argv[2]), sys.argv[3], bytes.fromhex(sys.argv[4])
store = TCPStore(address, port, is_master=False, wait_for_workers=False)
for turn in range(1, 20):
    key = hashlib.blake2b(f"({point}, {turn})".encode(), digest_size=16).hexdigest()
    for rank in (0, 1):
        store.append(key, struct.pack("<II", rank, len(payload)) + payload)
print("announced")
"""


def add_up(rank: int, world_size: int) -> float:
    """Rank 0 looks what rank 1 has announced before rank 1 has announced anything."""
    total, go = torch.ones(1) + rank, torch.ones(1)
    if rank == 1:
        dist.recv(go, 0)
    work = dist.all_reduce(total, async_op=True)
    if rank == 0:
        dist.send(go, 1)
    work.wait()
    return total.item()


def where_they_announce(rank: int, world_size: int) -> tuple[str, str, str]:
    from ddp_lessons.run.recording.interception import recorder

    assert recorder.guard is not None
    return os.environ["MASTER_ADDR"], os.environ["MASTER_PORT"], repr(next(iter(recorder.guard._turns)))


@pytest.fixture(scope="module")
def nodes() -> Iterator[Machines]:
    with here(Machines(2)) as machines:
        yield machines


def announced_to(workers: Workers, nodes: Machines, payload: bytes) -> None:
    workers.run(add_up)
    stranger = [sys.executable, "-c", ANNOUNCE, *workers.run(where_they_announce)[0], payload.hex()]
    assert nodes.run(1, stranger).stdout == "announced\n"


@pytest.mark.parametrize("kind", by_day(["pickle", "nested", "of other types", "with control codes", "too long"], 1))
def test_ranks_on_nodes_ignore_what_is_no_announcement(kind: str, nodes: Machines, tmp_path: Path) -> None:
    payload = {
        "pickle": pickle.dumps(Payload(tmp_path / "ran")),
        "nested": b"[" * 10_000,
        "of other types": b'["a", "b", [Infinity], {"c": 1}]',
        "too long": json.dumps(["another digest", "a" * 10_000, [], []]).encode(),
        "with control codes": json.dumps(["another digest", "\x1b[2J", [], []]).encode(),
    }[kind]
    with Workers(2, standing=True, quiet=True, on=nodes) as workers:
        announced_to(workers, nodes, payload)
        assert list(workers.run(add_up)) == [3.0, 3.0]
    assert not (tmp_path / "ran").exists()


@nightly
def test_what_this_stranger_announces_does_reach_the_ranks(nodes: Machines) -> None:
    """Otherwise the test above would try nothing."""
    with Workers(2, standing=True, quiet=True, on=nodes) as workers:
        announced_to(workers, nodes, json.dumps(["another digest", "broadcast", [], []]).encode())
        with pytest.raises(WorkerFailed, match="broadcast on rank"):
            workers.run(add_up)


# torchrun unpickles what it finds where its agents meet. The stranger looks for that in every store that listens.
REPLACE = """
import base64, sys
from torch.distributed import TCPStore
payload, stores = base64.b64encode(bytes.fromhex(sys.argv[1])), 0
for port in map(int, sys.argv[2:]):
    store = TCPStore("127.0.0.1", port, is_master=False, wait_for_workers=False)
    stores += 1
    for key in store.list_keys():
        if "torch.rendezvous" in key:
            store.set(key, payload.decode())
print("stores", stores)
"""
WAITS = """
import os, pathlib, time
import torch.distributed as dist
dist.init_process_group("gloo")
dist.barrier()
pathlib.Path(os.environ["FOLDER"], "joined").touch()
while not os.path.exists(os.path.join(os.environ["FOLDER"], "go")):
    time.sleep(0.05)
"""
COMMAND = "from ddp_lessons.__main__ import main\nraise SystemExit(main({}))"


@pytest.mark.parametrize(
    "command", by_day([["explain", "--nproc-per-node=2"], ["same-as-one", "--ranks=2"]], 1), ids=" ".join
)
def test_torchrun_as_we_start_it_unpickles_nothing_of_a_stranger(command: list[str], tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(WAITS)
    with Program(COMMAND.format([*command, str(script)]), environment={"FOLDER": str(tmp_path)}) as program:
        assert eventually((tmp_path / "joined").exists)
        torchruns = [process for process in program.marked() if "torch.distributed.run" in process.cmdline()]
        ports = {str(port) for process in torchruns for _, port in listening(process)}
        stranger = [sys.executable, "-c", REPLACE, pickle.dumps(Payload(tmp_path / "ran")).hex(), *ports]
        said = subprocess.run(stranger, capture_output=True, text=True, check=True).stdout
        (tmp_path / "go").touch()
        program.finish()
    assert int(said.split()[-1]) > 0  # of the ranks, where torch unpickles nothing
    assert not (tmp_path / "ran").exists()


def test_the_port_by_which_nodes_find_their_address_says_nothing() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        agent = Agent(Channel(ours))
        with socket.create_connection(("127.0.0.1", agent.listen())) as stranger:
            stranger.sendall(pickle.dumps("hello"))
            stranger.settimeout(1)
            with pytest.raises(TimeoutError):
                stranger.recv(1)
