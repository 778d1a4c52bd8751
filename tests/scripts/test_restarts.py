"""Ranks and machines that are lost: torchrun starts anew, and nothing is lost but what came after the checkpoint.

The yardstick is the same training with nobody lost: in the end the weights are the same to the last bit, as long as
the world has two ranks.
"""

from __future__ import annotations

import contextlib
import os
import random
import signal
import time
from pathlib import Path
from typing import Any

import psutil
import pytest
import torch
from nights import by_day, nightly
from processes import Program, eventually
from torchruns import (
    QUICK,
    SECONDS,
    accuracy_told,
    begun_with,
    epochs_told,
    kept_address,
    listens,
    machine,
    ranks_of,
    ranks_told,
    torchrun,
)

EPOCHS = 24
# Who is gone is missed after five seconds, and nobody waits long for more machines than there must be.
QUICKLY = ("last_call_timeout=3", "keep_alive_interval=1", "keep_alive_max_attempt=5")
RESTARTS = ("--standalone", "--nproc-per-node=2", "--max-restarts=3")


def arguments(path: Path) -> tuple[str, ...]:
    return (*QUICK, "--epochs", str(EPOCHS), "--checkpoint", str(path))


def content(path: Path) -> Any:
    return torch.load(path, weights_only=True)


def same_bits(one: Any, other: Any) -> bool:
    return list(one) == list(other) and all(torch.equal(one[name], other[name]) for name in one)


class Undisturbed:
    def __init__(self, path: Path) -> None:
        with torchrun("restartable", *arguments(path), options=RESTARTS) as program:
            said = program.finish(SECONDS)
        self.weights, self.accuracy = content(path)["model"], accuracy_told(said)
        assert epochs_told(said) == list(range(1, EPOCHS + 1))


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Undisturbed:
    return Undisturbed(tmp_path_factory.mktemp("undisturbed") / "training.pt")


def kill_a_rank(program: Program, choice: random.Random) -> int:
    """SIGKILL for one of the ranks that are there, and its number; -1 if all has come to its end before."""
    end = time.monotonic() + SECONDS
    while time.monotonic() < end and program.marked():
        found = ranks_of(program, "restartable")
        for rank in choice.sample(sorted(found), len(found)):
            with contextlib.suppress(psutil.NoSuchProcess):
                found[rank].kill()
                return rank
    return -1


def come_to_a_random_moment(program: Program, choice: random.Random) -> str:
    """While ranks start, join and load, or while they train, save and test."""
    epoch, delay = choice.randint(-6, EPOCHS - 1), choice.uniform(0, 0.2)
    if epoch <= 0:
        assert eventually(lambda: ranks_of(program, "restartable"))
        delay *= 10
    else:
        program.wait_until_said(f"epoch {epoch} of", seconds=SECONDS)
    time.sleep(delay)
    return f"{delay:.2f} s after " + (f"epoch {epoch} was told" if epoch > 0 else "its ranks were there")


@pytest.mark.parametrize("number", by_day(range(20), 0))
def test_a_rank_killed_at_a_random_moment_costs_only_the_steps_since_the_checkpoint(
    number: int, undisturbed: Undisturbed, tmp_path: Path
) -> None:
    choice, path = random.Random(number), tmp_path / "training.pt"
    with torchrun("restartable", *arguments(path), options=RESTARTS) as program:
        moment = come_to_a_random_moment(program, choice)
        rank = kill_a_rank(program, choice)
        said = program.finish(SECONDS)
    assert rank >= 0, "it had ended before it could be killed"
    assert "exit status" not in said
    begun, told = begun_with(said), epochs_told(said)
    is_same = same_bits(content(path)["model"], undisturbed.weights)
    print(f"{number:2}  rank {rank} killed {moment}: began with epochs {begun}, same weights: {is_same}")
    # What was told as done was never done again. What was done may have been killed before it was told.
    assert told == sorted(set(told))
    assert EPOCHS - len(told) <= 1
    assert len(begun) <= 2
    assert accuracy_told(said) == undisturbed.accuracy
    assert is_same


@nightly
def test_a_rank_killed_while_it_writes_its_checkpoint_goes_on_from_the_one_before(
    undisturbed: Undisturbed, tmp_path: Path
) -> None:
    """A pipe in the place of the new file: the writer stands in the middle of its write, and is killed there."""
    path, unfinished = tmp_path / "training.pt", tmp_path / "training.pt.unfinished"
    with torchrun("restartable", *arguments(path), options=RESTARTS) as program:
        program.wait_until_said("epoch 3 of", seconds=SECONDS)
        assert eventually(lambda: made_a_pipe(unfinished))
        with unfinished.open("rb") as pipe:
            part = pipe.read(100_000)
            before = content(path)
            ranks_of(program, "restartable")[0].kill()
        unfinished.unlink()
        unfinished.write_bytes(part)  # what a disk would have kept
        said = program.finish(SECONDS)
    assert 3 <= before["epoch"] < EPOCHS
    assert begun_with(said) == [1, before["epoch"] + 1]
    assert accuracy_told(said) == undisturbed.accuracy
    assert same_bits(content(path)["model"], undisturbed.weights)


def made_a_pipe(path: Path) -> bool:
    try:
        os.mkfifo(path)
    except FileExistsError:  # it is just being written
        return False
    return True


@nightly
def test_without_restarts_left_torchrun_gives_up_and_a_later_start_goes_on(
    undisturbed: Undisturbed, tmp_path: Path
) -> None:
    path = tmp_path / "training.pt"
    none_left = ("--standalone", "--nproc-per-node=2")  # torchrun's default
    with torchrun("restartable", *arguments(path), options=none_left) as program:
        program.wait_until_said("epoch 5 of", seconds=SECONDS)
        kill_a_rank(program, random.Random(0))
        assert "exit status 1" in program.finish(SECONDS)
    done = content(path)["epoch"]
    with torchrun("restartable", *arguments(path), options=none_left) as program:
        said = program.finish(SECONDS)
    assert begun_with(said) == [done + 1]
    assert same_bits(content(path)["model"], undisturbed.weights)


@nightly
@pytest.mark.parametrize("how", by_day(["it is killed", "it is told to go"], 1))
def test_a_machine_that_leaves_and_comes_back_costs_no_accuracy(
    how: str, undisturbed: Undisturbed, tmp_path: Path
) -> None:
    """The other one goes on alone with the whole batches: its steps are the same, and so is the training."""
    address, disks = kept_address(), [tmp_path / "stays", tmp_path / "leaves"]
    options = machine(address, "--nnodes=1:2", "--nproc-per-node=1", "--max-restarts=5", conf=QUICKLY)
    for disk in disks:
        disk.mkdir()
    given = [arguments(disk / "training.pt") for disk in disks]
    with contextlib.ExitStack() as agents:
        stays = agents.enter_context(torchrun("many_machines", *given[0], options=options))
        assert eventually(lambda: listens(address))  # the first agent hosts the meeting
        leaves = agents.enter_context(torchrun("many_machines", *given[1], options=options))
        wait_for(stays, leaves, "on 2 ranks")  # whichever has rank 0
        alone_before = heard(stays).count("on 1 ranks")
        if how == "it is killed":
            for process in leaves.marked():  # as when somebody pulls the plug
                process.kill()
        else:
            psutil.Process(leaves.process_id).terminate()
        stays.wait_until_said("on 1 ranks", times=alone_before + 1, seconds=SECONDS)
        (alone,) = ranks_of(stays, "many_machines").values()
        alone.suspend()  # or it would be through before the other is back
        back = agents.enter_context(torchrun("many_machines", *given[1], options=options))
        assert eventually(lambda: is_told_to_end(alone)), "nobody notices that the machine is back"
        alone.resume()
        whole = [program.finish(SECONDS) for program in (stays, back)]
    assert "exit status" not in "".join(whole)
    assert sorted(ranks_told(said)[-1] for said in whole) == ["0 of 2", "1 of 2"]
    weights = [content(disk / "training.pt")["model"] for disk in disks]
    assert same_bits(*weights)
    assert accuracy_told("".join(whole)) == undisturbed.accuracy
    for name, tensor in weights[0].items():
        torch.testing.assert_close(tensor, undisturbed.weights[name], rtol=0, atol=1e-3)


def is_told_to_end(process: psutil.Process) -> bool:
    """Has a suspended process been sent a SIGTERM, which it will see when it goes on?"""
    status = Path(f"/proc/{process.pid}/status").read_text(encoding="ascii")
    pending = int(status.split("ShdPnd:")[1].split()[0], 16)
    return bool(pending >> (signal.SIGTERM - 1) & 1)


def wait_for(one: Program, other: Program, word: str) -> None:
    assert eventually(lambda: any(word in heard(program) for program in (one, other))), one.said + other.said


def heard(program: Program) -> str:
    with contextlib.suppress(AssertionError):
        program.wait_until_said("\0", seconds=0.05)
    return program.said
