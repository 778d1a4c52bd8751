"""Answers to the exercise of saving a checkpoint, in other styles, and wrong ones that are nobody's listed mistake."""

from __future__ import annotations

import io
import os
import shutil
import tempfile
import time
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist


def content_of(model: Any, optimizer: Any, epoch: int) -> dict[str, Any]:
    return {"model": model.module.state_dict(), "optimizer": optimizer.state_dict(), "epoch": epoch}


def write(path: str, content: Any) -> None:
    torch.save(content, f"{path}.tmp")
    os.replace(f"{path}.tmp", path)


def with_a_temporary_file(path: str, model: Any, optimizer: Any, epoch: int) -> str:
    if dist.get_rank() == 0:
        with tempfile.NamedTemporaryFile(dir=os.path.dirname(path), delete=False) as file:
            try:
                torch.save(content_of(model, optimizer, epoch) | {"seed": 5}, file)
            except BaseException:
                os.unlink(file.name)
                raise
        shutil.move(file.name, path)
    dist.monitored_barrier()
    return path


def without_open_files(path: str, model: Any, optimizer: Any, epoch: int) -> None:
    dist.barrier()
    if not dist.get_rank():
        torch.save(content_of(model, optimizer, epoch), stream := io.BytesIO())
        unfinished = Path(path).with_suffix(".unfinished")
        unfinished.write_bytes(stream.getvalue())
        unfinished.rename(path)
    dist.barrier(async_op=True).wait()


def only_rank_0_does_not_return(path: str, model: Any, optimizer: Any, epoch: int) -> None:
    if dist.get_rank() > 0:
        dist.recv(torch.empty(1), src=0)
        return
    write(path, content_of(model, optimizer, epoch))
    for other in range(1, dist.get_world_size()):
        dist.send(torch.ones(1), other)


def in_place(path: str, model: Any, optimizer: Any, epoch: int) -> None:
    if dist.get_rank() == 0:
        torch.save(content_of(model, optimizer, epoch), path)
    dist.barrier()


def first_of_its_node(path: str, model: Any, optimizer: Any, epoch: int) -> None:
    if os.environ["LOCAL_RANK"] == "0":
        write(path, content_of(model, optimizer, epoch))
    dist.barrier()


def others_sleep(path: str, model: Any, optimizer: Any, epoch: int) -> None:
    """No sleep is long enough."""
    if dist.get_rank() == 0:
        write(path, content_of(model, optimizer, epoch))
    else:
        time.sleep(0.3)


def from_another_folder(path: str, model: Any, optimizer: Any, epoch: int) -> None:
    if dist.get_rank() == 0:
        with tempfile.TemporaryDirectory() as folder:
            torch.save(content_of(model, optimizer, epoch), f"{folder}/new")
            os.replace(f"{folder}/new", path)
    dist.barrier()


def leaves_a_file(path: str, model: Any, optimizer: Any, epoch: int) -> None:
    if dist.get_rank() == 0:
        write(path, content_of(model, optimizer, epoch))
        Path(f"{path}.done").touch()
    dist.barrier()


RIGHT = {"save_checkpoint": [with_a_temporary_file, without_open_files, only_rank_0_does_not_return]}
WRONG = {
    "save_checkpoint": [
        (in_place, "there is no complete checkpoint to restart from"),
        (first_of_its_node, "two ranks have LOCAL_RANK 0"),
        (others_sleep, "returns before the checkpoint is written"),
        (from_another_folder, "The new file is in another folder"),
        (leaves_a_file, "Your function leaves another file next to the checkpoint."),
    ]
}
