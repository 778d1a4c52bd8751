import os
import time

import torch
import torch.distributed as dist

RIGHT, WRONG = [], []


def right(answer, what):
    RIGHT.append((answer, what))


def wrong(answer, what, words):
    WRONG.append((answer, what, words))


from pathlib import Path

from ddp_lessons.train.checkpoints import load_checkpoint, save_checkpoint


def restart_the_three_lines(model, optimizer, train_epoch, epochs, path):
    first = load_checkpoint(path, model, optimizer) if os.path.exists(path) else 0
    for epoch in range(first, epochs):
        train_epoch(epoch)
        save_checkpoint(path, model, optimizer, epoch + 1)
right(restart_the_three_lines, "three lines; the number in the file is that of the next epoch")


def restart_try_except(model, optimizer, train_epoch, epochs, path):
    try:
        done = load_checkpoint(path, model, optimizer)
    except FileNotFoundError:
        done = 0
    while done < epochs:
        train_epoch(done)
        done += 1
        save_checkpoint(path, model, optimizer, done)
right(restart_try_except, "asks forgiveness, a while loop")


def restart_skips_in_the_loop(model, optimizer, train_epoch, epochs, path):
    first = 0
    if Path(path).is_file():
        first = load_checkpoint(path, model, optimizer)
    for epoch in range(epochs):
        if epoch < first:
            continue
        train_epoch(epoch)
        save_checkpoint(path=path, model=model, optimizer=optimizer, epoch=epoch + 1)
right(restart_skips_in_the_loop, "pathlib, continue for the epochs done, names of arguments")


def restart_rank_0_looks(model, optimizer, train_epoch, epochs, path):
    there = [os.path.exists(path)]
    dist.broadcast_object_list(there, src=0)
    first = load_checkpoint(path, model, optimizer) if there[0] else 0
    for epoch in range(first, epochs):
        train_epoch(epoch)
        save_checkpoint(path, model, optimizer, epoch + 1)
right(restart_rank_0_looks, "rank 0 looks, so that all decide alike")


def restart_number_of_the_last_epoch(model, optimizer, train_epoch, epochs, path):
    last = load_checkpoint(path, model, optimizer) if os.path.isfile(path) else -1
    for epoch in range(last + 1, epochs):
        train_epoch(epoch)
        save_checkpoint(path, model, optimizer, epoch)
right(restart_number_of_the_last_epoch, "writes the epoch that was done and begins with the next: consistent in itself (another meaning of the number)")


def restart_with_a_file_from_the_start(model, optimizer, train_epoch, epochs, path):
    there = torch.tensor(float(os.path.exists(path)))
    dist.all_reduce(there, dist.ReduceOp.MIN)
    if not there:
        save_checkpoint(path, model, optimizer, 0)
    for epoch in range(load_checkpoint(path, model, optimizer), epochs):
        train_epoch(epoch)
        save_checkpoint(path, model, optimizer, epoch + 1)
right(restart_with_a_file_from_the_start, "writes a file before the first epoch, then always loads")


def restart_recursive(model, optimizer, train_epoch, epochs, path, epoch=None):
    if epoch is None:
        epoch = load_checkpoint(path, model, optimizer) if os.path.exists(path) else 0
    if epoch < epochs:
        train_epoch(epoch)
        save_checkpoint(path, model, optimizer, epoch + 1)
        restart_recursive(model, optimizer, train_epoch, epochs, path, epoch + 1)
right(restart_recursive, "recursion instead of a loop")


def restart_as_found(model, optimizer, train_epoch, epochs, path):
    for epoch in range(epochs):
        train_epoch(epoch)
wrong(restart_as_found, "unchanged: begins from 0 each time", "checkpoint, load, save, from 0")


def restart_saves_the_epoch_itself(model, optimizer, train_epoch, epochs, path):
    first = load_checkpoint(path, model, optimizer) if os.path.exists(path) else 0
    for epoch in range(first, epochs):
        train_epoch(epoch)
        save_checkpoint(path, model, optimizer, epoch)
wrong(restart_saves_the_epoch_itself, "the last epoch is done twice", "epoch + 1, twice")


def restart_one_too_far(model, optimizer, train_epoch, epochs, path):
    first = load_checkpoint(path, model, optimizer) + 1 if os.path.exists(path) else 0
    for epoch in range(first, epochs):
        train_epoch(epoch)
        save_checkpoint(path, model, optimizer, epoch + 1)
wrong(restart_one_too_far, "adds 1 on both sides: an epoch is left out", "left out, + 1, skipped")


def restart_needs_a_file(model, optimizer, train_epoch, epochs, path):
    first = load_checkpoint(path, model, optimizer)
    for epoch in range(first, epochs):
        train_epoch(epoch)
        save_checkpoint(path, model, optimizer, epoch + 1)
wrong(restart_needs_a_file, "the very first start fails: no file", "first start, no file, FileNotFoundError")


def restart_saves_before_training(model, optimizer, train_epoch, epochs, path):
    first = load_checkpoint(path, model, optimizer) if os.path.exists(path) else 0
    for epoch in range(first, epochs):
        save_checkpoint(path, model, optimizer, epoch + 1)
        train_epoch(epoch)
wrong(restart_saves_before_training, "writes an epoch as done before it is", "before, left out, after the epoch")


def restart_saves_at_the_end(model, optimizer, train_epoch, epochs, path):
    first = load_checkpoint(path, model, optimizer) if os.path.exists(path) else 0
    for epoch in range(first, epochs):
        train_epoch(epoch)
    save_checkpoint(path, model, optimizer, epochs)
wrong(restart_saves_at_the_end, "saves only when all is done", "after each epoch, in the loop, twice")


def restart_saves_every_second(model, optimizer, train_epoch, epochs, path):
    first = load_checkpoint(path, model, optimizer) if os.path.exists(path) else 0
    for epoch in range(first, epochs):
        train_epoch(epoch)
        if epoch % 2 == 1:
            save_checkpoint(path, model, optimizer, epoch + 1)
wrong(restart_saves_every_second, "every second epoch: one may be done twice", "each epoch, twice")


def restart_rank_0_saves(model, optimizer, train_epoch, epochs, path):
    first = load_checkpoint(path, model, optimizer) if os.path.exists(path) else 0
    for epoch in range(first, epochs):
        train_epoch(epoch)
        if dist.get_rank() == 0:
            save_checkpoint(path, model, optimizer, epoch + 1)
wrong(restart_rank_0_saves, "save_checkpoint is called by all; rank 0 alone waits in it", "every rank, save_checkpoint, rank 0 waits")


def restart_rank_0_loads(model, optimizer, train_epoch, epochs, path):
    first = 0
    if dist.get_rank() == 0 and os.path.exists(path):
        first = load_checkpoint(path, model, optimizer)
    for epoch in range(first, epochs):
        train_epoch(epoch)
        save_checkpoint(path, model, optimizer, epoch + 1)
wrong(restart_rank_0_loads, "only rank 0 loads; the others begin with epoch 0 and old weights", "every rank, load, rank 0")


def restart_a_file_for_each_rank(model, optimizer, train_epoch, epochs, path):
    mine = f"{path}.{dist.get_rank()}"
    first = load_checkpoint(mine, model, optimizer) if os.path.exists(mine) else 0
    for epoch in range(first, epochs):
        train_epoch(epoch)
        save_checkpoint(mine, model, optimizer, epoch + 1)
wrong(restart_a_file_for_each_rank, "a file per rank: one rank writes, so the others find none", "one file, path, rank")


def restart_without_random_states(model, optimizer, train_epoch, epochs, path):
    first = 0
    if os.path.exists(path):
        file = torch.load(path)
        model.module.load_state_dict(file["model"])
        first = file["epoch"]
    for epoch in range(first, epochs):
        train_epoch(epoch)
        if dist.get_rank() == 0:
            torch.save({"model": model.module.state_dict(), "epoch": epoch + 1}, path)
wrong(restart_without_random_states, "own file, written straight to path, optimizer forgotten, nobody waits", "half a file, optimizer, save_checkpoint")


def restart_counts_starts(model, optimizer, train_epoch, epochs, path):
    first = int(os.environ.get("TORCHELASTIC_RESTART_COUNT", 0))
    for epoch in range(first, epochs):
        train_epoch(epoch)
        save_checkpoint(path, model, optimizer, epoch + 1)
wrong(restart_counts_starts, "takes the number of the start for that of the epoch; loads nothing", "load, restart count, epoch")


def restart_ignores_the_epoch(model, optimizer, train_epoch, epochs, path):
    if os.path.exists(path):
        load_checkpoint(path, model, optimizer)
    for epoch in range(epochs):
        train_epoch(epoch)
        save_checkpoint(path, model, optimizer, epoch + 1)
wrong(restart_ignores_the_epoch, "loads the weights and begins with epoch 0", "twice, returned epoch, first epoch")


def restart_so_many_more(model, optimizer, train_epoch, epochs, path):
    first = load_checkpoint(path, model, optimizer) if os.path.exists(path) else 0
    for epoch in range(first, first + epochs):
        train_epoch(epoch)
        save_checkpoint(path, model, optimizer, epoch + 1)
wrong(restart_so_many_more, "as many epochs once more after a restart", "too many, range, epochs")


def restart_begins_clean(model, optimizer, train_epoch, epochs, path):
    if dist.get_rank() == 0 and os.path.exists(path):
        os.remove(path)
    dist.barrier()
    for epoch in range(epochs):
        train_epoch(epoch)
        save_checkpoint(path, model, optimizer, epoch + 1)
wrong(restart_begins_clean, "removes the file at the start", "load, removed, from 0")


def restart_cleans_up(model, optimizer, train_epoch, epochs, path):
    first = load_checkpoint(path, model, optimizer) if os.path.exists(path) else 0
    for epoch in range(first, epochs):
        train_epoch(epoch)
        save_checkpoint(path, model, optimizer, epoch + 1)
    dist.barrier()
    if dist.get_rank() == 0:
        os.remove(path)
wrong(restart_cleans_up, "removes the file at the end: killed right after it, all is done again", "removed, again, twice")


def restart_loads_in_every_epoch(model, optimizer, train_epoch, epochs, path):
    for epoch in range(epochs):
        if os.path.exists(path):
            load_checkpoint(path, model, optimizer)
        train_epoch(epoch)
        save_checkpoint(path, model, optimizer, epoch + 1)
wrong(restart_loads_in_every_epoch, "loads before each epoch, never skips one that is done", "twice, epoch, range")


def restart_last_epoch_forgotten(model, optimizer, train_epoch, epochs, path):
    first = load_checkpoint(path, model, optimizer) if os.path.exists(path) else 0
    for epoch in range(first, epochs - 1):
        train_epoch(epoch)
        save_checkpoint(path, model, optimizer, epoch + 1)
wrong(restart_last_epoch_forgotten, "the last epoch is left out", "left out, last epoch, range")
