"""Between its calls a rank is on a CPU or is not: what is recorded agrees with what the rank did."""

from __future__ import annotations

import time

import pytest
import torch
import torch.distributed as dist
from nights import nightly

from ddp_lessons import WorkersStuck, launch
from ddp_lessons.record.events import Events


def compute(cpu_seconds: float) -> None:
    """However busy the machine is."""
    until = time.thread_time() + cpu_seconds
    while time.thread_time() < until:
        pass


def longest(events: Events, rank: int) -> tuple[float, float, float]:
    return max(events.gaps(rank), key=lambda gap: gap[1] - gap[0])


def sleep_or_compute(rank: int, world_size: int) -> None:
    dist.barrier()
    if rank == 0:
        time.sleep(0.2)
    else:
        compute(0.2)
    dist.barrier()


def test_a_rank_that_sleeps_is_told_from_one_that_computes() -> None:
    events = launch(sleep_or_compute, 2).events
    begin, end, asleep = longest(events, 0)
    assert end - begin >= 0.2
    assert asleep < 0.05
    assert longest(events, 1)[2] == pytest.approx(0.2, abs=0.05)
    first, last = events.of(1)
    assert first.end is not None
    assert longest(events, 1)[:2] == pytest.approx((first.end, last.begin), abs=2e-3)


def sleep_while_data_moves(rank: int, world_size: int) -> None:
    big = torch.ones(10_000_000)
    dist.barrier()
    handle = dist.all_reduce(big, async_op=True)
    time.sleep(0.2)
    handle.wait()


def test_gloos_threads_do_not_count_as_the_rank() -> None:
    events = launch(sleep_while_data_moves, 2).events
    start, wait = events.of(0)[1].issued, events.of(0)[1].waited
    assert wait is not None
    inside = [gap for gap in events.gaps(0) if gap[0] >= start - 1e-3 and gap[1] <= wait + 1e-3]
    assert sum(end - begin for begin, end, _ in inside) >= 0.19
    assert sum(on_cpu for _, _, on_cpu in inside) < 0.05


@nightly
def test_of_a_rank_that_is_still_under_way_it_is_known_too() -> None:
    def run_on(rank: int, world_size: int) -> None:
        dist.barrier() if rank == 0 else compute(60)

    with pytest.raises(WorkersStuck) as stuck:
        launch(run_on, 2, timeout_seconds=3)  # the ranks also import this module
    begin, end, on_cpu = longest(stuck.value.results.events, 1)
    assert end - begin > 0.5
    assert on_cpu > 0.1 * (end - begin)
