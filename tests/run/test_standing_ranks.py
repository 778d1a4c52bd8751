"""Ranks that stay after failures: all keep what they hold, or all begin anew; no abandoned call meets a later one."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import threading
import time
from collections.abc import Callable, Iterator

import pytest
import torch
import torch.distributed as dist
from failing_calls import (
    ABANDONED,
    MISMATCHED,
    all_is_right,
    exits,
    import_what_ddp_needs,
    keep,
    kept,
    main_of_rank,
    raises,
    sleeps,
    stopped_after,
    waits_in_a_thread,
)
from nights import by_day
from processes import alive, family
from torch.nn.parallel import DistributedDataParallel

from ddp_lessons import WorkerFailed, Workers, WorkersStuck
from ddp_lessons.run.launcher.private_folders import session_folder

WORLD = 3
FAILURES = ABANDONED | MISMATCHED


@pytest.fixture(scope="module")
def workers() -> Iterator[Workers]:
    with Workers(WORLD, standing=True, quiet=True, timeout_seconds=2) as workers:
        workers.run(import_what_ddp_needs, timeout_seconds=60)
        yield workers


KEPT = "  The ranks keep their variables and join a new process group."
LOST = "  All ranks were restarted, and their variables are lost."


def all_raise(rank: int, world_size: int) -> None:
    dist.barrier()
    raise ValueError("no")


def one_does_not_come_back(rank: int, world_size: int) -> None:
    while rank == 0:
        with contextlib.suppress(BaseException):
            time.sleep(0.01)
    raise ValueError("no")


def let_go(rank: int, world_size: int) -> None:
    """Every rank returns, but the calls do not match."""
    if rank == 0:
        dist.isend(torch.ones(1), 1)


@pytest.mark.parametrize(
    ("failure", "last_line"),
    [(all_raise, KEPT), (let_go, KEPT), (raises, LOST), (exits, LOST), (one_does_not_come_back, LOST)],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_idle_ranks_keep_their_variables_and_others_begin_anew(
    workers: Workers, failure: Callable[..., None], last_line: str
) -> None:
    workers.run(keep)
    with pytest.raises((WorkerFailed, WorkersStuck)) as caught:
        workers.run(failure)
    assert str(caught.value).split("\n")[-1] == last_line
    assert all_is_right(workers)
    assert list(workers.run(kept)) == ([0, 11, 22] if last_line == KEPT else [None] * WORLD)


@pytest.mark.parametrize("failure", by_day(FAILURES, 5), ids=lambda failure: failure.__name__)
def test_after_a_failure_the_next_call_is_right(workers: Workers, failure: Callable[..., None]) -> None:
    workers.run(import_what_ddp_needs, timeout_seconds=60)  # the ranks may have begun anew in the test before
    with pytest.raises(FAILURES[failure]):
        workers.run(failure)
    assert all_is_right(workers)


@pytest.mark.parametrize(("function", "seconds"), [(sleeps, 0.001), (waits_in_a_thread, 0.1)])
def test_after_an_interrupt_at_any_moment_all_begin_anew(
    workers: Workers, function: Callable[..., None], seconds: float
) -> None:
    with pytest.raises(KeyboardInterrupt, match="All ranks were restarted, and their variables are lost"):
        stopped_after(seconds, workers, function)
    assert all_is_right(workers)


def test_an_old_wrapped_model_fails_and_never_meets_a_new_one(workers: Workers) -> None:
    def make(rank: int, world_size: int) -> None:
        main_of_rank()["model"] = DistributedDataParallel(torch.nn.Linear(3, 3))

    def use(rank: int, world_size: int) -> None:
        main_of_rank()["model"](torch.ones(1, 3)).sum().backward()

    workers.run(make, timeout_seconds=60)  # a rank that began anew has to import what DDP needs
    workers.run(use)
    with pytest.raises(WorkerFailed):
        workers.run(all_raise)
    with pytest.raises(WorkerFailed, match="wrap the model or create the group again"):
        workers.run(use)
    assert all_is_right(workers)


def test_some_of_the_ranks_run_alone(workers: Workers) -> None:
    def between_two(rank: int, world_size: int) -> float:
        tensor = torch.full((1,), float(rank))
        dist.send(tensor, 2) if rank == 0 else dist.recv(tensor, 0)
        return tensor.item()

    alone = workers.run(lambda rank, world_size: rank, only=1)
    assert [repr(value) for value in alone] == ["<no value>", "1", "<no value>"]
    results = workers.run(between_two, only=[0, 2])
    assert (results[0], repr(results[1]), results[2]) == (0.0, "<no value>", 0.0)
    with pytest.raises(WorkersStuck, match=r"rank 1   was not selected") as caught:
        workers.run(lambda rank, world_size: dist.barrier(), only=[0])
    assert "but ranks 1 and 2 were not selected.\n  Next: run it on all ranks" in str(caught.value)
    with pytest.raises(WorkersStuck, match="If they are only slow"):
        workers.run(sleeps, only=[0], timeout_seconds=0.5)
    assert all_is_right(workers)


def test_other_workers_are_closed_by_a_failure() -> None:
    with Workers(WORLD, quiet=True) as workers:
        with pytest.raises(WorkerFailed):
            workers.run(raises)
        with pytest.raises(RuntimeError, match="closed"):
            workers.run(kept)


def works_a_while(rank: int, world_size: int, turns: int) -> float:
    """Each turn gives world_size, and a turn that was mixed up with another run would not."""
    total = torch.zeros(1)
    for turn in range(turns):
        tensor = torch.full((1,), 1.0 + turn)
        dist.all_reduce(tensor)
        total += tensor / (1.0 + turn)
    return total.item()


@pytest.mark.no_second_try
@pytest.mark.parametrize("kills", by_day([10, 200], 1))
def test_kills_at_any_moment_give_no_wrong_answer_and_leave_nothing(kills: int) -> None:
    """A run gives all the right answers, or fails; and the next one after it is right."""
    dice = random.Random(3)
    reasons: list[str] = []
    with Workers(WORLD, standing=True, quiet=True, timeout_seconds=60) as workers:
        assert all_is_right(workers)
        files, processes = files_of_this_process(), len(family(os.getpid()))
        for _ in range(kills):
            victim = dice.choice(process_ids(workers))
            killer = threading.Timer(dice.uniform(0, 0.05), os.kill, (victim, signal.SIGKILL))
            killer.start()
            try:
                assert list(workers.run(works_a_while, 40)) == [40.0 * WORLD] * WORLD
            except WorkerFailed as failure:
                reasons.append(str(failure))
            killer.join()
            with contextlib.suppress(WorkerFailed):  # it may have been killed when the run was over
                workers.run(kept)
            assert all_is_right(workers)
            assert not alive([victim])
        assert files_of_this_process() - files <= 2 * WORLD
        assert len(family(os.getpid())) - processes <= WORLD
    assert [reason for reason in reasons if "SIGKILL" not in reason] == []
    assert reasons, "no kill met a run"


def process_ids(workers: Workers) -> list[int]:
    return list(workers.run(lambda rank, world_size: os.getpid()))


def files_of_this_process() -> int:
    return sum(len(names) + len(folders) for _, folders, names in os.walk(session_folder()))
