"""Between its calls a rank is on a CPU or is not: what is recorded agrees with what the rank did."""

from __future__ import annotations

import threading
import time

import pytest
import torch
import torch.distributed as dist
from nights import by_day, nightly

from ddp_lessons import WorkersStuck, launch
from ddp_lessons.record.events import Events
from ddp_lessons.run.recording.recorder import GapClock


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


def wait_inside_of_calls(rank: int, world_size: int) -> None:
    time.sleep(0.2 * rank)
    dist.barrier()
    compute(0.05)
    dist.new_group([0, 1])
    compute(0.05)
    with pytest.raises(ValueError, match="no rank 7"):
        dist.send(torch.ones(1), 7)
    compute(0.05)
    dist.all_reduce(torch.ones(1))


def test_time_inside_of_a_call_is_in_no_gap() -> None:
    results = launch(wait_inside_of_calls, 2)
    for rank in range(2):
        computed = [gap for gap in results.events.gaps(rank) if gap[2] > 0.04]
        assert len(computed) == 3
        assert [on_cpu for _, _, on_cpu in computed] == pytest.approx([0.05] * 3, abs=0.02)
    barrier = results.events.of(0)[0]
    assert barrier.end is not None
    assert not [gap for gap in results.events.gaps(0) if barrier.begin + 0.01 < gap[1] < barrier.end - 0.01]


def test_many_short_calls_cost_few_readings() -> None:
    clock = GapClock(most=1000)
    clock.begin(0.0)
    for turn in range(1, 1001):  # a call every 10 microseconds
        clock.held(turn * 1e-5)
        clock.free(turn * 1e-5 + 5e-6)
    gaps = clock.gaps(1e-2)
    assert 20 <= len(gaps) <= 100
    assert all(end - begin >= 1e-4 for begin, end, _ in gaps[:-1])


def run_on(rank: int, world_size: int, is_computing: bool) -> None:
    if rank == 0:
        dist.barrier()
    elif is_computing:
        compute(60)
    else:
        time.sleep(60)


@nightly
@pytest.mark.parametrize("is_computing", by_day([True, False], 1))
def test_of_a_rank_that_is_still_under_way_it_is_known_too(is_computing: bool) -> None:
    with pytest.raises(WorkersStuck) as stuck:
        launch(run_on, 2, is_computing, timeout_seconds=3)  # the ranks also import this module
    begin, end, on_cpu = longest(stuck.value.results.events, 1)
    assert end - begin > 0.5
    assert (on_cpu > 0.1 * (end - begin)) == is_computing


def test_calls_of_another_thread_leave_the_clock_alone() -> None:
    def beside(rank: int, world_size: int) -> None:
        other = threading.Thread(target=lambda: [dist.barrier() for _ in range(20)])
        other.start()
        compute(0.2)
        other.join()

    begin, end, on_cpu = longest(launch(beside, 2).events, 0)
    assert 0.2 <= on_cpu <= end - begin
