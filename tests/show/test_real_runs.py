"""Pictures of real launches: what the recorder gives is what the pictures take."""

from __future__ import annotations

import sys
import threading

import cloudpickle  # type: ignore[import-untyped]
import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from ddp_lessons import WorkerFailed, WorkersStuck, launch, show

# as functions of a cell do, so that ranks need not import this module, and all that it imports
cloudpickle.register_pickle_by_value(sys.modules[__name__])


def pass_on(rank: int, world_size: int) -> None:
    """A token goes round once; then everyone meets."""
    token = torch.tensor([7.0, 8.0])
    if rank > 0:
        dist.recv(token, rank - 1)
    if rank < world_size - 1:
        dist.send(token, rank + 1)
    dist.all_reduce(token)


@pytest.mark.parametrize("world_size", [2, 4])
def test_a_token_is_an_arrow_from_rank_to_rank(world_size: int) -> None:
    results = launch(pass_on, world_size, quiet=True, record="values")
    picture = show.timeline(results)
    messages = picture.document["messages"]
    ranks = [[picture.document["calls"][one[side]]["rank"] for side in ("send", "recv")] for one in messages]
    assert ranks == [[rank, rank + 1] for rank in range(world_size - 1)]
    assert all(0 <= one["begin"] <= one["end"] <= picture.document["span"] for one in messages)
    assert len(picture.document["collectives"]) == 1
    assert show.timeline(launch(pass_on, world_size, quiet=True)).text == picture.text
    sent = [line.split()[-3:] for line in show.traffic(results).text.splitlines()[1 : world_size + 1]]
    assert sent[0] == ["8", "0", "1"]
    assert sent[-1] == ["0", "8", "0"]


def both_send_first(rank: int, world_size: int) -> None:
    dist.send(torch.ones(4), 1 - rank)
    dist.recv(torch.ones(4), 1 - rank)


def test_a_deadlock_is_drawn_with_both_who_wait() -> None:
    with pytest.raises(WorkersStuck) as stuck:
        launch(both_send_first, 2, quiet=True, timeout_seconds=2)
    picture = show.timeline(stuck.value)
    assert [line for line in picture.text.splitlines() if line.startswith("rank")] == [
        "rank 0 | send->1 ...",
        "rank 1 | send->0 ...",
    ]
    assert "ranks 0 and 1 waited forever" in picture.text
    assert [one["text"] for one in picture.document["warnings"]] == [
        "waits forever in send to 1",
        "waits forever in send to 0",
    ]
    assert "2 calls not over" in picture.alt


def one_leaves(rank: int, world_size: int) -> None:
    dist.barrier()
    if rank == 1:
        raise ValueError("I will not play")
    dist.all_reduce(torch.ones(1))


def test_a_failed_launch_is_drawn_as_far_as_it_came() -> None:
    with pytest.raises(WorkerFailed) as failed:
        launch(one_leaves, 3, quiet=True)
    picture = show.timeline(failed.value)
    assert [one["is_odd"] for one in picture.document["collectives"]] == [False, True]
    assert "rank 1 | barrier" in picture.text.splitlines()


def is_refused(rank: int, world_size: int) -> None:
    dist.all_reduce(torch.ones(1))
    try:
        dist.all_gather([torch.empty(other + 1) for other in range(world_size)], torch.ones(rank + 1))
    except RuntimeError:
        dist.barrier()


def test_a_collective_that_torch_refused_is_drawn_as_refused() -> None:
    results = launch(is_refused, 2, quiet=True)
    lanes = show.timeline(results).text.splitlines()[2:]
    assert lanes == [f"rank {rank} | all_reduce | all_gather refused | barrier" for rank in range(2)]
    assert [meeting.operation for meeting in results.events.meetings] == ["all_reduce", "barrier"]


def in_threads(rank: int, world_size: int, share_a_group: bool) -> None:
    groups = [None if share_a_group else dist.new_group() for _ in range(3)]

    def reduce(group: dist.ProcessGroup | None) -> None:
        for _ in range(10):
            dist.all_reduce(torch.ones(1), group=group)

    threads = [threading.Thread(target=reduce, args=(group,)) for group in groups]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


@pytest.mark.parametrize("share_a_group", [False, True])
def test_collectives_of_threads_are_all_drawn(share_a_group: bool) -> None:
    for _ in range(3):
        results = launch(in_threads, 2, share_a_group, quiet=True)
        picture = show.timeline(results)
        assert len(picture.document["collectives"]) == len(results.events) / 2
        assert sum(picture.text.count(f"all_reduce{end}") for end in (" |", "\n")) >= 55


def train(rank: int, world_size: int) -> None:
    model = DistributedDataParallel(nn.Linear(4, 2))
    model(torch.ones(3, 4)).sum().backward()


def test_the_all_reduces_of_ddp_are_in_the_picture() -> None:
    assert "DDP all_reduce" in show.timeline(launch(train, 2, quiet=True)).text
