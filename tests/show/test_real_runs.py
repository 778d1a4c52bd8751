"""Figures of real launches: what the recorder gives is what they draw, and the values are those that torch returned."""

from __future__ import annotations

import contextlib
import os
import re
import sys
import threading
from collections.abc import Callable
from typing import Any

import cloudpickle  # type: ignore[import-untyped]
import pytest
import torch
import torch.distributed as dist
from drawn import words_of
from figure_catalog import figure
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from ddp_lessons import WorkerFailed, WorkersStuck, launch, show
from ddp_lessons.train.ring import ring_all_reduce

# as functions of a cell do, so that ranks need not import this module, and all that it imports
cloudpickle.register_pickle_by_value(sys.modules[__name__])
BATCH = torch.randn(8, 3)


def lanes(figure: show.Figure) -> list[list[str]]:
    """What the text has in each rank's row, through all of its lines."""
    found: dict[str, list[str]] = {}
    for line in figure.text.splitlines():
        name, *cells = line.split(" | ")
        if line.startswith("rank "):
            found.setdefault(name, []).extend(cell.strip() for cell in cells if cell.strip())
    return [*found.values()]


def pass_on(rank: int, world_size: int) -> None:
    token = torch.ones(2)
    if rank > 0:
        dist.recv(token, rank - 1)
    if rank < world_size - 1:
        dist.send(token, rank + 1)
    dist.all_reduce(token)


def all_send_first(rank: int, world_size: int) -> None:
    dist.send(torch.ones(4), (rank + 1) % world_size)
    dist.recv(torch.ones(4), (rank - 1) % world_size)


def one_leaves(rank: int, world_size: int) -> None:
    dist.barrier()
    if rank == 1:
        raise ValueError("I will not play")
    dist.all_reduce(torch.ones(1))


def train(rank: int, world_size: int) -> None:
    model = DistributedDataParallel(nn.Linear(4, 2))
    model(torch.ones(3, 4)).sum().backward()


def in_threads(rank: int, world_size: int) -> None:
    """They share a group, so that which call of one rank meets which of the other is a matter of luck."""

    def reduce() -> None:
        for _ in range(10):
            dist.all_reduce(torch.ones(1))

    threads = [threading.Thread(target=reduce) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def some_return(rank: int, world_size: int) -> None:
    if rank == 0:
        dist.barrier()
    elif rank < 3:
        dist.recv(torch.zeros(1), (rank + 1) % world_size)


def join(rank: int, world_size: int) -> dict[str, str]:
    dist.init_process_group("gloo")
    return {name: os.environ[name] for name in ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")}


def one_forward_one_backward(rank: int, world_size: int) -> list[str]:
    """What torch's own schedule plans for this rank: forward and backward, in their order."""
    from torch.distributed.pipelining import PipelineStage, Schedule1F1B

    stage = PipelineStage(nn.Linear(3, 3), rank, world_size, torch.device("cpu"))
    schedule: Any = Schedule1F1B(stage, n_microbatches=4, loss_fn=nn.functional.mse_loss)
    target: dict[str, Any] = {"target": BATCH} if rank == world_size - 1 else {}
    for _ in range(2):  # in the first step the stages also tell each other what they will send
        schedule.step(*[BATCH][rank:], **target)
        dist.barrier()
    signs = {"FORWARD": "F", "FULL_BACKWARD": "B"}
    planned = [action.computation_type.name for action in schedule._get_pipeline_order()[rank]]
    return [signs[kind] for kind in planned if kind in signs]


@pytest.mark.parametrize(
    ("function", "failure", "wanted"),
    [
        (pass_on, None, ["send->1 | all_reduce", "recv<-0 | send->2 | all_reduce", "recv<-1 | all_reduce"]),
        (all_send_first, WorkersStuck, ["send->1 ...", "send->2 ...", "send->0 ..."]),
        (one_leaves, WorkerFailed, ["barrier | all_reduce ... !", "barrier", "barrier | all_reduce ... !"]),
        (train, None, ["DDP broadcast | DDP all_reduce"] * 3),
    ],
)
def test_a_timeline_ends_with_the_calls_that_were_made(
    function: Callable[[int, int], None], failure: type[Exception] | None, wanted: list[str]
) -> None:
    with pytest.raises(failure) if failure else contextlib.nullcontext() as failed:
        results = launch(function, 3, quiet=True)
    figure = show.timeline(failed.value if failed else results)
    drawn = [" | ".join(lane) for lane in lanes(figure)]
    assert all(map(str.endswith, drawn, wanted)), drawn
    assert ("waited forever" in figure.text) == (failure is WorkersStuck)


def test_collectives_of_threads_are_all_drawn_in_the_steps_in_which_they_met() -> None:
    results = launch(in_threads, 2, quiet=True)
    first, second = lanes(show.timeline(results))
    assert first == second
    assert first.count("all_reduce") == 30


@pytest.mark.parametrize("world_size", [2, 3])
def test_a_ring_ends_with_the_sums_and_the_bytes_of_the_textbook(world_size: int) -> None:
    last = show.ring(ring_all_reduce, world_size).text.split("\n\n")[-1]
    sums = sum(torch.arange(1, world_size + 1) * 10**rank for rank in range(world_size))
    assert isinstance(sums, Tensor)
    assert [line.split()[3:] for line in last.splitlines()[1:]] == [list(map(str, sums.tolist()))] * world_size
    assert f"each rank has sent {2 * (world_size - 1) * 4} B" in last


def test_the_sheet_has_every_collective_as_it_is_alone() -> None:
    for panel in figure("collectives").text.split("\n\n"):
        name, *rows = panel.splitlines()
        alone = [re.sub(r"[\[\]]", "", line.split(" | ")[-1]) for line in figure(name).text.splitlines()[2:]]
        nothing = {"nothing": "-", "undefined": "-"}
        assert [row.partition(" -> ")[2] for row in rows] == [nothing.get(one, one) for one in alone]


def test_which_ranks_wait_for_which_is_what_the_launcher_found() -> None:
    with pytest.raises(WorkersStuck) as stuck:
        launch(some_return, 4, quiet=True)
    assert show.waits(stuck.value).text.splitlines() == [
        "rank 0 waits for ranks 1, 2 and 3 in barrier",
        "rank 1 waits for rank 2 in recv",
        "rank 2 waits for rank 3 in recv",
        "rank 3 has returned",
    ]


def test_each_rank_joins_with_the_variables_that_it_had() -> None:
    results = launch(join, 3, join=False)
    told = [f"{name}={value}" for variables in results for name, value in variables.items()]
    assert [word for word in words_of(show.joining(results)) if "=" in word] == told


def test_torchs_schedule_is_drawn_in_the_order_that_torch_plans() -> None:
    results = launch(one_forward_one_backward, 4)
    drawn = [[work[0] for work in lane.split() if work != "."] for (lane,) in lanes(show.pipeline(results))]
    assert drawn == list(results)
