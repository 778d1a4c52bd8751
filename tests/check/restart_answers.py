"""Answers to the exercise `restartable`: right ones, and wrong ones with words of their sentences."""

from __future__ import annotations

import contextlib
import os
from typing import Any

import torch
import torch.distributed

from ddp_lessons.train.checkpoints import load_checkpoint, load_newest, save_checkpoint

dist: Any = torch.distributed


# right


def with_the_newest(model: Any, optimizer: Any, train_epoch: Any, epochs: int, path: str) -> None:
    for epoch in range(load_newest(path, model, optimizer), epochs):
        train_epoch(epoch)
        save_checkpoint(path, model, optimizer, epoch + 1, on_each_machine=True)


def by_trying(model: Any, optimizer: Any, train_epoch: Any, epochs: int, path: str) -> None:
    try:
        done = load_checkpoint(path, model, optimizer)
    except FileNotFoundError:
        done = 0
    while done < epochs:
        train_epoch(done)
        done += 1
        save_checkpoint(path, model, optimizer, done)


def by_hand(model: Any, optimizer: Any, train_epoch: Any, epochs: int, path: str) -> None:
    first = 0
    if os.path.exists(path):
        content = torch.load(path, weights_only=True, map_location="cpu")
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


RIGHT = [with_the_newest, by_trying, by_hand]


# wrong


def as_given(model: Any, optimizer: Any, train_epoch: Any, epochs: int, path: str) -> None:
    for epoch in range(epochs):
        train_epoch(epoch)


def never_loads(model: Any, optimizer: Any, train_epoch: Any, epochs: int, path: str) -> None:
    for epoch in range(epochs):
        train_epoch(epoch)
        save_checkpoint(path, model, optimizer, epoch + 1)


def loads_what_is_not_there(model: Any, optimizer: Any, train_epoch: Any, epochs: int, path: str) -> None:
    for epoch in range(load_checkpoint(path, model, optimizer), epochs):
        train_epoch(epoch)
        save_checkpoint(path, model, optimizer, epoch + 1)


def saves_the_number_of_the_epoch(model: Any, optimizer: Any, train_epoch: Any, epochs: int, path: str) -> None:
    first = load_checkpoint(path, model, optimizer) if os.path.isfile(path) else 0
    for epoch in range(first, epochs):
        train_epoch(epoch)
        save_checkpoint(path, model, optimizer, epoch)


def saves_before(model: Any, optimizer: Any, train_epoch: Any, epochs: int, path: str) -> None:
    first = load_checkpoint(path, model, optimizer) if os.path.isfile(path) else 0
    for epoch in range(first, epochs):
        save_checkpoint(path, model, optimizer, epoch + 1)
        train_epoch(epoch)


def saves_in_the_end(model: Any, optimizer: Any, train_epoch: Any, epochs: int, path: str) -> None:
    first = load_checkpoint(path, model, optimizer) if os.path.isfile(path) else 0
    for epoch in range(first, epochs):
        train_epoch(epoch)
    save_checkpoint(path, model, optimizer, epochs)


def saves_every_second_time(model: Any, optimizer: Any, train_epoch: Any, epochs: int, path: str) -> None:
    first = load_checkpoint(path, model, optimizer) if os.path.isfile(path) else 0
    for epoch in range(first, epochs):
        train_epoch(epoch)
        if epoch % 2 or epoch == epochs - 1:
            save_checkpoint(path, model, optimizer, epoch + 1)


def only_rank_0_saves(model: Any, optimizer: Any, train_epoch: Any, epochs: int, path: str) -> None:
    first = load_checkpoint(path, model, optimizer) if os.path.isfile(path) else 0
    for epoch in range(first, epochs):
        train_epoch(epoch)
        if dist.get_rank() == 0:
            save_checkpoint(path, model, optimizer, epoch + 1)


def only_rank_0_goes_on(model: Any, optimizer: Any, train_epoch: Any, epochs: int, path: str) -> None:
    first = 0
    if dist.get_rank() == 0 and os.path.isfile(path):
        first = torch.load(path, weights_only=True)["epoch"]
    for epoch in range(first, epochs):
        train_epoch(epoch)
        save_checkpoint(path, model, optimizer, epoch + 1)


def only_rank_0_has_the_weights(model: Any, optimizer: Any, train_epoch: Any, epochs: int, path: str) -> None:
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


def only_the_number(model: Any, optimizer: Any, train_epoch: Any, epochs: int, path: str) -> None:
    first = torch.load(path, weights_only=True)["epoch"] if os.path.isfile(path) else 0
    for epoch in range(first, epochs):
        train_epoch(epoch)
        save_checkpoint(path, model, optimizer, epoch + 1)


def without_the_optimizer(model: Any, optimizer: Any, train_epoch: Any, epochs: int, path: str) -> None:
    first = 0
    if os.path.isfile(path):
        content = torch.load(path, weights_only=True)
        model.module.load_state_dict(content["model"])
        first = content["epoch"]
    for epoch in range(first, epochs):
        train_epoch(epoch)
        save_checkpoint(path, model, optimizer, epoch + 1)


def into_the_place_of_the_last_one(model: Any, optimizer: Any, train_epoch: Any, epochs: int, path: str) -> None:
    first = 0
    if os.path.isfile(path):
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


def with_the_wrappers_names(model: Any, optimizer: Any, train_epoch: Any, epochs: int, path: str) -> None:
    first = 0
    if os.path.isfile(path):
        content = torch.load(path, weights_only=True)
        model.load_state_dict(content["model"])
        first = content["epoch"]
    for epoch in range(first, epochs):
        train_epoch(epoch)
        save_checkpoint(path, model, optimizer, epoch + 1)


def swallows_what_is_broken(model: Any, optimizer: Any, train_epoch: Any, epochs: int, path: str) -> None:
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


def from_one_on(model: Any, optimizer: Any, train_epoch: Any, epochs: int, path: str) -> None:
    first = load_checkpoint(path, model, optimizer) if os.path.isfile(path) else 1
    for epoch in range(first, epochs + 1):
        train_epoch(epoch)
        save_checkpoint(path, model, optimizer, epoch + 1)


def once_is_not_enough(model: Any, optimizer: Any, train_epoch: Any, epochs: int, path: str) -> None:
    train_epoch(0)
    save_checkpoint(path, model, optimizer, 1)


def skips_one(model: Any, optimizer: Any, train_epoch: Any, epochs: int, path: str) -> None:
    is_anew = not os.path.isfile(path)
    first = 0 if is_anew else load_checkpoint(path, model, optimizer)
    for epoch in range(first, epochs):
        if is_anew or epoch < epochs - 1:
            train_epoch(epoch)
            save_checkpoint(path, model, optimizer, epoch + 1)


WRONG = [
    (as_given, "there is no file at the path: save a checkpoint after each epoch"),
    (never_loads, "It begins anew, although a checkpoint is there"),
    (loads_what_is_not_there, "No checkpoint is there yet: ask whether there is one"),
    (saves_the_number_of_the_epoch, "Epoch 1 was done, and is trained once more"),
    (saves_before, "Epoch 2 was not done, and is left out"),
    (saves_in_the_end, "It begins anew, since there is no file at the path"),
    (saves_every_second_time, "save a checkpoint after each epoch"),
    (only_rank_0_goes_on, "The ranks go on with different epochs"),
    (only_rank_0_has_the_weights, "each of them has to load the checkpoint"),
    (only_the_number, "put back the model and the optimizer"),
    (without_the_optimizer, "The optimizer has forgotten its momentum"),
    (into_the_place_of_the_last_one, "has left half a file in the place of the last good one"),
    (with_the_wrappers_names, "The names in the file are not those of the model"),
    (swallows_what_is_broken, "It begins anew. The write that was cut off has left half a file"),
    (from_one_on, "it does not call train_epoch for the epochs 0, 1, 2"),
    (once_is_not_enough, "it does not call train_epoch for the epochs 0, 1, 2"),
    (skips_one, "It does not train each of the epochs that are left once"),
]
HANGING = [(only_rank_0_saves, "are for every rank to call")]
