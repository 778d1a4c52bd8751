"""A stranger who reaches a socket of ours runs no code here: nothing that arrives there is unpickled.

The stranger is another process, without our secrets, that knows our source. docs/security.md lists what listens where.
"""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from pathlib import Path

import pytest
from nights import by_day
from processes import Program, eventually, listening

pytestmark = pytest.mark.no_second_try


class Payload:
    """To unpickle it is to create the folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = os.fspath(folder)

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.mkdir, (self.folder,)


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
