"""Answers to train_loop and restartable: right ones in different styles, and wrong ones that are no listed mistake."""

# mypy: disable-error-code="no-any-return"

from __future__ import annotations

import contextlib
import os
from typing import Any

import torch
import torch.distributed
from torch.nn import functional as F
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler

from ddp_lessons.train.checkpoints import load_checkpoint, save_checkpoint
from ddp_lessons.train.gradients import average_gradients

dist: Any = torch.distributed


def _seeded(net: Any) -> tuple[Any, Any]:
    torch.manual_seed(1)
    module = net()
    return module, torch.optim.SGD(module.parameters(), lr=0.1, momentum=0.5)


def _step(model: Any, optimizer: Any, images: Any, labels: Any) -> None:
    optimizer.zero_grad()
    F.nll_loss(model(images), labels).backward()
    optimizer.step()


def _loader(data: Any, batch_size: int) -> DataLoader[Any]:
    return DataLoader(data, batch_size, sampler=DistributedSampler(data))


# right loops


def returns_the_wrappers_names(rank: int, world_size: int, net: Any, data: Any, epochs: int) -> Any:
    module, optimizer = _seeded(net)
    model, loader = DistributedDataParallel(module), _loader(data, 32 // world_size)
    for epoch in range(epochs):
        loader.sampler.set_epoch(epoch)  # type: ignore[attr-defined]
        for images, labels in loader:
            _step(model, optimizer, images, labels)
    return model.state_dict()


def averages_by_hand(rank: int, world_size: int, net: Any, data: Any, epochs: int) -> Any:
    module, optimizer = _seeded(net)
    loader = _loader(data, 32 // world_size)
    for epoch in range(epochs):
        loader.sampler.set_epoch(epoch)  # type: ignore[attr-defined]
        for images, labels in loader:
            module.zero_grad()
            F.nll_loss(module(images), labels).backward()
            average_gradients(module)
            optimizer.step()
    return dict(module.named_parameters())


# wrong loops


def trains_alone_on_everything(rank: int, world_size: int, net: Any, data: Any, epochs: int) -> Any:
    """The right weights, and every rank does all of the work."""
    module, optimizer = _seeded(net)
    for epoch in range(epochs):
        order = torch.randperm(len(data), generator=torch.Generator().manual_seed(epoch))
        for batch in order.split(32):
            _step(module, optimizer, *(tensor[batch] for tensor in data.tensors))
    return module.state_dict()


def two_epochs_always(rank: int, world_size: int, net: Any, data: Any, epochs: int) -> Any:
    return returns_the_wrappers_names(rank, world_size, net, data, 2)


# right restarts


def writes_by_hand(model: Any, optimizer: Any, train_epoch: Any, epochs: int, path: str) -> None:
    first = 0
    if os.path.exists(path):
        content = torch.load(path, weights_only=True)
        model.module.load_state_dict(content["model"])
        optimizer.load_state_dict(content["optimizer"])
        first = content["epoch"] + 1
    for epoch in range(first, epochs):
        train_epoch(epoch)
        if dist.get_rank() == 0:
            content = {"model": model.module.state_dict(), "optimizer": optimizer.state_dict(), "epoch": epoch}
            torch.save(content, f"{path}.new")
            os.replace(f"{path}.new", path)
        dist.barrier()


def one_file_for_each_epoch(model: Any, optimizer: Any, train_epoch: Any, epochs: int, path: str) -> None:
    done = [epoch for epoch in range(1, epochs + 1) if os.path.isfile(f"{path}.{epoch}")]
    for epoch in range(load_checkpoint(f"{path}.{max(done)}", model, optimizer) if done else 0, epochs):
        train_epoch(epoch)
        save_checkpoint(f"{path}.{epoch + 1}", model, optimizer, epoch + 1)


# wrong restarts


def ignores_a_damaged_file(model: Any, optimizer: Any, train_epoch: Any, epochs: int, path: str) -> None:
    first = 0
    with contextlib.suppress(Exception):
        content = torch.load(path, weights_only=True)
        model.module.load_state_dict(content["model"])
        optimizer.load_state_dict(content["optimizer"])
        first = content["epoch"]
    for epoch in range(first, epochs):
        train_epoch(epoch)
        if dist.get_rank() == 0:
            content = {"model": model.module.state_dict(), "optimizer": optimizer.state_dict(), "epoch": epoch + 1}
            torch.save(content, path)
        dist.barrier()


def only_rank_0_restores(model: Any, optimizer: Any, train_epoch: Any, epochs: int, path: str) -> None:
    first = 0
    if os.path.isfile(path):
        content = torch.load(path, weights_only=True)
        first = content["epoch"]
        if dist.get_rank() == 0:
            model.module.load_state_dict(content["model"])
            optimizer.load_state_dict(content["optimizer"])
    for epoch in range(first, epochs):
        train_epoch(epoch)
        save_checkpoint(path, model, optimizer, epoch + 1)


def saves_when_it_is_killed(model: Any, optimizer: Any, train_epoch: Any, epochs: int, path: str) -> None:
    """A killed process runs no more code, and the epoch is not finished."""
    done = load_checkpoint(path, model, optimizer) if os.path.isfile(path) else 0
    try:
        while done < epochs:
            train_epoch(done)
            done += 1
    finally:
        save_checkpoint(path, model, optimizer, done)


RIGHT = {
    "train_loop": [returns_the_wrappers_names, averages_by_hand],
    "restartable": [writes_by_hand, one_file_for_each_epoch],
}
WRONG = {
    "train_loop": [(trains_alone_on_everything, "The ranks communicate too little"), (two_epochs_always, "epochs")],
    "restartable": [
        (ignores_a_damaged_file, "An interrupted write must not damage the last checkpoint"),
        (only_rank_0_restores, "Restore the model and the optimizer on every rank"),
        (saves_when_it_is_killed, "The final weights differ from those of an uninterrupted run."),
    ],
}
