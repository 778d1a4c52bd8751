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


def with_a_file_for_each_epoch(model: Any, optimizer: Any, train_epoch: Any, epochs: int, path: str) -> None:
    done = [epoch for epoch in range(1, epochs + 1) if os.path.isfile(f"{path}.{epoch}")]
    first = load_checkpoint(f"{path}.{max(done)}", model, optimizer) if done else 0
    for epoch in range(first, epochs):
        train_epoch(epoch)
        save_checkpoint(f"{path}.{epoch + 1}", model, optimizer, epoch + 1)
        if epoch == epochs - 1:
            save_checkpoint(path, model, optimizer, epochs)


def rank_0_reads_for_all(model: Any, optimizer: Any, train_epoch: Any, epochs: int, path: str) -> None:
    found: list[Any] = [None]
    if dist.get_rank() == 0 and os.path.isfile(path):
        found = [torch.load(path, weights_only=True)]
    dist.broadcast_object_list(found)
    if found[0]:
        model.module.load_state_dict(found[0]["model"])
        optimizer.load_state_dict(found[0]["optimizer"])
    for epoch in range(found[0]["epoch"] if found[0] else 0, epochs):
        train_epoch(epoch)
        save_checkpoint(path, model, optimizer, epoch + 1)


def saves_the_start_as_well(model: Any, optimizer: Any, train_epoch: Any, epochs: int, path: str) -> None:
    if not os.path.isfile(path):
        dist.barrier()
        save_checkpoint(path, model, optimizer, 0)
    for epoch in range(load_checkpoint(path, model, optimizer), epochs):
        train_epoch(epoch)
        save_checkpoint(path, model, optimizer, epoch + 1)


def with_the_last_epochs_number(model: Any, optimizer: Any, train_epoch: Any, epochs: int, path: str) -> None:
    last = load_checkpoint(path, model, optimizer) if os.path.isfile(path) else -1
    for epoch in range(last + 1, epochs):
        train_epoch(epoch)
        save_checkpoint(path, model, optimizer, epoch)


def one_by_one(model: Any, optimizer: Any, train_epoch: Any, epochs: int, path: str) -> None:
    """Asks the file again before each epoch."""
    while True:
        done = load_checkpoint(path, model, optimizer) if os.path.isfile(path) else 0
        dist.barrier()
        if done >= epochs:
            return
        train_epoch(done)
        save_checkpoint(path, model, optimizer, done + 1)


def skips_what_is_done(model: Any, optimizer: Any, train_epoch: Any, epochs: int, path: str) -> None:
    done = load_checkpoint(path, model, optimizer) if os.path.isfile(path) else 0
    for epoch in range(epochs):
        if epoch < done:
            continue
        train_epoch(epoch)
        save_checkpoint(path, model, optimizer, epoch + 1)


RIGHT = [
    *(with_a_file_for_each_epoch, rank_0_reads_for_all, saves_the_start_as_well, with_the_last_epochs_number),
    *(one_by_one, skips_what_is_done, with_the_newest, by_trying, by_hand),
]


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


def adds_one_twice(model: Any, optimizer: Any, train_epoch: Any, epochs: int, path: str) -> None:
    first = load_checkpoint(path, model, optimizer) + 1 if os.path.isfile(path) else 0
    for epoch in range(first, epochs):
        train_epoch(epoch)
        save_checkpoint(path, model, optimizer, epoch + 1)


def without_the_last(model: Any, optimizer: Any, train_epoch: Any, epochs: int, path: str) -> None:
    first = load_checkpoint(path, model, optimizer) if os.path.isfile(path) else 0
    for epoch in range(first, epochs - 1):
        train_epoch(epoch)
        save_checkpoint(path, model, optimizer, epoch + 1)


def without_the_first(model: Any, optimizer: Any, train_epoch: Any, epochs: int, path: str) -> None:
    first = load_checkpoint(path, model, optimizer) if os.path.isfile(path) else 1
    for epoch in range(first, epochs):
        train_epoch(epoch)
        save_checkpoint(path, model, optimizer, epoch + 1)


def one_more(model: Any, optimizer: Any, train_epoch: Any, epochs: int, path: str) -> None:
    first = load_checkpoint(path, model, optimizer) if os.path.isfile(path) else 0
    for epoch in range(first, epochs + 1):
        train_epoch(epoch)
        save_checkpoint(path, model, optimizer, epoch + 1)


def each_twice(model: Any, optimizer: Any, train_epoch: Any, epochs: int, path: str) -> None:
    for epoch in range(epochs):
        train_epoch(epoch)
        train_epoch(epoch)


def backwards(model: Any, optimizer: Any, train_epoch: Any, epochs: int, path: str) -> None:
    for epoch in reversed(range(epochs)):
        train_epoch(epoch)


def as_many_more(model: Any, optimizer: Any, train_epoch: Any, epochs: int, path: str) -> None:
    """Takes `epochs` for those to come."""
    first = load_checkpoint(path, model, optimizer) if os.path.isfile(path) else 0
    for epoch in range(first, first + epochs):
        train_epoch(epoch)
        save_checkpoint(path, model, optimizer, epoch + 1)


def trains_when_all_is_done(model: Any, optimizer: Any, train_epoch: Any, epochs: int, path: str) -> None:
    epoch = load_checkpoint(path, model, optimizer) if os.path.isfile(path) else 0
    while True:
        train_epoch(epoch)
        epoch += 1
        save_checkpoint(path, model, optimizer, epoch)
        if epoch >= epochs:
            return


def loads_only_the_optimizer(model: Any, optimizer: Any, train_epoch: Any, epochs: int, path: str) -> None:
    first = 0
    if os.path.isfile(path):
        content = torch.load(path, weights_only=True)
        optimizer.load_state_dict(content["optimizer"])
        first = content["epoch"]
    for epoch in range(first, epochs):
        train_epoch(epoch)
        save_checkpoint(path, model, optimizer, epoch + 1)


def saves_elsewhere(model: Any, optimizer: Any, train_epoch: Any, epochs: int, path: str) -> None:
    first = load_checkpoint(path, model, optimizer) if os.path.isfile(path) else 0
    for epoch in range(first, epochs):
        train_epoch(epoch)
        save_checkpoint(f"{path}.{epoch}", model, optimizer, epoch + 1)


def counts_from_the_number_of_epochs(model: Any, optimizer: Any, train_epoch: Any, epochs: int, path: str) -> None:
    """Loads, and begins anew all the same."""
    if os.path.isfile(path):
        load_checkpoint(path, model, optimizer)
    for epoch in range(epochs):
        train_epoch(epoch)
        save_checkpoint(path, model, optimizer, epoch + 1)


def removes_the_old_one_first(model: Any, optimizer: Any, train_epoch: Any, epochs: int, path: str) -> None:
    first = 0
    if os.path.isfile(path):
        first = load_checkpoint(path, model, optimizer)
    for epoch in range(first, epochs):
        train_epoch(epoch)
        if dist.get_rank() == 0 and os.path.isfile(path):
            os.remove(path)
        save_checkpoint(path, model, optimizer, epoch + 1)


def tidies_up(model: Any, optimizer: Any, train_epoch: Any, epochs: int, path: str) -> None:
    by_trying(model, optimizer, train_epoch, epochs, path)
    dist.barrier()
    if dist.get_rank() == 0:
        os.remove(path)


def a_file_for_each_rank(model: Any, optimizer: Any, train_epoch: Any, epochs: int, path: str) -> None:
    """Rank 0 alone writes one."""
    mine = f"{path}.{dist.get_rank()}"
    first = load_checkpoint(mine, model, optimizer) if os.path.isfile(mine) else 0
    for epoch in range(first, epochs):
        train_epoch(epoch)
        save_checkpoint(mine, model, optimizer, epoch + 1)


LEFT_OUT = (
    "Epoch 2 was not finished, but is skipped. Add 1 only once, either when you save the epoch or when you load it"
)
IN_ONE_GO = "Without a crash, train_epoch must run once per epoch, from 0 to `epochs` - 1"
WRONG = [
    (adds_one_twice, LEFT_OUT),
    (without_the_last, f"{IN_ONE_GO}: epoch 3 is missing"),
    (without_the_first, f"{IN_ONE_GO}: epoch 0 is missing"),
    (one_more, f"{IN_ONE_GO}: epoch 4 is not expected. Without a checkpoint, loop over range(epochs)"),
    (each_twice, f"{IN_ONE_GO}: epoch 0 runs twice"),
    (backwards, f"{IN_ONE_GO}: the epochs are in the wrong order"),
    (as_many_more, "epoch 4 is not expected"),
    (trains_when_all_is_done, "epoch 4 is not expected"),
    (loads_only_the_optimizer, "Restore the model and the optimizer"),
    (saves_elsewhere, "there is no file at the path"),
    (
        counts_from_the_number_of_epochs,
        "It starts again at epoch 0 although a checkpoint exists. Load the checkpoint before the loop, and start at "
        "the loaded epoch",
    ),
    (removes_the_old_one_first, "It starts again at epoch 0, because the checkpoint has been deleted"),
    (
        tidies_up,
        "After a complete run and a restart: it starts again at epoch 0, because the checkpoint has been deleted. "
        "Keep that file, the only record of the finished epochs",
    ),
    (a_file_for_each_rank, "because rank 1 finds no checkpoint at the given path"),
    (as_given, "It starts again at epoch 0, because there is no file at the path. Save a checkpoint after each epoch"),
    (never_loads, "It starts again at epoch 0 although a checkpoint exists"),
    (loads_what_is_not_there, "There is no checkpoint yet. Check os.path.isfile(path) before loading"),
    (saves_the_number_of_the_epoch, "Epoch 1 was finished, but is trained again"),
    (saves_before, "Epoch 2 was not finished, but is skipped"),
    (saves_in_the_end, "It starts again at epoch 0, because there is no file at the path"),
    (saves_every_second_time, "save a checkpoint after each epoch"),
    (only_rank_0_goes_on, "the ranks resume at different epochs"),
    (only_rank_0_has_the_weights, "Load the checkpoint on every rank"),
    (only_the_number, "Restore the model and the optimizer"),
    (without_the_optimizer, "The optimizer has lost its state (momentum)"),
    (into_the_place_of_the_last_one, "The interrupted write replaced the last good checkpoint with half a file"),
    (with_the_wrappers_names, "The names in the file do not match the model"),
    (
        swallows_what_is_broken,
        "After a kill during the write after epoch 1 and a restart: it starts again at epoch 0. The interrupted "
        "write replaced the last good checkpoint with half a file. Write to another file next to it, and rename "
        "that once it is complete",
    ),
    (from_one_on, "Without a crash, train_epoch must run once per epoch, from 0 to `epochs` - 1"),
    (once_is_not_enough, "Without a crash, train_epoch must run once per epoch, from 0 to `epochs` - 1"),
    (skips_one, "each remaining epoch must run once, in order"),
]
HANGING = [(only_rank_0_saves, "Call save_checkpoint and load_checkpoint on every rank, not only under `if rank == 0`")]
