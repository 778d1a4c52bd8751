import os
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional as F

RIGHT, WRONG = [], []


def right(answer, what):
    RIGHT.append((answer, what))


def wrong(answer, what, words):
    WRONG.append((answer, what, words))


import shutil
import tempfile
from pathlib import Path


def save_plain(path, model, optimizer, epoch):
    if dist.get_rank() == 0:
        new = path + ".new"
        torch.save({"model": model.module.state_dict(), "optimizer": optimizer.state_dict(), "epoch": epoch}, new)
        os.replace(new, path)
    dist.barrier()
right(save_plain, "the five lines")


def save_with_pathlib(path, model, optimizer, epoch):
    if not dist.get_rank():
        parts = dict(model=model.module.state_dict(), optimizer=optimizer.state_dict(), epoch=epoch)
        new = Path(path).with_name(f".{Path(path).name}.{os.getpid()}")
        torch.save(parts, new)
        new.replace(path)
    dist.barrier()
right(save_with_pathlib, "pathlib, a hidden name with the process number")


def save_temporary_file_and_fsync(path, model, optimizer, epoch):
    if dist.get_rank() == 0:
        folder = os.path.dirname(os.path.abspath(path))
        with tempfile.NamedTemporaryFile(dir=folder, delete=False) as file:
            torch.save({"model": model.module.state_dict(), "optimizer": optimizer.state_dict(), "epoch": epoch}, file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(file.name, path)
    dist.all_reduce(torch.zeros(1))
right(save_temporary_file_and_fsync, "NamedTemporaryFile in the same folder, fsync, an all_reduce as the barrier")


def save_by_the_last_rank(path, model, optimizer, epoch):
    state = {"epoch": epoch, "optimizer": optimizer.state_dict(), "model": model.module.state_dict()}
    if dist.get_rank() == dist.get_world_size() - 1:
        torch.save(state, f"{path}.part")
        os.replace(f"{path}.part", path)
    dist.barrier()
wrong(save_by_the_last_rank, "the last rank writes, and the lesson says rank 0", "rank 0 writes")


def save_barriers_before_and_after(path, model, optimizer, epoch):
    dist.barrier()
    if dist.get_rank() == 0:
        names = {name.removeprefix("module."): tensor for name, tensor in model.state_dict().items()}
        torch.save({"model": names, "optimizer": optimizer.state_dict(), "epoch": epoch}, path + "~")
        os.replace(path + "~", path)
    dist.barrier()
right(save_barriers_before_and_after, "takes the prefix off by hand; one barrier too many")


def save_told_by_an_object(path, model, optimizer, epoch):
    done = [None]
    if dist.get_rank() == 0:
        new = os.path.join(os.path.dirname(path), "new_" + os.path.basename(path))
        torch.save({"model": model.module.state_dict(), "optimizer": optimizer.state_dict(), "epoch": epoch}, new)
        os.replace(new, path)
        done = ["written"]
    dist.broadcast_object_list(done, src=0)
right(save_told_by_an_object, "rank 0 tells the others by broadcast_object_list when it is there")


def state_of(model, optimizer, epoch):
    return {"model": model.module.state_dict(), "optimizer": optimizer.state_dict(), "epoch": epoch}


def save_by_every_rank(path, model, optimizer, epoch):
    torch.save(state_of(model, optimizer, epoch), path + ".new")
    os.replace(path + ".new", path)
    dist.barrier()
wrong(save_by_every_rank, "all ranks write", "one rank, all ranks write")


def save_straight_to_path(path, model, optimizer, epoch):
    if dist.get_rank() == 0:
        torch.save(state_of(model, optimizer, epoch), path)
    dist.barrier()
wrong(save_straight_to_path, "half a file in place of the last good one", "half a file, another name, os.replace")


def save_without_a_barrier(path, model, optimizer, epoch):
    if dist.get_rank() == 0:
        torch.save(state_of(model, optimizer, epoch), path + ".new")
        os.replace(path + ".new", path)
wrong(save_without_a_barrier, "the others come back before the file is there", "barrier, others wait")


def save_barrier_too_early(path, model, optimizer, epoch):
    dist.barrier()
    if dist.get_rank() == 0:
        torch.save(state_of(model, optimizer, epoch), path + ".new")
        os.replace(path + ".new", path)
wrong(save_barrier_too_early, "the barrier comes before the writing", "barrier, after, before the file is there")


def save_barrier_on_rank_0(path, model, optimizer, epoch):
    if dist.get_rank() == 0:
        torch.save(state_of(model, optimizer, epoch), path + ".new")
        os.replace(path + ".new", path)
        dist.barrier()
wrong(save_barrier_on_rank_0, "the barrier is one indentation too deep", "barrier, rank 0 waits, every rank")


def save_with_the_wrappers_names(path, model, optimizer, epoch):
    if dist.get_rank() == 0:
        torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "epoch": epoch}, path + ".new")
        os.replace(path + ".new", path)
    dist.barrier()
wrong(save_with_the_wrappers_names, "names begin with module.", "module., wrapper, names")


def save_the_objects_themselves(path, model, optimizer, epoch):
    if dist.get_rank() == 0:
        torch.save({"model": model.module, "optimizer": optimizer, "epoch": epoch}, path + ".new")
        os.replace(path + ".new", path)
    dist.barrier()
wrong(save_the_objects_themselves, "model and optimizer instead of their state_dict()", "state_dict")


def save_on_local_rank_0(path, model, optimizer, epoch):
    if int(os.environ.get("LOCAL_RANK", 0)) == 0:
        torch.save(state_of(model, optimizer, epoch), path + ".new")
        os.replace(path + ".new", path)
    dist.barrier()
wrong(save_on_local_rank_0, "the local rank: on each machine one writes", "local rank, one rank, get_rank")


def save_on_gpu_id_0(path, model, optimizer, epoch):
    gpu_id = dist.get_rank() % 2
    if gpu_id == 0:
        torch.save(state_of(model, optimizer, epoch), f"{path}.{dist.get_rank()}")
        os.replace(f"{path}.{dist.get_rank()}", path)
    dist.barrier()
wrong(save_on_gpu_id_0, "every second rank writes", "one rank, ranks 0 and 2 write")


def save_from_another_disk(path, model, optimizer, epoch):
    if dist.get_rank() == 0:
        new = os.path.join(tempfile.gettempdir(), os.path.basename(path) + ".new")
        torch.save(state_of(model, optimizer, epoch), new)
        shutil.move(new, path)
    dist.barrier()
wrong(save_from_another_disk, "written elsewhere and moved: on another disk that is a copy, not at once", "same folder, disk, at once")


def save_and_copy(path, model, optimizer, epoch):
    if dist.get_rank() == 0:
        torch.save(state_of(model, optimizer, epoch), path + ".new")
        shutil.copyfile(path + ".new", path)
        os.remove(path + ".new")
    dist.barrier()
wrong(save_and_copy, "copies over the good file: half a file is possible", "os.replace, at once, copy, half")


def save_after_removing_the_old(path, model, optimizer, epoch):
    if dist.get_rank() == 0:
        if os.path.exists(path):
            os.remove(path)
        torch.save(state_of(model, optimizer, epoch), path + ".new")
        os.replace(path + ".new", path)
    dist.barrier()
wrong(save_after_removing_the_old, "the last good file is gone before the new one is complete", "last good file, stays, removed")


def save_and_hope(path, model, optimizer, epoch):
    if dist.get_rank() == 0:
        torch.save(state_of(model, optimizer, epoch), path + ".new")
        os.replace(path + ".new", path)
    else:
        time.sleep(0.5)
wrong(save_and_hope, "the others sleep instead of a barrier", "barrier, sleep, wait")


def save_others_look_for_the_file(path, model, optimizer, epoch):
    if dist.get_rank() == 0:
        torch.save(state_of(model, optimizer, epoch), path + ".new")
        os.replace(path + ".new", path)
    while not os.path.exists(path):
        time.sleep(0.01)
wrong(save_others_look_for_the_file, "the file of the last epoch is there already, so nobody waits", "barrier, old file, exists")


def save_without_the_optimizer(path, model, optimizer, epoch):
    if dist.get_rank() == 0:
        torch.save({"model": model.module.state_dict(), "epoch": epoch}, path + ".new")
        os.replace(path + ".new", path)
    dist.barrier()
wrong(save_without_the_optimizer, "the optimizer is forgotten", "optimizer, momentum")


def save_the_next_epoch(path, model, optimizer, epoch):
    if dist.get_rank() == 0:
        torch.save(state_of(model, optimizer, epoch + 1), path + ".new")
        os.replace(path + ".new", path)
    dist.barrier()
wrong(save_the_next_epoch, "writes epoch + 1", "epoch, as given")


def save_never_renamed(path, model, optimizer, epoch):
    if dist.get_rank() == 0:
        torch.save(state_of(model, optimizer, epoch), path + ".new")
    dist.barrier()
wrong(save_never_renamed, "forgets os.replace", "os.replace, file is not there, rename")
