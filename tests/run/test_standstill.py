"""What the message of ranks that can never move again says of the reason."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.distributed as dist

from ddp_lessons import WorkersStuck, launch, show

ONE = torch.ones(1)


def shapes(rank: int, world_size: int) -> None:
    dist.all_reduce(torch.ones(2 + rank))


def sender_returned(rank: int, world_size: int) -> None:
    if rank == 1:
        dist.recv(ONE, 0)


def both_send(rank: int, world_size: int) -> None:
    dist.send(ONE, 1 - rank)


def both_receive(rank: int, world_size: int) -> None:
    dist.recv(ONE, 1 - rank)


def tags(rank: int, world_size: int) -> None:
    if rank == 0:
        dist.send(ONE, 1, tag=1)
    else:
        dist.recv(ONE, 0, tag=2)


def different_collectives(rank: int, world_size: int) -> None:
    dist.barrier()
    if rank == 0:
        dist.all_reduce(ONE)
    else:
        dist.broadcast(ONE, 0)


def one_never_came(rank: int, world_size: int) -> None:
    if rank != 2:
        dist.barrier()


def circle(rank: int, world_size: int) -> None:
    work = dist.isend(ONE, (rank + 1) % world_size)
    assert work is not None
    work.wait()


REASONS: list[tuple[Callable[[int, int], None], int, str]] = [
    (shapes, 2, "The tensors of this all_reduce do not fit together: rank 0 [2] float32, rank 1 [3] float32."),
    (sender_returned, 2, "rank 0 returned without the send that rank 1 waits for."),
    (both_send, 2, "Ranks 0 and 1 each wait for the other to receive: a deadlock."),
    (both_receive, 2, "Ranks 0 and 1 each wait for the other to send: a deadlock."),
    (tags, 2, "The tags differ: the message is sent with tag 1, and received with tag 2."),
    (different_collectives, 2, "different collectives: rank 0 all_reduce, rank 1 broadcast."),
    (one_never_came, 3, "A collective ends only when every rank has called it, but rank 2 returned without:"),
    (circle, 3, "They wait for each other in a circle (0 for 1, 1 for 2, 2 for 0): a deadlock."),
]


@pytest.mark.parametrize(("function", "world_size", "sentence"), REASONS, ids=[f.__name__ for f, _, _ in REASONS])
def test_the_reason_is_told(function: Callable[[int, int], None], world_size: int, sentence: str) -> None:
    with pytest.raises(WorkersStuck) as stuck:
        launch(function, world_size, timeout_seconds=0.5)
    assert sentence in str(stuck.value)
    assert str(stuck.value).endswith("Next: repair that; more time would not help.")


@pytest.mark.parametrize("record", [True, False])
def test_slow_ranks_are_not_told_of_a_deadlock(record: bool) -> None:
    def slow(rank: int, world_size: int) -> None:
        if rank == 0:
            sum(range(10**12))
        dist.barrier()

    with pytest.raises(WorkersStuck) as stuck:
        launch(slow, 2, timeout_seconds=0.5, record=record)
    assert "if the ranks were only slow, give them more time" in str(stuck.value)


def test_a_group_that_one_rank_never_joins_is_named_as_such() -> None:
    def join(rank: int, world_size: int) -> None:
        if rank == 0:
            dist.init_process_group("gloo")

    with pytest.raises(WorkersStuck, match="init_process_group ends only when every rank has called it, but rank 1"):
        launch(join, 2, join=False, timeout_seconds=1.5)


def test_calls_that_were_not_over_are_drawn_to_the_moment_when_the_launch_was_ended() -> None:
    with pytest.raises(WorkersStuck) as stuck:
        launch(both_send, 2, timeout_seconds=0.5)
    assert show.timeline(stuck.value).axes.get_xlim()[1] > 0.3  # the ranks began a little later than the clock
