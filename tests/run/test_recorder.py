"""What each call of torch.distributed leaves in `results.events`."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import nn, zeros
from torch.distributed import all_reduce as imported_by_name
from torch.nn.parallel import DistributedDataParallel

from ddp_lessons import WorkerFailed, Workers, WorkersStuck, launch


def two(root: int, rank: int) -> list[torch.Tensor] | None:
    return [zeros(3), zeros(3)] if rank == root else None


# a call on two ranks -> what rank 1 has noted: call, operation, root, reduce_op, shape, tensors, dtype, bytes
NOTED: list[tuple[Callable[[int], object], tuple[Any, ...]]] = [
    (lambda rank: dist.broadcast(zeros(3), 1), ("broadcast", "broadcast", 1, None, (3,), 1, "float32", 12)),
    (
        lambda rank: dist.all_reduce(zeros(2, 3, dtype=torch.float64), op=dist.ReduceOp.MAX),
        ("all_reduce", "all_reduce", None, "max", (2, 3), 1, "float64", 48),
    ),
    (
        lambda rank: dist.reduce(zeros(3), 1, op=dist.ReduceOp.PRODUCT),
        ("reduce", "reduce", 1, "product", (3,), 1, "float32", 12),
    ),
    (lambda rank: dist.scatter(zeros(3), two(0, rank), 0), ("scatter", "scatter", 0, None, (3,), 0, "float32", 0)),
    (lambda rank: dist.scatter(zeros(3), two(1, rank), 1), ("scatter", "scatter", 1, None, (3,), 2, "float32", 24)),
    (lambda rank: dist.gather(zeros(3), two(1, rank), 1), ("gather", "gather", 1, None, (3,), 1, "float32", 12)),
    (
        lambda rank: dist.all_gather([zeros(3), zeros(3)], zeros(3)),
        ("all_gather", "all_gather", None, None, (3,), 1, "float32", 12),
    ),
    (
        lambda rank: dist.all_gather_into_tensor(zeros(6), zeros(3)),
        ("all_gather_into_tensor", "all_gather", None, None, (3,), 1, "float32", 12),
    ),
    (
        lambda rank: dist.reduce_scatter_tensor(zeros(3), zeros(6), op=dist.ReduceOp.AVG),
        ("reduce_scatter_tensor", "reduce_scatter", None, "avg", (6,), 1, "float32", 24),
    ),
    (
        lambda rank: dist.all_to_all_single(zeros(4), zeros(4)),
        ("all_to_all_single", "all_to_all", None, None, (4,), 1, "float32", 16),
    ),
    (lambda rank: dist.barrier(), ("barrier", "barrier", None, None, (), 0, "", 0)),
    (lambda rank: imported_by_name(zeros(3)), ("all_reduce", "all_reduce", None, "sum", (3,), 1, "float32", 12)),
]


@pytest.mark.parametrize(("function", "expected"), NOTED)
def test_a_call_is_noted_with_what_was_asked_of_it(
    function: Callable[[int], object], expected: tuple[Any, ...]
) -> None:
    (event,) = launch(lambda rank, world_size: function(rank), 2).events.of(1)
    noted = (event.call, event.operation, event.root, event.reduce_op, event.shape, event.tensors, event.dtype)
    assert (*noted, event.bytes) == expected
    assert event.group_ranks == (0, 1)
    assert event.file == __file__


def test_object_collectives_are_noted_by_their_name() -> None:
    events = launch(lambda rank, world_size: dist.broadcast_object_list([1], src=0), 2).events.of(1)
    assert {(event.call, event.operation) for event in events} == {("broadcast_object_list", "broadcast")}


def test_a_message_is_noted_on_both_sides() -> None:
    def call(rank: int, world_size: int) -> None:
        if rank == 0:
            dist.send(zeros(5, dtype=torch.int16), dst=2, tag=7)
        if rank == 2:
            dist.recv(zeros(5, dtype=torch.int16), tag=7)  # from any rank

    events = launch(call, 3).events
    (delivery,) = events.deliveries
    assert (delivery.send.rank, delivery.send.peer, delivery.send.tag) == (0, 2, 7)
    assert (delivery.recv.rank, delivery.recv.peer, delivery.recv.bytes) == (2, 0, 10)
    assert events.of(1) == ()
    assert [events.bytes_sent(rank) for rank in range(3)] == [10, 0, 0]


def test_non_blocking_calls_tell_issued_waited_and_complete_apart() -> None:
    def in_the_background(rank: int, world_size: int) -> None:
        message: Any = dist.isend(zeros(3), 1) if rank == 0 else dist.irecv(zeros(3), 0)
        collective: Any = dist.all_reduce(zeros(3), async_op=True)
        time.sleep(0.3)
        message.wait()
        collective.wait()

    for event in launch(in_the_background, 2).events:
        assert event.waited is not None
        assert event.end is not None
        assert event.begin <= event.issued <= event.waited - 0.2
        # torch reports the end of a collective, and nobody that of isend
        assert (event.end < event.waited) == (event.call == "all_reduce")


def in_a_thread(rank: int, world_size: int) -> None:
    thread = threading.Thread(target=lambda: dist.all_reduce(zeros(1)), name="talker")
    thread.start()
    thread.join()


def in_torchs_own_code(rank: int, world_size: int) -> None:
    from torch.distributed.algorithms.model_averaging.utils import average_parameters

    world: Any = dist.group.WORLD
    average_parameters(nn.Linear(2, 2).parameters(), world)


@pytest.mark.parametrize(
    ("function", "expected"),
    [(in_a_thread, ("talker", "<lambda>", 1)), (in_torchs_own_code, ("MainThread", "in_torchs_own_code", 4))],
)
def test_a_call_is_noted_with_its_thread_and_its_line(
    function: Callable[[int, int], None], expected: tuple[str, str, int]
) -> None:
    events, first = launch(function, 2).events, function.__code__.co_firstlineno
    assert {(event.thread, event.function, event.line - first) for event in events} == {expected}
    assert {event.file for event in events} == {__file__}


def test_roots_and_peers_in_a_group_are_ranks_of_the_world() -> None:
    def call(rank: int, world_size: int) -> None:
        group: Any = dist.new_group([1, 2])
        if rank > 0:
            dist.broadcast(zeros(1), src=2, group=group)
            if rank == 1:
                dist.send(zeros(1), dst=2, group=group)
            else:
                dist.recv(zeros(1), src=1, group=group)

    events = launch(call, 3).events
    made, broadcast, recv = events.of(2)
    assert (made.operation, made.group_ranks, made.group) == ("new_group", (1, 2), broadcast.group)
    assert (broadcast.root, broadcast.group_ranks) == (2, (1, 2))
    assert (recv.peer, len(events.deliveries)) == (1, 1)
    assert {(meeting.operation, meeting.is_agreed) for meeting in events.meetings} == {
        ("new_group", True),  # rank 0 may make it while the others are in their broadcast
        ("broadcast", True),
    }


def train(rank: int, world_size: int, sees_buckets: bool) -> tuple[list[int], float]:
    torch.manual_seed(0)
    model = DistributedDataParallel(nn.Sequential(*[nn.Linear(64, 64) for _ in range(6)]), bucket_cap_mb=0.05)
    buckets: list[int] = []

    def average(state: object, bucket: Any) -> torch.futures.Future[torch.Tensor]:
        buckets.append(bucket.buffer().nbytes)
        work = dist.all_reduce(bucket.buffer().div_(world_size), async_op=True)
        return work.get_future().then(lambda done: done.value()[0])

    average.__annotations__.clear()  # texts here, which DDP cannot read
    if sees_buckets:
        model.register_comm_hook(None, average)
    for step in range(3):
        torch.manual_seed(step * 10 + rank)
        model(torch.randn(8, 64)).sum().backward()
    return buckets, sum(float(p.grad.double().sum()) for p in model.parameters() if p.grad is not None)


def test_the_buckets_of_ddp_are_noted_as_a_communication_hook_sees_them() -> None:
    seen = launch(train, 2, True)
    events = launch(train, 2, False).events
    for rank in range(2):
        noted = [event for event in events.of(rank) if event.operation == "all_reduce"]
        assert [event.bytes for event in noted] == seen[rank][0]
        assert {event.call for event in noted} == {"DistributedDataParallel"}
        assert all(event.end is not None and event.end > event.begin for event in noted)


def test_recording_changes_no_gradient() -> None:
    assert list(launch(train, 2, False)) == list(launch(train, 2, False, record=False))


def test_nothing_is_recorded_and_torch_is_as_it_was_when_that_is_asked() -> None:
    def call(rank: int, world_size: int) -> list[bool]:
        dist.all_reduce(zeros(1))
        owners = (dist.ProcessGroup, "allreduce"), (dist.Work, "wait"), (dist, "Reducer")
        return [hasattr(getattr(owner, name), "__wrapped__") for owner, name in owners]

    off = launch(call, 2, record=False)
    assert (list(off), len(off.events)) == ([[False] * 3] * 2, 0)
    assert list(launch(call, 2)) == [[True] * 3] * 2


def test_the_numbers_of_small_tensors_are_kept_if_asked() -> None:
    def call(rank: int, world_size: int) -> None:
        tensor = torch.tensor([1.0, 2.0]) * (rank + 1)
        dist.all_reduce(tensor)
        dist.all_reduce(zeros(65))
        dist.send(tensor, 1) if rank == 0 else dist.recv(zeros(2), 0)

    small, large, recv = launch(call, 2, record="values").events.of(1)
    assert (small.values, small.received) == ((2.0, 4.0), (3.0, 6.0))
    assert (large.values, large.received) == (None, None)
    assert (recv.values, recv.received) == (None, (3.0, 6.0))
    assert {event.values for event in launch(call, 2).events} == {None}


def test_a_call_that_raises_says_so() -> None:
    with pytest.raises(WorkerFailed) as failure:
        launch(lambda rank, world_size: dist.all_gather_into_tensor(zeros(5), zeros(3)), 2)
    assert ["Error" in event.error for event in failure.value.results.events] == [True, True]


def test_ranks_that_are_stuck_tell_what_they_had_called() -> None:
    def call(rank: int, world_size: int) -> None:
        dist.barrier()
        if rank == 1:
            dist.recv(zeros(3), 0)

    with pytest.raises(WorkersStuck) as failure:
        launch(call, 2, timeout_seconds=0.5)
    events = failure.value.results.events
    assert [event.operation for event in events.of(1)] == ["barrier", "recv"]
    assert (events.of(1)[1].end, len(events.of(0))) == (None, 1)


def test_kept_workers_record_each_run_by_itself() -> None:
    with Workers(2) as workers:
        first = workers.run(lambda rank, world_size: dist.barrier())
        second = workers.run(lambda rank, world_size: [dist.all_reduce(zeros(1)) for _ in range(2)] and None)
    assert [event.operation for event in first.events.of(0)] == ["barrier"]
    assert [event.operation for event in second.events.of(0)] == ["all_reduce"] * 2
    assert min(event.begin for event in second.events) < 0.05 + second.seconds
