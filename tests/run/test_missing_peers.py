"""A rank that does not exist is named at once, whatever the call and whoever makes it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.distributed as dist
from nights import by_day

from ddp_lessons import WorkerFailed, Workers, check, launch

Function = Callable[[int, int], Any]


def send_past_the_last(rank: int, world_size: int) -> None:
    if rank == world_size - 1:
        dist.send(torch.ones(1), rank + 1)


def receive_from_before_the_first(rank: int, world_size: int) -> None:
    if rank == 0:
        dist.recv(torch.zeros(1), rank - 1)


def chain(rank: int, world_size: int) -> None:
    token = torch.zeros(1)
    dist.recv(token, rank - 1)
    dist.send(token, rank + 1)


def isend(rank: int, world_size: int) -> None:
    if rank == 0:
        dist.isend(torch.ones(1), 3)
    dist.barrier()


def irecv(rank: int, world_size: int) -> None:
    dist.irecv(torch.ones(1), -1)


def objects(rank: int, world_size: int) -> None:
    if rank == 0:
        dist.send_object_list(["a"], 3)


def objects_from_nobody(rank: int, world_size: int) -> None:
    if rank == 0:
        dist.recv_object_list([None], -1)


def batch(rank: int, world_size: int) -> None:
    dist.batch_isend_irecv([dist.P2POp(dist.isend, torch.ones(1), 3)])


def in_a_group(rank: int, world_size: int) -> None:
    group: Any = dist.new_group([0, 1])
    if rank == 0:
        dist.send(torch.ones(1), group=group, group_dst=2)


@pytest.mark.parametrize(
    ("function", "missing"),
    by_day(
        [
            (send_past_the_last, "no rank 3 in a world of 3"),
            (receive_from_before_the_first, "no rank -1 in a world of 3"),
            (chain, "no rank -1 in a world of 3"),
            (isend, "no rank 3 in a world of 3"),
            (irecv, "no rank -1 in a world of 3"),
            (objects, "no rank 3 in a world of 3"),
            (objects_from_nobody, "no rank -1 in a world of 3"),
            (batch, "no rank 3 in a world of 3"),
            (in_a_group, "no rank 2 in this group of 2"),
        ],
        4,
    ),
)
def test_a_peer_that_does_not_exist_is_named_at_once(function: Function, missing: str) -> None:
    with pytest.raises(WorkerFailed, match=f"raised ValueError: there is {missing}") as failed:
        launch(function, 3, quiet=True)
    assert "    test_missing_peers.py line " in str(failed.value)
    assert "(rank + 1) % world_size" in str(failed.value).partition("Next: ")[2]


@pytest.mark.parametrize("root", [-1, 3])
def test_a_root_that_does_not_exist_is_named_with_what_to_do(root: int) -> None:
    def function(rank: int, world_size: int) -> None:
        dist.broadcast(torch.ones(1), root)

    with pytest.raises(
        WorkerFailed,
        match=rf"invalid root rank: {root}\n(.|\n)*Next: pass a rank from 0 to world_size - 1 as src or dst",
    ):
        launch(function, 3, quiet=True)


def test_ranks_that_stay_go_on_after_it() -> None:
    def shake_hands(rank: int, world_size: int) -> float:
        tensor = torch.zeros(1)
        dist.send(torch.ones(1), 1) if rank == 0 else dist.recv(tensor, 0)
        return tensor.item()

    with Workers(2, standing=True, quiet=True) as workers:
        with pytest.raises(WorkerFailed, match="there is no rank 2 in a world of 2"):
            workers.run(send_past_the_last)
        assert list(workers.run(shake_hands)) == [0.0, 1.0]


def test_a_check_says_so_soon() -> None:
    def pass_the_token(token: torch.Tensor) -> torch.Tensor:
        rank = dist.get_rank()
        dist.recv(token, rank - 1)
        token += 1
        dist.send(token, rank + 1)
        return token

    report = check.pass_the_token(pass_the_token)
    assert "there is no rank -1 in a world of 2 (ranks 0 to 1)" in report.text
