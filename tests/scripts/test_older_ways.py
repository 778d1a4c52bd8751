"""The ways to several ranks that torchrun and DistributedDataParallel took over from: each still does what is said."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
from nights import nightly
from processes import Program
from torch.multiprocessing.spawn import ProcessRaisedException, spawn
from torchruns import SECONDS, SURROUNDINGS, kept_address

pytestmark = nightly

HELLO = """
import os, sys, torch, torch.distributed as dist
dist.init_process_group("gloo")
total = torch.ones(1) * dist.get_rank()
dist.all_reduce(total)
sys.stdout.write(f"rank {dist.get_rank()} of {dist.get_world_size()}: {total.item()}, {sys.argv[1:]}\\n")
dist.destroy_process_group()
"""


def launch_module(*given: str) -> Program:
    return Program(f"from torch.distributed.launch import main; main({list(given)!r})", environment=SURROUNDINGS)


def test_the_forerunner_of_torchrun_takes_machines_that_are_numbered_by_hand(tmp_path: Path) -> None:
    script = tmp_path / "hello.py"
    script.write_text(HELLO)
    address, port = kept_address().split(":")
    where = ["--nnodes=2", f"--master-addr={address}", f"--master-port={port}"]
    with (
        launch_module(*where, "--node-rank=0", "--nproc-per-node=1", "--use-env", str(script), "--epochs=2") as one,
        launch_module(*where, "--node_rank=1", "--nproc_per_node=1", "--use_env", str(script)) as other,
    ):
        said = [one.finish(SECONDS), other.finish(SECONDS)]
    assert all("torch.distributed.launch is deprecated" in " ".join(text.split()) for text in said)
    assert "rank 0 of 2: 1.0, ['--epochs=2']" in said[0]
    assert "rank 1 of 2: 1.0, []" in said[1]


BY_HAND = """
import os, sys, torch, torch.distributed as dist, torch.multiprocessing as mp

def run(rank, size):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=sys.argv[1])
    dist.init_process_group("gloo", rank=rank, world_size=size)
    total = torch.ones(1) * rank
    dist.all_reduce(total)
    sys.stdout.write(f"rank {rank} has {total.item()}\\n")

if __name__ == "__main__":
    mp.set_start_method("spawn")
    processes = [mp.Process(target=run, args=(rank, 2)) for rank in range(2)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    print("ended with", [process.exitcode for process in processes])
"""


def test_processes_can_be_spawned_one_by_one_and_meet_by_variables(tmp_path: Path) -> None:
    script = tmp_path / "by_hand.py"
    script.write_text(BY_HAND)
    command = [sys.executable, str(script), kept_address().split(":")[1]]
    printed = subprocess.run(command, env=os.environ | SURROUNDINGS, capture_output=True, text=True, timeout=SECONDS)
    lines = printed.stdout.splitlines()
    assert sorted(lines[:2]) == ["rank 0 has 1.0", "rank 1 has 1.0"], printed.stderr
    assert lines[2:] == ["ended with [0, 0]"]


def add_up(rank: int, world_size: int, meeting: str) -> None:
    dist.init_process_group("gloo", init_method=f"file://{meeting}", rank=rank, world_size=world_size)
    total = torch.ones(1) * rank
    dist.all_reduce(total)
    if rank == 1:
        raise ValueError(f"the sum is {total.item()}")
    time.sleep(600)


def test_spawn_stops_the_others_and_raises_what_a_rank_raised(tmp_path: Path) -> None:
    with pytest.raises(ProcessRaisedException, match=r"ValueError: the sum is 1\.0") as failure:
        spawn(add_up, args=(2, str(tmp_path / "meeting")), nprocs=2, join=True)
    assert failure.value.error_index == 1


def test_nobody_is_spawned_where_gpus_are_counted_and_there_are_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert spawn(add_up, args=(0, "nowhere"), nprocs=torch.cuda.device_count()) is None


def test_data_parallel_without_a_gpu_is_the_model_under_another_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    model, inputs = torch.nn.Linear(3, 2), torch.ones(4, 3)
    parallel = torch.nn.DataParallel(model)
    assert torch.equal(parallel(inputs), model(inputs))
    assert list(parallel.state_dict()) == ["module.weight", "module.bias"]
