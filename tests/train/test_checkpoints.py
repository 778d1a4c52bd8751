"""Checkpoints: stop and go on to the same bits, and nothing that goes wrong in a write loses the last good file."""

from __future__ import annotations

import os
import pathlib
import pickle
import random
import resource
import signal
from collections.abc import Callable
from typing import Any

import pytest
import torch
from made_up_samples import made_up
from nights import nightly
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from ddp_lessons import WorkerFailed, launch
from ddp_lessons.train import checkpoints
from ddp_lessons.train.checkpoints import load_checkpoint, load_newest, save_checkpoint
from ddp_lessons.train.loops import train_alone, train_with_ddp
from ddp_lessons.train.replicas import fingerprint
from ddp_lessons.train.sampling import GlobalBatches


def with_fixed_buckets(model: nn.Module) -> nn.Module:
    """Torch makes new buckets after the first step, but not if it looks for unused parameters."""
    return DistributedDataParallel(model, find_unused_parameters=True)


def net(seed: int = 0) -> nn.Module:
    torch.manual_seed(seed)
    return nn.Sequential(
        *(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.Tanh(), nn.Dropout(0.5), nn.Linear(8, 3), nn.LogSoftmax(dim=1))
    ).double()


def momentum_sgd(model: nn.Module) -> torch.optim.SGD:
    return torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)


def batches() -> GlobalBatches:
    return GlobalBatches(made_up(40, 6), 10)


def noise() -> tuple[float, float]:
    return random.random(), torch.rand(1).item()


# With new buckets three ranks' numbers are added up in another order: then the same numbers, but not the last bits.
@nightly
@pytest.mark.parametrize(
    ("wrap", "world_size", "limit"),
    [(DistributedDataParallel, 2, 0), (DistributedDataParallel, 3, 1e-12), (with_fixed_buckets, 3, 0)],
)
def test_stopped_and_resumed_a_training_ends_with_the_same_bits(
    wrap: Callable[[nn.Module], nn.Module], world_size: int, limit: float, tmp_path: pathlib.Path
) -> None:
    path = tmp_path / "training.pt"

    def in_one_go(rank: int, world_size: int) -> Any:
        model = wrap(net())
        optimizer = momentum_sgd(model)
        torch.manual_seed(rank)  # another dropout on each rank
        random.seed(rank)
        losses = []
        for epoch in range(4):
            losses += train_with_ddp(model, batches(), optimizer, epoch)
            if epoch == 1:
                save_checkpoint(path, model, optimizer, epoch)
        return losses, model.state_dict(), noise()

    def resumed(rank: int, world_size: int) -> Any:
        model = wrap(net(seed=5 + rank))  # nothing is right before it is loaded
        optimizer = momentum_sgd(model)
        optimizer.param_groups[0]["lr"] = 7.0
        epoch = load_checkpoint(path, model, optimizer)
        losses = []
        for later in range(epoch + 1, 4):
            losses += train_with_ddp(model, batches(), optimizer, later)
        return losses, model.state_dict(), noise()

    whole, rest = launch(in_one_go, world_size), launch(resumed, world_size)
    for (losses, weights, random_numbers), again in zip(whole, rest, strict=True):
        assert again[0] == pytest.approx(losses[8:], rel=0, abs=limit)
        torch.testing.assert_close(again[1], weights, rtol=0, atol=limit)
        assert again[2] == random_numbers
    assert len({answer[2] for answer in rest}) == world_size, "all ranks have the same random numbers"


def test_what_two_ranks_saved_one_process_loads_without_a_wrapper(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "training.pt"

    def run(rank: int, world_size: int) -> tuple[list[float], str]:
        model = DistributedDataParallel(net())
        optimizer = momentum_sgd(model)
        train_with_ddp(model, batches(), optimizer, 0)
        save_checkpoint(path, model, optimizer, 7)
        return train_with_ddp(model.eval(), batches(), optimizer, 1), fingerprint(model)

    losses, _ = launch(run, 2)[0]

    content = torch.load(path, weights_only=True)
    assert content.keys() == checkpoints.PARTS
    assert list(content["model"]) == list(net().state_dict())
    model = net(seed=3)
    optimizer = momentum_sgd(model)
    before = torch.get_rng_state()
    assert load_checkpoint(path, model, optimizer) == 7
    assert torch.equal(torch.get_rng_state(), before), "another number of ranks: no random states for it"
    assert train_alone(model.eval(), batches(), optimizer, 1) == pytest.approx(losses, abs=1e-12)


@pytest.mark.parametrize(("on_each_machine", "writers"), [(False, ["0"]), (True, ["0", "2"])])
def test_the_first_rank_writes_or_where_each_machine_has_a_disk_the_first_of_each(
    on_each_machine: bool, writers: list[str], tmp_path: pathlib.Path
) -> None:
    def run(rank: int, world_size: int) -> bool:
        os.environ["LOCAL_RANK"] = str(rank % 2)  # the third one is alone on its machine
        mine = tmp_path / str(rank)
        mine.mkdir()
        save_checkpoint(mine / "training.pt", net(), momentum_sgd(net()), 0, on_each_machine)
        return (tmp_path / "0" / "training.pt").exists()  # on no rank before it is there

    assert list(launch(run, 3)) == [True] * 3
    assert sorted(path.parent.name for path in tmp_path.rglob("*.pt*")) == writers


def full_disk(path: pathlib.Path) -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (2000, resource.RLIM_INFINITY))


def broken_disk(path: pathlib.Path) -> None:
    def fsync(number: int) -> None:
        raise OSError(5, "Input/output error")

    os.fsync = fsync  # type: ignore[assignment]


def no_such_folder(path: pathlib.Path) -> None:
    path.rename(path.with_name("elsewhere"))


@pytest.mark.parametrize(
    ("trouble", "sentence"),
    [
        (full_disk, "training.pt could not be written"),
        (broken_disk, "training.pt could not be written .OSError: .Errno 5. Input/output error"),
        (no_such_folder, "FileNotFoundError: there is no folder .*here"),
    ],
)
def test_a_write_that_fails_is_told_to_every_rank_and_the_last_good_file_stays(
    trouble: Callable[[pathlib.Path], None], sentence: str, tmp_path: pathlib.Path
) -> None:
    folder = tmp_path / "here"
    folder.mkdir()

    def run(rank: int, world_size: int) -> list[str]:
        model = net()
        optimizer = momentum_sgd(model)
        save_checkpoint(folder / "training.pt", model, optimizer, 1)
        if rank == 0:
            trouble(folder)
        errors = []
        for _ in range(2):  # nobody is out of step after the first
            try:
                save_checkpoint(folder / "training.pt", model, optimizer, 2)
            except OSError as error:
                errors.append(str(error))
        return errors

    results = launch(run, 3)
    for errors in results:
        assert len(errors) == 2
        assert errors == results[0]
        with pytest.raises(OSError, match=sentence):
            raise OSError(errors[0])
    assert not list(tmp_path.rglob("*.unfinished")), "it takes up the room that there is not"
    (file,) = tmp_path.rglob("training.pt")
    assert load_checkpoint(file, net(), momentum_sgd(net())) == 1


def test_a_rank_killed_while_it_writes_leaves_the_last_good_file(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "training.pt"

    def run(rank: int, world_size: int) -> None:
        save_checkpoint(path, net(), momentum_sgd(net()), 1)
        os.fsync = lambda fd: os.kill(os.getpid(), signal.SIGKILL)  # all is written, and nothing renamed
        save_checkpoint(path, net(), momentum_sgd(net()), 2)

    with pytest.raises(WorkerFailed, match="rank 0"):
        launch(run, 2)
    assert [file.name for file in tmp_path.glob("*.unfinished")] == ["training.pt.unfinished"], "killed too early"
    assert load_checkpoint(path, net(), momentum_sgd(net())) == 1

    save_checkpoint(path, net(), momentum_sgd(net()), 3)  # what lies about is in nobody's way
    assert load_checkpoint(path, net(), momentum_sgd(net())) == 3
    assert [file.name for file in tmp_path.iterdir()] == ["training.pt"]


class RunsWhenOpened:
    def __reduce__(self) -> Any:
        return os._exit, (1,)


@pytest.mark.parametrize("kind", ["half", "text", "code", "weights"])
def test_a_broken_or_foreign_file_is_named_and_changes_nothing(kind: str, tmp_path: pathlib.Path) -> None:
    path, model = tmp_path / f"{kind}.pt", net()
    save_checkpoint(path, model, momentum_sgd(model), 1)
    if kind == "weights":
        torch.save(model.state_dict(), path)
    else:
        good = path.read_bytes()
        code = pickle.dumps(RunsWhenOpened(), protocol=2)
        path.write_bytes({"half": good[: len(good) // 2], "text": b"epoch: 3\n" * 50, "code": code}[kind])
    before = fingerprint(model)
    refused = f"{kind}.pt (cannot be read as a checkpoint|was not written by save_checkpoint)[^\n]*\\Z"
    with pytest.raises(ValueError, match=refused):
        load_checkpoint(path, model, momentum_sgd(model))
    assert fingerprint(model) == before


@pytest.mark.parametrize(
    ("load", "content", "kind", "sentence"),
    [
        (load_checkpoint, None, FileNotFoundError, "there is no checkpoint"),
        (load_checkpoint, b"else", ValueError, "cannot be read as a checkpoint"),
        (load_newest, b"else", ValueError, "cannot be read as a checkpoint"),
    ],
)
def test_where_one_rank_cannot_read_it_all_are_told(
    load: Any, content: bytes | None, kind: type[Exception], sentence: str, tmp_path: pathlib.Path
) -> None:
    save_checkpoint(tmp_path / "0.pt", net(), momentum_sgd(net()), 1)
    if content:
        (tmp_path / "1.pt").write_bytes(content)

    def run(rank: int, world_size: int) -> str:
        try:
            load(tmp_path / f"{rank}.pt", net(), momentum_sgd(net()))  # as on two machines
        except kind as error:
            return str(error)
        return "loaded"

    first, second = launch(run, 2)
    assert first.startswith("rank 1: ")
    assert first.endswith(second)
    assert sentence in second


@pytest.mark.parametrize("epochs", [(3, 5, 0), (5, 5, 5), (0, 0, 0)])
def test_the_newest_checkpoint_of_all_machines_is_loaded_by_all(
    epochs: tuple[int, ...], tmp_path: pathlib.Path
) -> None:
    """0: that machine has none. Another epoch has other weights."""
    for rank, epoch in enumerate(epochs):
        (tmp_path / str(rank)).mkdir()
        if epoch:
            save_checkpoint(tmp_path / str(rank) / "training.pt", net(seed=epoch), momentum_sgd(net()), epoch)

    def run(rank: int, world_size: int) -> tuple[int, str]:
        model = net(seed=100)
        return load_newest(tmp_path / str(rank) / "training.pt", model, momentum_sgd(model)), fingerprint(model)

    newest = max(epochs)
    assert list(launch(run, 3)) == [(newest, fingerprint(net(seed=newest or 100)))] * 3
