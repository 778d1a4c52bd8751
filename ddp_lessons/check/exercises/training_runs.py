"""Whole training runs with DistributedDataParallel: the loop of lesson 8, and the restarts of lesson 14."""

from __future__ import annotations

import contextlib
import copy
import os
import shutil
from collections.abc import Mapping
from functools import partial
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.parallel import DistributedDataParallel
from torch.optim import SGD
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

from ddp_lessons.check.exercise import Exercise, Fields, Mistake, Program, Trial
from ddp_lessons.check.exercises.saving import files_no_longer_than
from ddp_lessons.check.ranks import common_folder
from ddp_lessons.train import loops, restarts
from ddp_lessons.train.checkpoints import load_checkpoint, save_checkpoint

_EPOCHS, _WIDTH = 4, 60  # of a run that is restarted; its weights alone take 29 kB
_PATH, _MOST_BYTES = "./checkpoint.pt", 20_000  # of a file, where the write is cut off


class _Samples(TensorDataset):
    read = 0

    def __getitem__(self, index: int) -> tuple[Tensor, ...]:
        self.read += 1
        return self.tensors[0][index], self.tensors[1][index]


def _network() -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(784, 10, dtype=torch.float64), nn.LogSoftmax(dim=1))


def _before_training(rank: int, world_size: int, chance: torch.Generator, epochs: int = 2) -> tuple[Any, ...]:
    torch.manual_seed(3)
    data = _Samples(torch.randn(96, 1, 28, 28, dtype=torch.float64), torch.randint(0, 10, (96,)))
    return None, None, _network, data, epochs


def _trained_weights(program: Program, _: None, __: None, net: Any, data: _Samples, epochs: int) -> Fields:
    world_size = dist.get_world_size()
    answer = program(dist.get_rank(), world_size, net, data, epochs)
    named = answer.items() if isinstance(answer, Mapping) else ()
    weights = {str(name).removeprefix("module."): value for name, value in named}
    has_read_all = world_size > 1 and data.read > 1.5 * epochs * len(data) / world_size
    return {"samples": "all" if has_read_all else "one part", "names": ", ".join(sorted(weights)) or "none"} | weights


def _loop(rank: int, world_size: int, net: Any, data: Any, epochs: int, wrong: str) -> Any:
    """The lesson's loop with one thing wrong."""
    torch.manual_seed(1)
    module = net()
    model = module if wrong == "alone" else DistributedDataParallel(module)
    optimizer = SGD(module.parameters(), lr=0.1, momentum=0.5)
    sampler: DistributedSampler[Any] = DistributedSampler(data, world_size, rank)
    for epoch in range(epochs):
        sampler.set_epoch(0 if wrong == "order" else epoch)
        for images, labels in DataLoader(data, 32 if wrong == "batch" else 32 // world_size, sampler=sampler):
            optimizer.zero_grad()
            loss = F.nll_loss(model(images), labels) / (world_size if wrong == "divided" else 1)
            loss.backward()
            optimizer.step()
    return module.state_dict()


train_loop = Exercise(
    """Check `function(rank, world_size, net, data, epochs)`: every rank returns the weights that one process would get.

    A global batch has 32 samples. `net()`, called after torch.manual_seed(1), ends in log_softmax. The optimizer is
    SGD(lr=0.1, momentum=0.5). Everything is float64, so that rounding doesn't matter.
    """,
    solution=loops.train_loop,
    call=_trained_weights,
    parameters=("rank", "world_size", "net", "data", "epochs"),
    wraps_models=True,
    world_sizes=(2, 1),
    tolerance=1e-9,
    trials=[Trial(_before_training), Trial(partial(_before_training, epochs=3), "three epochs")],
    hints={
        "samples": "Each rank trains on all samples. Give the DataLoader a DistributedSampler.",
        "names": "Your function does not return the weights. Return the state_dict() of the network.",
        "": "One process ends up with different weights. Compare your seed, batch size, loss and optimizer with the "
        "list in the lesson.",
    },
    mistakes=[
        Mistake(partial(_loop, wrong=wrong), sentence)
        for wrong, sentence in {
            "order": "Every epoch uses the same order. Call sampler.set_epoch(epoch) at the start of each epoch.",
            "alone": "The gradients are not averaged. Wrap the network in DistributedDataParallel, and call the "
            "wrapper.",
            "divided": "The gradients are divided twice by world_size. DDP averages them, so don't divide the loss.",
            "batch": "Each rank takes 32 samples per step, which is the size of the global batch. Take 32 // "
            "world_size.",
        }.items()
    ],
)


class _Kill(BaseException):
    """Of all ranks at the same time, in the middle of an epoch or in the write after one."""

    def __init__(self, in_epoch: int = -1, in_write_after: int = -1) -> None:
        self.in_epoch, self.in_write_after = in_epoch, in_write_after
        self.ends = {str(in_epoch), str(in_write_after)}


def _job(rank: int, world_size: int, chance: torch.Generator, **when: int) -> tuple[nn.Module, _Kill]:
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(_WIDTH, _WIDTH), nn.ReLU(), nn.Linear(_WIDTH, 1)).double(), _Kill(**when)


def _started_twice(program: Program, model: nn.Module, kill: _Kill) -> Fields:
    """The second time with a new model, and with what is left of the files."""
    new, is_cut_off = copy.deepcopy(model), kill.in_write_after >= 0
    restart = "restart after an interrupted write trains" if is_cut_off else "restart trains"
    with common_folder():
        fields = {"first run trains": _run(program, model, kill)}
        if dist.get_rank() == 0:  # the others wait for it when they wrap the new model
            for entry in os.scandir():
                if not entry.name.startswith(os.path.basename(_PATH)):
                    shutil.rmtree(entry) if entry.is_dir() else os.remove(entry)
            fields["checkpoint"] = "there if needed" if os.listdir() or kill.in_epoch == 0 else "none"
        fields[restart] = _run(program, new, _Kill(), may_fail=is_cut_off)
    return fields | {"weights": list(new.parameters())}


def _run(program: Program, model: nn.Module, kill: _Kill, may_fail: bool = False) -> str:
    """The epochs that it trains until it ends or is killed."""
    wrapped, optimizer = DistributedDataParallel(model), SGD(model.parameters(), lr=0.02, momentum=0.9)
    rank, world_size = dist.get_rank(), dist.get_world_size()
    trained: list[str] = []

    def train_epoch(epoch: int) -> None:
        if kill.ends & {*trained}:  # it was killed, but goes on
            raise kill
        trained.append(str(epoch))
        for step in range(1 if epoch == kill.in_epoch else 2):
            chance = torch.Generator().manual_seed(100 * epoch + step)
            inputs = torch.randn(4, _WIDTH, generator=chance, dtype=torch.float64)[rank::world_size]
            optimizer.zero_grad()
            (wrapped(inputs) - inputs.mean(dim=1, keepdim=True)).square().mean().backward()
            optimizer.step()
        if epoch == kill.in_epoch:
            raise kill
        if epoch == kill.in_write_after:
            limits.enter_context(files_no_longer_than(_MOST_BYTES))

    try:
        with contextlib.ExitStack() as limits:
            program(wrapped, optimizer, train_epoch, _EPOCHS, _PATH)
    except (_Kill, Exception):
        if not (may_fail or kill.ends & {*trained}):
            raise
    return ", ".join(trained) or "none"


def _restarts(model: Any, optimizer: Any, train_epoch: Any, epochs: int, path: str, wrong: str) -> None:
    """The lesson's function with one thing wrong."""
    first_epoch = 0
    if os.path.isfile(path) and wrong != "load":
        restored = SGD(model.parameters(), lr=0.1) if wrong == "optimizer" else optimizer
        loaded = load_checkpoint(path, model, restored)
        first_epoch = {"from 0": 0, "twice": loaded + 1}.get(wrong, loaded)
    for epoch in range(first_epoch, epochs):
        train_epoch(epoch)
        save_checkpoint(path, model, optimizer, epoch if wrong == "number" else epoch + 1)


restartable = Exercise(
    """Check `function(model, optimizer, train_epoch, epochs, path)`, called on every rank.

    It calls `train_epoch(epoch)` for each epoch, starting at 0. If it is killed at any moment and called again with a
    new model, it resumes: it trains only the epochs that weren't finished when the file at `path`, a str, was written.
    Only this file survives, and others whose names begin with its name. The final weights are those of an uninterrupted
    run. The model is wrapped in DistributedDataParallel.
    """,
    solution=restarts.train_restartably,
    call=_started_twice,
    wraps_models=True,
    world_sizes=(1, 2),  # first one rank, because no other waits for it if its write is cut off
    tolerance=1e-9,
    trials=[
        Trial(partial(_job, in_epoch=2)),
        Trial(partial(_job, in_epoch=0), "a kill in epoch 0 and a restart"),
        Trial(partial(_job, in_write_after=1), "a kill during the write after epoch 1 and a restart", largest_world=1),
        Trial(_job, "a complete run and a restart"),
    ],
    hints={
        "first": "Without a checkpoint, train each epoch once, in order: `for epoch in range(epochs)`.",
        "checkpoint": "There is no checkpoint to resume from. Save one after each epoch, and keep that file until the "
        "next one is complete.",
        "restart trains": "The restart must train each remaining epoch once. Save after each epoch, and start the "
        "loop at the loaded one.",
        "restart after": "An interrupted write must not damage the last checkpoint. Write a new file, then rename it.",
        "weights": "The final weights differ from those of an uninterrupted run. Restore the model and the optimizer "
        "on every rank.",
    },
    mistakes=[
        Mistake(partial(_restarts, wrong=wrong), sentence)
        for wrong, sentence in {
            "load": "After the restart, training starts at epoch 0 again. Save a checkpoint at `path` after each "
            "epoch, load it before the loop, and start at the loaded epoch.",
            "from 0": "The restart loads the checkpoint, but trains from epoch 0 again. Start at the loaded epoch.",
            "number": "The last finished epoch is trained again. Save the number of finished epochs, epoch + 1.",
            "twice": "The unfinished epoch is skipped. Save after train_epoch(epoch), not before it, and add 1 only "
            "once, either when you save the epoch or when you load it.",
            "optimizer": "The optimizer has lost its state (the momentum). Save and load optimizer.state_dict(), too.",
        }.items()
    ],
)
