"""Answers to the exercise `save_checkpoint`: right ones, and wrong ones with words of their sentences."""

# mypy: disable-error-code="no-any-return"
from __future__ import annotations

import contextlib
import errno
import io
import os
import pickle
import random
import shutil
import tempfile
import time
from pathlib import Path
from typing import Any

import torch
import torch.distributed

dist: Any = torch.distributed


def content_of(model: Any, optimizer: Any, epoch: int) -> dict[str, Any]:
    return {"model": model.module.state_dict(), "optimizer": optimizer.state_dict(), "epoch": epoch}


# right


def rename_and_barrier(path: Any, model: Any, optimizer: Any, epoch: int) -> None:
    if dist.get_rank() == 0:
        torch.save(content_of(model, optimizer, epoch), path + ".tmp")
        os.replace(path + ".tmp", path)
    dist.barrier()


def with_paths(path: Any, model: Any, optimizer: Any, epoch: int) -> None:
    if dist.get_rank() == 0:
        unfinished = Path(path).with_suffix(".unfinished")
        torch.save(content_of(model, optimizer, epoch), unfinished)
        unfinished.rename(path)
    dist.barrier()


def with_slashes(path: Any, model: Any, optimizer: Any, epoch: int) -> None:
    if dist.get_rank() == 0:
        folder = Path(path).parent
        torch.save(content_of(model, optimizer, epoch), folder / "unfinished")
        os.rename(folder / "unfinished", path)
    dist.barrier()


def with_a_temporary_file(path: Any, model: Any, optimizer: Any, epoch: int) -> str:
    if dist.get_rank() == 0:
        with tempfile.NamedTemporaryFile(dir=os.path.dirname(path), delete=False) as file:
            try:
                torch.save(content_of(model, optimizer, epoch), file)
                file.flush()
                os.fsync(file.fileno())
            except BaseException:
                os.unlink(file.name)
                raise
        shutil.move(file.name, path)
    dist.monitored_barrier()
    return path


def names_cut_short(path: Any, model: Any, optimizer: Any, epoch: int) -> None:
    names = {name.removeprefix("module."): value for name, value in model.state_dict().items()}
    if dist.get_rank() == 0:
        stream = io.BytesIO()
        torch.save({"model": names, "optimizer": optimizer.state_dict(), "epoch": epoch, "seed": 5}, stream)
        Path(f"{path}.part").write_bytes(stream.getvalue())
        os.replace(f"{path}.part", path)
    dist.barrier()


def told_by_a_broadcast(path: Any, model: Any, optimizer: Any, epoch: int) -> None:
    if dist.get_rank() == 0:
        with open(path + "~", "wb") as file:
            torch.save(content_of(model, optimizer, epoch) | {"epoch": torch.tensor(epoch)}, file)
        os.replace(path + "~", path)
    dist.broadcast(torch.zeros(1), src=0)


def with_random_states_of_all(path: Any, model: Any, optimizer: Any, epoch: int) -> None:
    states: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(states, (torch.get_rng_state(), random.getstate()))
    if dist.get_rank() == 0:
        torch.save(content_of(model, optimizer, epoch) | {"states": states}, path + ".tmp")
        os.replace(path + ".tmp", path)
    dist.barrier()


def everyone_makes_the_folder(path: Any, model: Any, optimizer: Any, epoch: int) -> None:
    """And reads it again, since it can."""
    os.makedirs(os.path.dirname(path), exist_ok=True)
    rename_and_barrier(path, model, optimizer, epoch)
    assert torch.load(path, weights_only=True)["epoch"] == epoch


def errors_go_to_all(path: Any, model: Any, optimizer: Any, epoch: int) -> None:
    trouble = [""]
    if dist.get_rank() == 0:
        try:
            torch.save(content_of(model, optimizer, epoch), path + ".tmp")
            os.replace(path + ".tmp", path)
        except Exception as error:
            with contextlib.suppress(FileNotFoundError):
                os.remove(path + ".tmp")
            trouble = [str(error)]
    dist.broadcast_object_list(trouble)
    if trouble[0]:
        raise OSError(trouble[0])


def only_rank_0_does_not_return(path: Any, model: Any, optimizer: Any, epoch: int) -> None:
    """The others wait for a message each."""
    if dist.get_rank() > 0:
        dist.recv(torch.empty(1), src=0)
        return
    write(path, content_of(model, optimizer, epoch))
    for other in range(1, dist.get_world_size()):
        dist.send(torch.ones(1), other)


def in_the_background(path: Any, model: Any, optimizer: Any, epoch: int) -> None:
    if dist.get_rank() == 0:
        write(path, content_of(model, optimizer, epoch))
    work = dist.barrier(async_op=True)
    work.wait()


def a_barrier_on_both_sides(path: Any, model: Any, optimizer: Any, epoch: int) -> None:
    dist.barrier()
    if not dist.get_rank():
        write(path, content_of(model, optimizer, epoch))
    dist.barrier()


def without_open_files(path: Any, model: Any, optimizer: Any, epoch: int) -> None:
    stream = io.BytesIO()
    torch.save(content_of(model, optimizer, epoch), stream)
    if dist.get_rank() == 0:
        place = os.open(path + ".new", os.O_CREAT | os.O_WRONLY)
        try:
            rest = stream.getvalue()
            while rest:
                rest = rest[os.write(place, rest) :]
        finally:
            os.close(place)
        os.rename(path + ".new", path)
    dist.barrier()


def in_an_older_format(path: Any, model: Any, optimizer: Any, epoch: int) -> None:
    if dist.get_rank() == 0:
        torch.save(content_of(model, optimizer, epoch), path + ".tmp", _use_new_zipfile_serialization=False)
        os.replace(path + ".tmp", path)
    dist.barrier()


def rank_0_tells_how_it_went(path: Any, model: Any, optimizer: Any, epoch: int) -> None:
    done = torch.zeros(1)
    if dist.get_rank() == 0:
        write(path, content_of(model, optimizer, epoch))
        done += 1
    dist.all_reduce(done)
    assert done.item() == 1


def polls_for_what_is_in_it(path: Any, model: Any, optimizer: Any, epoch: int) -> None:
    """One file is replaced by another at once, so a reader sees the old or the new one."""
    if dist.get_rank() == 0:
        write(path, content_of(model, optimizer, epoch))
    while not os.path.exists(path) or torch.load(path, weights_only=True)["epoch"] != epoch:
        time.sleep(0.01)


RIGHT = [
    *(only_rank_0_does_not_return, in_the_background, a_barrier_on_both_sides, without_open_files),
    *(in_an_older_format, rank_0_tells_how_it_went, polls_for_what_is_in_it),
    rename_and_barrier,
    with_paths,
    with_slashes,
    with_a_temporary_file,
    names_cut_short,
    told_by_a_broadcast,
    with_random_states_of_all,
    everyone_makes_the_folder,
    errors_go_to_all,
]


# wrong


def write(path: Any, content: Any) -> None:
    """The right way to write: what is wrong is elsewhere."""
    torch.save(content, f"{path}.tmp")
    os.replace(f"{path}.tmp", path)


def everything_in_one_dict(path: Any, model: Any, optimizer: Any, epoch: int) -> None:
    if dist.get_rank() == 0:
        both = {"epoch": epoch, "optimizer": optimizer.state_dict(), **model.module.state_dict()}
        torch.save(both, path + ".tmp", _use_new_zipfile_serialization=False)
        os.replace(path + ".tmp", path)
    dist.barrier()


def sleeps(path: Any, model: Any, optimizer: Any, epoch: int) -> None:
    if dist.get_rank() == 0:
        write(path, content_of(model, optimizer, epoch))
    else:
        time.sleep(0.5)


def sleeps_for_long(path: Any, model: Any, optimizer: Any, epoch: int) -> None:
    if dist.get_rank() == 0:
        write(path, content_of(model, optimizer, epoch))
    time.sleep(1.5)


def sleeps_behind_an_early_barrier(path: Any, model: Any, optimizer: Any, epoch: int) -> None:
    dist.barrier()
    if dist.get_rank() == 0:
        write(path, content_of(model, optimizer, epoch))
    else:
        time.sleep(0.3)


def never_waits_for_its_barrier(path: Any, model: Any, optimizer: Any, epoch: int) -> None:
    if dist.get_rank() == 0:
        write(path, content_of(model, optimizer, epoch))
    dist.barrier(async_op=True)
    time.sleep(0.2)


def a_path_without_pathlib(path: Any, model: Any, optimizer: Any, epoch: int) -> None:
    if dist.get_rank() == 0:
        unfinished = path.with_suffix(".unfinished")
        torch.save(content_of(model, optimizer, epoch), unfinished)
        unfinished.rename(path)
    dist.barrier()


def a_slash_without_pathlib(path: Any, model: Any, optimizer: Any, epoch: int) -> None:
    if dist.get_rank() == 0:
        write(path / "checkpoint.pt", content_of(model, optimizer, epoch))
    dist.barrier()


def the_next_epoch(path: Any, model: Any, optimizer: Any, epoch: int) -> None:
    if dist.get_rank() == 0:
        write(path, content_of(model, optimizer, epoch + 1))
    dist.barrier()


def other_keys(path: Any, model: Any, optimizer: Any, epoch: int) -> None:
    if dist.get_rank() == 0:
        write(path, {"net": model.module.state_dict(), "optimizer": optimizer.state_dict(), "epoch": epoch})
    dist.barrier()


def a_tuple(path: Any, model: Any, optimizer: Any, epoch: int) -> None:
    if dist.get_rank() == 0:
        write(path, (model.module.state_dict(), optimizer.state_dict(), epoch))
    dist.barrier()


def one_level_too_deep(path: Any, model: Any, optimizer: Any, epoch: int) -> None:
    if dist.get_rank() == 0:
        states = {"state_dict": model.module.state_dict()}
        write(path, content_of(model, optimizer, epoch) | {"model": states})
    dist.barrier()


def keys_confused(path: Any, model: Any, optimizer: Any, epoch: int) -> None:
    if dist.get_rank() == 0:
        content = {"model": optimizer.state_dict(), "optimizer": model.module.state_dict(), "epoch": epoch}
        write(path, content)
    dist.barrier()


def the_epoch_in_words(path: Any, model: Any, optimizer: Any, epoch: int) -> None:
    if dist.get_rank() == 0:
        write(path, content_of(model, optimizer, epoch) | {"epoch": f"epoch {epoch}"})
    dist.barrier()


def without_calling_state_dict(path: Any, model: Any, optimizer: Any, epoch: int) -> None:
    if dist.get_rank() == 0:
        write(path, content_of(model, optimizer, epoch) | {"optimizer": optimizer.state})
    dist.barrier()


def three_files(path: Any, model: Any, optimizer: Any, epoch: int) -> None:
    if dist.get_rank() == 0:
        for name, part in content_of(model, optimizer, epoch).items():
            write(f"{path}.{name}", part)
    dist.barrier()


def writes_over_the_old_one_when_there_is_one(path: Any, model: Any, optimizer: Any, epoch: int) -> None:
    if dist.get_rank() == 0:
        if os.path.exists(path):
            torch.save(content_of(model, optimizer, epoch), path)
        else:
            write(path, content_of(model, optimizer, epoch))
    dist.barrier()


def each_rank_its_own_file(path: Any, model: Any, optimizer: Any, epoch: int) -> None:
    write(f"{path}.{dist.get_rank()}", content_of(model, optimizer, epoch))
    dist.barrier()


def every_rank_writes(path: Any, model: Any, optimizer: Any, epoch: int) -> None:
    torch.save(content_of(model, optimizer, epoch), path)
    dist.barrier()


def every_rank_renames(path: Any, model: Any, optimizer: Any, epoch: int) -> None:
    write(path, content_of(model, optimizer, epoch))
    dist.barrier()


def every_rank_writes_what_is_its_own(path: Any, model: Any, optimizer: Any, epoch: int) -> None:
    own = f"{path}.{dist.get_rank()}"
    with open(own, "wb") as file:
        torch.save(content_of(model, optimizer, epoch), file)
    os.replace(own, path)
    dist.barrier()


def first_of_its_machine(path: Any, model: Any, optimizer: Any, epoch: int) -> None:
    if int(os.environ["LOCAL_RANK"]) == 0:
        write(path, content_of(model, optimizer, epoch))
    dist.barrier()


def first_of_its_node(path: Any, model: Any, optimizer: Any, epoch: int) -> None:
    if dist.get_node_local_rank() == 0:
        write(path, content_of(model, optimizer, epoch))
    dist.barrier()


def the_last_rank_writes(path: Any, model: Any, optimizer: Any, epoch: int) -> None:
    if dist.get_rank() == dist.get_world_size() - 1:
        write(path, content_of(model, optimizer, epoch))
    dist.barrier()


def nobody_waits(path: Any, model: Any, optimizer: Any, epoch: int) -> None:
    if dist.get_rank() == 0:
        write(path, content_of(model, optimizer, epoch))


def the_barrier_comes_first(path: Any, model: Any, optimizer: Any, epoch: int) -> None:
    dist.barrier()
    if dist.get_rank() == 0:
        write(path, content_of(model, optimizer, epoch))


def renames_behind_the_barrier(path: Any, model: Any, optimizer: Any, epoch: int) -> None:
    if dist.get_rank() == 0:
        torch.save(content_of(model, optimizer, epoch), path + ".tmp")
    dist.barrier()
    if dist.get_rank() == 0:
        os.replace(path + ".tmp", path)


def waits_for_any_file(path: Any, model: Any, optimizer: Any, epoch: int) -> None:
    nobody_waits(path, model, optimizer, epoch)
    while not os.path.exists(path):
        pass


def with_the_wrappers_names(path: Any, model: Any, optimizer: Any, epoch: int) -> None:
    if dist.get_rank() == 0:
        write(path, content_of(model, optimizer, epoch) | {"model": model.state_dict()})
    dist.barrier()


def the_whole_model(path: Any, model: Any, optimizer: Any, epoch: int) -> None:
    if dist.get_rank() == 0:
        write(path, content_of(model, optimizer, epoch) | {"model": model.module})
    dist.barrier()


def the_whole_wrapper(path: Any, model: Any, optimizer: Any, epoch: int) -> None:
    if dist.get_rank() == 0:
        write(path, {"model": model, "optimizer": optimizer, "epoch": epoch})
    dist.barrier()


def the_whole_optimizer(path: Any, model: Any, optimizer: Any, epoch: int) -> None:
    if dist.get_rank() == 0:
        write(path, content_of(model, optimizer, epoch) | {"optimizer": optimizer})
    dist.barrier()


def with_a_path_in_it(path: Any, model: Any, optimizer: Any, epoch: int) -> None:
    if dist.get_rank() == 0:
        write(path, content_of(model, optimizer, epoch) | {"where": Path("checkpoint.pt")})
    dist.barrier()


def without_the_optimizer(path: Any, model: Any, optimizer: Any, epoch: int) -> None:
    if dist.get_rank() == 0:
        write(path, {"model": model.module.state_dict(), "epoch": epoch})
    dist.barrier()


def only_the_model(path: Any, model: Any, optimizer: Any, epoch: int) -> None:
    if dist.get_rank() == 0:
        write(path, model.module.state_dict())
    dist.barrier()


def a_new_optimizer(path: Any, model: Any, optimizer: Any, epoch: int) -> None:
    if dist.get_rank() == 0:
        new = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
        write(path, content_of(model, new, epoch))
    dist.barrier()


def without_the_epoch(path: Any, model: Any, optimizer: Any, epoch: int) -> None:
    if dist.get_rank() == 0:
        write(path, {"model": model.module.state_dict(), "optimizer": optimizer.state_dict()})
    dist.barrier()


def always_epoch_0(path: Any, model: Any, optimizer: Any, epoch: int) -> None:
    if dist.get_rank() == 0:
        write(path, content_of(model, optimizer, 0))
    dist.barrier()


def without_buffers(path: Any, model: Any, optimizer: Any, epoch: int) -> None:
    if dist.get_rank() == 0:
        weights = {name: parameter.detach() for name, parameter in model.module.named_parameters()}
        write(path, content_of(model, optimizer, epoch) | {"model": weights})
    dist.barrier()


def without_names(path: Any, model: Any, optimizer: Any, epoch: int) -> None:
    if dist.get_rank() == 0:
        write(path, content_of(model, optimizer, epoch) | {"model": [p.detach() for p in model.parameters()]})
    dist.barrier()


def straight_to_the_path(path: Any, model: Any, optimizer: Any, epoch: int) -> None:
    if dist.get_rank() == 0:
        torch.save(content_of(model, optimizer, epoch), path)
    dist.barrier()


def straight_to_an_open_file(path: Any, model: Any, optimizer: Any, epoch: int) -> None:
    if dist.get_rank() == 0:
        with open(path, "wb") as file:
            torch.save(content_of(model, optimizer, epoch), file)
    dist.barrier()


def removes_the_old_one_first(path: Any, model: Any, optimizer: Any, epoch: int) -> None:
    if dist.get_rank() == 0:
        torch.save(content_of(model, optimizer, epoch), path + ".tmp")
        if os.path.exists(path):
            os.remove(path)
        os.rename(path + ".tmp", path)
    dist.barrier()


def copies_it_there(path: Any, model: Any, optimizer: Any, epoch: int) -> None:
    if dist.get_rank() == 0:
        torch.save(content_of(model, optimizer, epoch), path + ".tmp")
        shutil.copy(path + ".tmp", path)
        os.remove(path + ".tmp")
    dist.barrier()


def keeps_a_copy_and_writes_into_it(path: Any, model: Any, optimizer: Any, epoch: int) -> None:
    if dist.get_rank() == 0:
        if os.path.exists(path):
            os.replace(path, path + ".old")
        torch.save(content_of(model, optimizer, epoch), path)
        with contextlib.suppress(FileNotFoundError):
            os.remove(path + ".old")
    dist.barrier()


def renames_in_any_case(path: Any, model: Any, optimizer: Any, epoch: int) -> None:
    if dist.get_rank() == 0:
        try:
            torch.save(content_of(model, optimizer, epoch), path + ".tmp")
        finally:
            os.replace(path + ".tmp", path)
    dist.barrier()


def leaves_a_link(path: Any, model: Any, optimizer: Any, epoch: int) -> None:
    if dist.get_rank() == 0:
        torch.save(content_of(model, optimizer, epoch), path + ".tmp")
        os.link(path + ".tmp", path + ".new")
        os.replace(path + ".new", path)
    dist.barrier()


def somewhere_else(path: Any, model: Any, optimizer: Any, epoch: int) -> None:
    if dist.get_rank() == 0:
        torch.save(content_of(model, optimizer, epoch), "checkpoint.pt")
    dist.barrier()


def renames_from_the_working_directory(path: Any, model: Any, optimizer: Any, epoch: int) -> None:
    if dist.get_rank() == 0:
        torch.save(content_of(model, optimizer, epoch), "new.pt")
        os.replace("new.pt", path)
    dist.barrier()


def moves_from_the_folder_for_temporary_files(path: Any, model: Any, optimizer: Any, epoch: int) -> None:
    if dist.get_rank() == 0:
        with tempfile.NamedTemporaryFile(delete=False) as file:
            torch.save(content_of(model, optimizer, epoch), file)
        shutil.move(file.name, path)
    dist.barrier()


def renames_from_another_disk(path: Any, model: Any, optimizer: Any, epoch: int) -> None:
    if dist.get_rank() == 0:
        raise OSError(errno.EXDEV, "Invalid cross-device link", "/elsewhere/new.pt", None, path)
    dist.barrier()


def by_another_name(path: Any, model: Any, optimizer: Any, epoch: int) -> None:
    if dist.get_rank() == 0:
        write(f"{path}.pt", content_of(model, optimizer, epoch))
    dist.barrier()


def pickled(path: Any, model: Any, optimizer: Any, epoch: int) -> None:
    if dist.get_rank() == 0:
        with open(path + ".tmp", "wb") as file:
            pickle.dump(content_of(model, optimizer, epoch), file)
        os.replace(path + ".tmp", path)
    dist.barrier()


def only_a_barrier(path: Any, model: Any, optimizer: Any, epoch: int) -> None:
    dist.barrier()


WRONG = [
    (everything_in_one_dict, 'The file has no key "model". Save a dictionary with'),
    (
        sleeps,
        "Rank 1 returns before the checkpoint is written. After the write, call "
        "dist.barrier() on every rank, not only on the one that writes",
    ),
    (
        sleeps_for_long,
        "Rank 1 returns before the checkpoint is written. After the write, call "
        "dist.barrier() on every rank, not only on the one that writes",
    ),
    (
        sleeps_behind_an_early_barrier,
        "Rank 1 returns before the checkpoint is written. After the write, call "
        "dist.barrier() on every rank, not only on the one that writes",
    ),
    (
        never_waits_for_its_barrier,
        "Rank 1 returns before the checkpoint is written. After the write, call "
        "dist.barrier() on every rank, not only on the one that writes",
    ),
    (a_path_without_pathlib, "`path` is a str, not a pathlib.Path"),
    (a_slash_without_pathlib, "`path` is a str, not a pathlib.Path"),
    (the_next_epoch, "The file says epoch 18, but your function was called with 17. Save `epoch` unchanged"),
    (other_keys, 'The file has no key "model". Save a dictionary with "model", "optimizer" and'),
    (a_tuple, 'The file holds a tuple. Save a dictionary with "model", "optimizer" and "epoch"'),
    (one_level_too_deep, 'The key "model" does not hold model.state_dict()'),
    (keys_confused, 'The key "model" does not hold model.state_dict()'),
    (the_epoch_in_words, "The epoch is missing from the file"),
    (without_calling_state_dict, "torch.load with weights_only=True refuses an object of type defaultdict"),
    (three_files, "There is no file at the given path when it returns"),
    (
        writes_over_the_old_one_when_there_is_one,
        "During the write there is no complete checkpoint to restart from",
    ),
    (
        each_rank_its_own_file,
        "Ranks other than 0 write the checkpoint. All ranks hold the same model, so write only if dist.get_rank() == 0",
    ),
    (
        every_rank_writes,
        "Ranks other than 0 write the checkpoint. All ranks hold the same model, so write only if dist.get_rank() == 0",
    ),
    (
        every_rank_renames,
        "Ranks other than 0 write the checkpoint. All ranks hold the same model, so write only if dist.get_rank() == 0",
    ),
    (
        every_rank_writes_what_is_its_own,
        "Ranks other than 0 write the checkpoint. All ranks hold the same model, so write only if dist.get_rank() == 0",
    ),
    (first_of_its_machine, "With two nodes, two ranks have LOCAL_RANK 0, and both write"),
    (first_of_its_node, "With two nodes, two ranks have LOCAL_RANK 0, and both write"),
    (
        the_last_rank_writes,
        "Ranks other than 0 write the checkpoint. All ranks hold the same model, so write only if dist.get_rank() == 0",
    ),
    (
        nobody_waits,
        "Rank 1 returns before the checkpoint is written. After the write, call "
        "dist.barrier() on every rank, not only on the one that writes",
    ),
    (
        the_barrier_comes_first,
        "Rank 1 returns before the checkpoint is written. After the write, call "
        "dist.barrier() on every rank, not only on the one that writes",
    ),
    (
        renames_behind_the_barrier,
        "Rank 1 returns before the checkpoint is written. After the write, call "
        "dist.barrier() on every rank, not only on the one that writes",
    ),
    (
        waits_for_any_file,
        "Rank 1 returns before the checkpoint is written. After the write, call "
        "dist.barrier() on every rank, not only on the one that writes",
    ),
    (with_the_wrappers_names, 'The names in the file start with "module.", which is the DDP wrapper'),
    (the_whole_model, "It saves the whole model, which can only be loaded with its code"),
    (the_whole_wrapper, "It saves the whole model, which can only be loaded with its code"),
    (the_whole_optimizer, "It saves the whole optimizer, which can only be loaded with its code"),
    (with_a_path_in_it, "torch.load with weights_only=True refuses an object of type"),
    (
        without_the_optimizer,
        "The optimizer state (the momentum) is missing from the file. Save optimizer.state_dict() too",
    ),
    (only_the_model, "The optimizer state (the momentum) is missing from the file"),
    (
        a_new_optimizer,
        "The optimizer state in the file differs from that of the given optimizer. Save optimizer.state_dict()",
    ),
    (without_the_epoch, "The epoch is missing from the file"),
    (always_epoch_0, "The epoch is missing from the file"),
    (without_buffers, "The buffer norm.running_mean is missing from the file"),
    (without_names, "The model's weights are missing from the file"),
    (
        straight_to_the_path,
        "It works for a first checkpoint, but fails for one that replaces another: during the write there is "
        "no complete checkpoint to restart from",
    ),
    (straight_to_an_open_file, "During the write there is no complete checkpoint to restart from"),
    (removes_the_old_one_first, "The old checkpoint is deleted before the new one is in place"),
    (copies_it_there, "During the write there is no complete checkpoint to restart from"),
    (
        keeps_a_copy_and_writes_into_it,
        "During the write there is no complete checkpoint to restart from",
    ),
    (renames_in_any_case, "An interrupted write destroys the last good checkpoint"),
    (leaves_a_link, "It leaves another file next to the checkpoint"),
    (somewhere_else, "No rank writes a file at the given path or next to it"),
    (
        renames_from_the_working_directory,
        "The new file is in another folder, so it cannot be renamed if that folder is on another disk",
    ),
    (moves_from_the_folder_for_temporary_files, 'Write it next to the checkpoint, as path + ".new"'),
    (
        renames_from_another_disk,
        "The new file is in another folder, so it cannot be renamed if that folder is on another disk",
    ),
    (by_another_name, "There is no file at the given path when it returns"),
    (pickled, "torch.load cannot read the file. Write it with torch.save"),
    (only_a_barrier, "No rank writes a file at the given path or next to it"),
]


# hanging


def only_rank_0_waits(path: Any, model: Any, optimizer: Any, epoch: int) -> None:
    if dist.get_rank() == 0:
        write(path, content_of(model, optimizer, epoch))
        dist.barrier()


def the_others_go_home(path: Any, model: Any, optimizer: Any, epoch: int) -> None:
    if dist.get_rank() != 0:
        return
    write(path, content_of(model, optimizer, epoch))
    dist.barrier()


def rank_0_asks_for_the_states(path: Any, model: Any, optimizer: Any, epoch: int) -> None:
    if dist.get_rank() == 0:
        states: list[Any] = [None] * dist.get_world_size()
        dist.all_gather_object(states, torch.get_rng_state())
        write(path, content_of(model, optimizer, epoch) | {"states": states})


HANGING = [
    (
        only_rank_0_waits,
        "Rank 1 returns before the checkpoint is written. After the write, call "
        "dist.barrier() on every rank, not only on the one that writes",
    ),
    (
        the_others_go_home,
        "Rank 1 returns before the checkpoint is written. After the write, call "
        "dist.barrier() on every rank, not only on the one that writes",
    ),
    (rank_0_asks_for_the_states, "Not every rank calls all_gather_object, so the ranks that call it wait forever"),
]
