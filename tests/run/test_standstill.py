"""Ranks that can never move again are seen at once and told why; ranks that are slow are left alone."""

from __future__ import annotations

import gc
import os
import subprocess
import tempfile
import threading
import time
import traceback
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest
import torch
import torch.distributed as dist
import torch.distributed.rpc as rpc
from nights import by_day, nightly
from program_trials import verdicts_on
from torch.utils.data import DataLoader, TensorDataset

from ddp_lessons import WorkerFailed, Workers, WorkersStuck, launch
from ddp_lessons.run.diagnosis.waits import never_ending

ONE = torch.ones(1)
Function = Callable[[int, int], Any]


def stuck(function: Function, world_size: int = 2, **options: Any) -> str:
    """What is said."""
    with pytest.raises(WorkersStuck) as error:
        launch(function, world_size, **options)
    return str(error.value)


def one_never_came(rank: int, world_size: int) -> None:
    if rank != 2:
        dist.barrier()


def both_send(rank: int, world_size: int) -> None:
    dist.send(ONE, 1 - rank)


def test_a_wait_is_shown_with_two_of_its_callers() -> None:
    def average() -> None:
        dist.barrier()

    def step() -> None:
        average()

    def epoch() -> None:
        torch.nn.Module().apply(lambda _: step())  # torch's own lines are left out

    def train(rank: int, world_size: int) -> None:
        if rank == 0:
            epoch()
        elif rank == 1:
            dist.barrier()

    file, line = os.path.basename(__file__), step.__code__.co_firstlineno
    lines = stuck(train, 3).split("\n")
    assert lines[1].startswith(f"    rank 0   waits in barrier ({file} line {line - 2}:")
    assert lines[2] == f"        called from {file} line {line + 1} in step, from {file} line {line + 4} in <lambda>"
    assert lines[3].startswith("    rank 1   waits in barrier")
    assert lines[4] == "    rank 2   has returned"


@nightly
def test_a_standstill_is_not_waited_out() -> None:
    launch(one_never_came, 2)
    message = stuck(one_never_came, 3)
    assert message.startswith("hang, no rank can make progress\n")


@nightly
def test_so_it_is_in_random_programs_broken_in_one_place() -> None:
    assert sum(verdict.was_caught for verdict in verdicts_on(range(30))) >= 28


def test_it_is_seen_among_kept_ranks_whose_calls_before_went_well() -> None:
    def meet(rank: int, world_size: int) -> None:
        for _ in range(300):  # more than are looked at
            dist.all_reduce(ONE)
        dist.send(ONE, 1) if rank == 0 else dist.recv(ONE, 0)

    with Workers(2) as workers:
        workers.run(meet)
        workers.run(meet)
        with pytest.raises(
            WorkersStuck, match=r"deadlock, no rank can make progress(.|\n)*each wait for the other to receive"
        ):
            workers.run(both_send)


def test_without_records_the_time_has_to_run_out_and_the_names_of_the_calls_do() -> None:
    message = stuck(one_never_came, 3, record=False, timeout_seconds=0.5)
    assert "ranks 0 and 1 of 3 did not return within 0.5 seconds" in message
    assert "A collective completes only when every rank calls it. Rank 2 returned, maybe without calling it." in message


@nightly
def test_with_somebody_who_can_still_move_the_time_runs_out_and_the_standstill_is_told() -> None:
    def two_and_a_sleeper(rank: int, world_size: int) -> None:
        if rank == 2:
            time.sleep(1000)
        both_send(rank, world_size)

    message = stuck(two_and_a_sleeper, 3, timeout_seconds=4)
    assert message.startswith("timeout, all 3 ranks did not return within 4 seconds\n")
    assert "time.sleep(1000)   (the whole time)" in message
    assert "Ranks 0 and 1 each wait for the other to receive: a deadlock." in message


# --- what can still move is no standstill -----------------------------------------------------------------------------


def sleeps(rank: int, world_size: int) -> None:
    if rank == 0:
        time.sleep(1)
    dist.barrier()


def computes(rank: int, world_size: int) -> None:
    end = time.monotonic() + 1
    while rank == 0 and time.monotonic() < end:
        torch.ones(300, 300) @ torch.ones(300, 300)
    dist.barrier()


def holds_the_lock(rank: int, world_size: int) -> None:
    if rank == 0:
        sum(range(60_000_000))
    dist.barrier()


def moves_much(rank: int, world_size: int) -> None:
    for _ in range(6):
        dist.all_reduce(torch.ones(20_000_000))


def waits_for_a_thread(rank: int, world_size: int) -> None:
    """The main thread waits for a message that another thread of its peer will send."""

    def late() -> None:
        time.sleep(1)
        dist.send(ONE, 1)

    if rank == 0:
        threading.Thread(target=late).start()
        dist.recv(ONE, 1)
    else:
        dist.recv(ONE, 0)
        dist.send(ONE, 0)


def waits_for_a_timer(rank: int, world_size: int) -> None:
    if rank == 0:
        threading.Timer(1, lambda: dist.send(ONE, 1)).start()
        dist.recv(ONE, 1)
    else:
        dist.recv(ONE, 0)
        dist.send(ONE, 0)


def leaves_a_thread_behind(rank: int, world_size: int) -> None:
    """This rank has returned, and yet its message is still to come."""

    def late() -> None:
        time.sleep(1)
        dist.send(ONE, 1)

    if rank == 0:
        threading.Thread(target=late, daemon=True).start()
    else:
        dist.recv(ONE, 0)


def waits_for_a_call_elsewhere(rank: int, world_size: int) -> None:
    """The function that rank 1 runs for rank 0 is one of torch's own, so no thread has a stack in Python."""
    name = [tempfile.mktemp() if rank == 0 else None]
    dist.broadcast_object_list(name, 0)
    own_group: Any = dist.new_group()
    options = rpc.TensorPipeRpcBackendOptions(init_method=f"file://{name[0]}")
    rpc.init_rpc(f"worker{rank}", rank=rank, world_size=world_size, rpc_backend_options=options)
    if rank == 0:
        answer = rpc.rpc_async("worker1", torch.matrix_exp, args=(torch.randn(1200, 1200) / 1000,))
        sent = answer.then(lambda _: dist.send(ONE, 1, group=own_group))
        dist.barrier()
        sent.wait()
    else:
        dist.recv(torch.zeros(1), 0, group=own_group)
        dist.barrier()
    rpc.shutdown()


def waits_in_the_store(rank: int, world_size: int) -> None:
    store: Any = dist.distributed_c10d._get_default_store()
    if rank == 0:
        time.sleep(1)
        store.set("word", "go")
    else:
        store.wait(["word"])
    dist.barrier()


def gives_up_by_itself(rank: int, world_size: int) -> None:
    """A wait with a limit ends, and what it raises can be caught."""
    if rank == 0:
        work = dist.irecv(torch.zeros(1), 1)
        assert work is not None
        with pytest.raises(RuntimeError, match=r"(?i)time"):
            work.wait(timedelta(seconds=1))


def barrier_that_gives_up(rank: int, world_size: int) -> None:
    if rank == 0:
        with pytest.raises(RuntimeError):
            dist.monitored_barrier(timeout=timedelta(seconds=1))


def group_that_gives_up(rank: int, world_size: int) -> None:
    group = dist.new_group(timeout=timedelta(seconds=1))
    if rank == 0:
        with pytest.raises(RuntimeError):
            dist.recv(torch.zeros(1), 1, group=group)  # type: ignore[arg-type]


def joining_that_gives_up(rank: int, world_size: int) -> None:
    if rank == 0:
        with pytest.raises(RuntimeError):
            dist.init_process_group("gloo", timeout=timedelta(seconds=1))


SLOW = [
    sleeps,
    computes,
    holds_the_lock,
    moves_much,
    waits_for_a_thread,
    waits_for_a_timer,
    waits_for_a_call_elsewhere,
    leaves_a_thread_behind,
    waits_in_the_store,
    gives_up_by_itself,
    barrier_that_gives_up,
    group_that_gives_up,
]


@pytest.mark.no_second_try
@pytest.mark.parametrize("function", by_day(SLOW, 6))
def test_what_can_still_move_is_left_alone(function: Function) -> None:
    launch(function, 2)


@pytest.mark.no_second_try
def test_a_rank_that_gives_up_joining_is_left_alone() -> None:
    launch(joining_that_gives_up, 2, join=False)


@nightly
def test_ranks_that_were_spawned_are_seen_as_well() -> None:
    message = stuck(both_send, start_method="spawn")
    assert message.startswith("deadlock, no rank can make progress\n")


@nightly
@pytest.mark.parametrize("record", by_day([True, False], 1))
def test_slow_ranks_are_not_told_of_a_deadlock(record: bool) -> None:
    def slow(rank: int, world_size: int) -> None:
        if rank == 0:
            sum(range(10**12))
        dist.barrier()

    message = stuck(slow, timeout_seconds=0.5, record=record)
    assert "If the ranks are only slow, give them more time, for example launch(..., timeout_seconds=1)" in message


def names_of_functions_now() -> set[str]:
    return {frame.f_code.co_name for frame, _ in traceback.walk_stack(None)}


def collected_while_looked_at(rank: int, world_size: int) -> tuple[int, int, bool]:
    """Nearly each new object sets off a collection; of how many, and how many of these while a thread was looked at."""
    during: list[set[str]] = []
    gc.callbacks.append(lambda phase, info: during.append(names_of_functions_now()))
    gc.set_threshold(1)
    time.sleep(0.6)
    return len(during), sum("standing" in names for names in during), gc.isenabled()


def test_no_garbage_is_collected_while_a_rank_is_looked_at() -> None:
    """Before Python 3.11.9 that may hang or crash the rank; and it would free what a learner left in our thread."""
    for collections, during_a_look, is_on_again in launch(collected_while_looked_at, 2):
        assert collections > 10
        assert during_a_look == 0
        assert is_on_again


# --- what the learner does besides: then only the time limit decides --------------------------------------------------


def in_a_thread(rank: int, world_size: int) -> None:
    threading.Thread(target=time.sleep, args=(1000,), daemon=True).start()
    one_never_came(rank, world_size)


def with_rpc(rank: int, world_size: int) -> None:
    name = [tempfile.mktemp() if rank == 0 else None]
    dist.broadcast_object_list(name, 0)
    options = rpc.TensorPipeRpcBackendOptions(init_method=f"file://{name[0]}")
    rpc.init_rpc(f"worker{rank}", rank=rank, world_size=world_size, rpc_backend_options=options)
    one_never_came(rank, world_size)


@pytest.mark.parametrize("function", [in_a_thread, with_rpc])
def test_what_may_still_help_is_given_until_the_time_limit_and_the_hang_is_explained(function: Function) -> None:
    message = stuck(function, 3, timeout_seconds=3)
    assert message.startswith("timeout, ranks 0 and 1 of 3 did not return within 3 seconds\n")
    assert "Rank 2 returned, maybe without calling it." in message


def with_a_dataloader(rank: int, world_size: int) -> None:
    loader = DataLoader(TensorDataset(torch.ones(8)), num_workers=1, persistent_workers=True)
    next(iter(loader))
    one_never_came(rank, world_size)


def with_a_child(rank: int, world_size: int) -> None:
    child = subprocess.Popen(["sleep", "30"])
    try:
        one_never_came(rank, world_size)
    finally:
        child.kill()
        child.wait()


def with_an_idle_pool(rank: int, world_size: int) -> None:
    pool = ThreadPoolExecutor(2)
    pool.submit(torch.ones, 3).result()
    one_never_came(rank, world_size)


@pytest.mark.parametrize("function", [with_a_dataloader, with_a_child, with_an_idle_pool])
def test_what_cannot_help_holds_no_verdict_back(function: Function) -> None:
    assert stuck(function, 3, timeout_seconds=20).startswith("hang, no rank can make progress\n")


# --- what did not fit together is not returned as an answer -----------------------------------------------------------


def test_an_answer_from_calls_that_did_not_fit_is_a_failure_and_still_to_be_had() -> None:
    def different_operators(rank: int, world_size: int) -> float:
        tensor = torch.tensor([rank + 1.0])
        dist.all_reduce(tensor, op=dist.ReduceOp.SUM if rank == 0 else dist.ReduceOp.MAX)
        return tensor.item()

    with pytest.raises(WorkerFailed, match="Reduce op mismatch in this all_reduce: rank 0 sum, rank 1 max") as failed:
        launch(different_operators)
    assert all(isinstance(value, float) for value in failed.value.results)
    assert len(launch(different_operators, record=False)) == 2


# --- what is told of it -----------------------------------------------------------------------------------------------


def test_the_waits_without_end_are_known() -> None:
    with pytest.raises(WorkersStuck) as error:
        launch(both_send)
    never = never_ending(error.value.results.events)
    assert [(event.rank, event.call) for event in never] == [(0, "send"), (1, "send")]


def another_order_of_tags(rank: int, world_size: int) -> None:
    """Rank 2 is wrong, and rank 1 waits with the message that would be next."""
    if rank == 0:
        for tag in (1, 1, 2, 2):
            dist.recv(ONE, tag=tag)
    else:
        for tag in (1, 2) if rank == 1 else (2, 1):
            dist.send(ONE, 0, tag=tag)


def test_of_a_recv_from_anyone_each_sender_with_another_tag_is_named() -> None:
    said = stuck(another_order_of_tags, 3)
    (sentence,) = [line for line in said.splitlines() if "Tag mismatch" in line]
    assert "rank 1 sends to rank 0 with tag 2" in sentence
    assert "rank 2 sends to rank 0 with tag 2" in sentence
    assert "rank 0 receives with tag 1" in sentence
