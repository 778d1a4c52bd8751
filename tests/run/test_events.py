"""Which events belong together, and what they become outside."""

from __future__ import annotations

import json
import pathlib
import random
from typing import Any

import pytest
import torch
import torch.distributed as dist

from ddp_lessons import WorkerFailed, launch


def chatter(rank: int, world_size: int, seed: int) -> None:
    """Messages between random pairs, with random tags, received in another order than sent."""
    plan = random.Random(seed)
    messages = [(*plan.sample(range(world_size), 2), plan.randrange(2), number) for number in range(40)]
    works: list[Any] = []
    works += [dist.isend(torch.tensor([float(n)]), b, tag=tag) for a, b, tag, n in messages if a == rank]
    mine = [message for message in messages if message[1] == rank]
    plan.shuffle(messages)
    mine.sort(key=lambda message: (message[2], message[3]))  # tag by tag
    works += [dist.irecv(torch.zeros(1), a, tag=tag) for a, _, tag, _ in mine]
    for work in works:
        work.wait()


def test_a_recv_is_paired_with_the_send_whose_numbers_it_got() -> None:
    events = launch(chatter, 3, 0, record="values").events
    assert len(events.deliveries) == 40
    assert all(delivery.send.values == delivery.recv.received for delivery in events.deliveries)


def test_ranks_that_call_different_collectives_have_not_agreed() -> None:
    def call(rank: int, world_size: int) -> None:
        dist.barrier()
        work = dist.all_reduce(torch.zeros(1), async_op=True) if rank == 0 else None
        work = dist.broadcast(torch.zeros(1), 1, async_op=True) if rank == 1 else work

    with pytest.raises(WorkerFailed, match="cannot be trusted") as failed:
        launch(call, 3)
    meetings = failed.value.results.events.meetings
    assert [meeting.is_agreed for meeting in meetings] == [True, False]
    assert (meetings[1].missing, {event.call for event in meetings[1].events}) == ((2,), {"all_reduce", "broadcast"})


def test_events_say_how_many_there_are() -> None:
    assert repr(launch(lambda rank, world_size: dist.barrier(), 3).events) == "<3 events of 3 ranks>"


def test_a_trace_has_what_its_format_asks_for(tmp_path: pathlib.Path) -> None:
    events = launch(chatter, 3, 0).events
    events.to_chrome_trace(tmp_path / "trace.json")
    entries = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    by_phase = {phase: [entry for entry in entries if entry["ph"] == phase] for phase in "bexXsfM"}
    assert len(by_phase["b"]) == len(by_phase["e"]) == len(events)
    assert len(by_phase["s"]) == len(by_phase["f"]) == len(events.deliveries)
    assert all(entry["dur"] >= 0 for entry in by_phase["X"])
    assert {entry["args"]["name"] for entry in by_phase["M"] if entry["name"] == "process_name"} == {
        f"rank {rank}" for rank in range(3)
    }
    for start, finish in zip(by_phase["s"], by_phase["f"], strict=True):
        assert start["ts"] <= finish["ts"]
        for arrow in (start, finish):  # an arrow hangs on the slice of its thread that is there at that moment
            slices = [entry for entry in by_phase["X"] if (entry["pid"], entry["tid"]) == (arrow["pid"], arrow["tid"])]
            assert any(entry["ts"] <= arrow["ts"] <= entry["ts"] + entry["dur"] for entry in slices)
