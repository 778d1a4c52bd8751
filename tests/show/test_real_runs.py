"""Figures of real launches: what the recorder gives is what they draw, and the values are those that torch returned."""

from __future__ import annotations

import contextlib
import functools
import os
import re
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cloudpickle  # type: ignore[import-untyped]
import pytest
import torch
import torch.distributed as dist
from drawn import words_of
from figure_catalog import figure
from nights import by_day, nightly
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from ddp_lessons import WorkerFailed, WorkersStuck, launch, show, tell
from ddp_lessons.train.memory import bytes_held
from ddp_lessons.train.ring import ring_all_reduce
from ddp_lessons.train.sharding import ShardedOptimizer

# as functions of a cell do, so that ranks need not import this module, and all that it imports
cloudpickle.register_pickle_by_value(sys.modules[__name__])
BATCH = torch.randn(8, 3)
WEIGHTS = 8 * 8 * 4  # bytes: one layer without a bias, in float32


def lanes(figure: show.Figure) -> list[list[str]]:
    """What the text has in each rank's row, through all of its lines."""
    found: dict[str, list[str]] = {}
    for line in figure.text.splitlines():
        name, *cells = line.split(" | ")
        if line.startswith("rank "):
            found.setdefault(name, []).extend(cell.strip() for cell in cells if cell.strip())
    return [*found.values()]


def slots(figure: show.Figure) -> list[list[str]]:
    return [lane[0].split() for lane in lanes(figure)]


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


def is_refused(rank: int, world_size: int) -> None:
    try:
        dist.all_gather([torch.empty(other + 1) for other in range(world_size)], torch.ones(rank + 1))
    except RuntimeError:
        dist.barrier()


def train(rank: int, world_size: int) -> None:
    model = DistributedDataParallel(nn.Linear(4, 2))
    model(torch.ones(3, 4)).sum().backward()


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


def some_return(rank: int, world_size: int) -> None:
    if rank == 0:
        dist.barrier()
    elif rank < 3:
        dist.recv(torch.zeros(1), (rank + 1) % world_size)


def join(rank: int, world_size: int, late: int = -1, coming: str = "") -> dict[str, str]:
    if rank == late:
        while len(os.listdir(coming)) < world_size - 1:
            time.sleep(0.01)
        time.sleep(0.5)
    elif coming:
        Path(coming, str(rank)).touch()
    dist.init_process_group("gloo")
    dist.all_reduce(torch.ones(1))
    return {name: os.environ[name] for name in ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")}


def both_ways(rank: int, world_size: int, micro_batches: int) -> None:
    """Send micro-batches through this rank's stage, and their gradients back."""
    passed = []
    for given in BATCH.chunk(micro_batches):
        given = given.clone().requires_grad_()
        if rank > 0:
            dist.recv(given.detach(), rank - 1)
        passed.append((given, given * 2))
        if rank < world_size - 1:
            dist.send(passed[-1][1].detach(), rank + 1)
    for _, output in passed:
        gradient = torch.ones_like(output)
        if rank < world_size - 1:
            dist.recv(gradient, rank + 1)
        output.backward(gradient)
        if rank > 0:
            dist.send(gradient, rank - 1)


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


def hold(rank: int, world_size: int, way: str) -> None:
    """Log what a rank holds in each phase of three training steps."""
    layer: nn.Module = nn.Linear(8, 8, bias=False)
    if way == "DDP":
        layer = DistributedDataParallel(layer)
    elif way == "FSDP2":
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.fsdp import fully_shard

        fully_shard(layer, mesh=init_device_mesh("cpu", (world_size,)))
    adam = functools.partial(torch.optim.Adam, lr=0.01)
    optimizer = ShardedOptimizer(layer.parameters(), adam) if way == "by hand" else adam(layer.parameters())
    for _ in range(3):
        optimizer.zero_grad()
        tell("forward", **bytes_held(layer, optimizer))
        loss = layer(torch.ones(2, 8)).sum()
        tell("backward", **bytes_held(layer, optimizer))
        loss.backward()
        tell("optimizer step", **bytes_held(layer, optimizer))
        optimizer.step()
    tell("", **bytes_held(layer, optimizer))


@pytest.mark.parametrize(
    ("function", "failure", "wanted"),
    [
        (pass_on, None, ["send->1 | all_reduce", "recv<-0 | send->2 | all_reduce", "recv<-1 | all_reduce"]),
        (all_send_first, WorkersStuck, ["send->1 ...", "send->2 ...", "send->0 ..."]),
        (one_leaves, WorkerFailed, ["barrier | all_reduce ... !", "barrier", "barrier | all_reduce ... !"]),
        (is_refused, None, ["all_gather refused | barrier"] * 3),
        (train, None, ["DDP all_gather | DDP broadcast | DDP broadcast | DDP all_reduce"] * 3),
    ],
)
def test_a_timeline_has_the_calls_that_were_made(
    function: Callable[[int, int], None], failure: type[Exception] | None, wanted: list[str]
) -> None:
    with pytest.raises(failure) if failure else contextlib.nullcontext() as failed:
        results = launch(function, 3, quiet=True)
    figure = show.timeline(failed.value if failed else results)
    assert [" | ".join(lane) for lane in lanes(figure)] == wanted
    assert ("waited forever" in figure.text) == (failure is WorkersStuck)


@pytest.mark.parametrize("share_a_group", [False, True])
def test_collectives_of_threads_are_all_drawn_in_the_steps_in_which_they_met(share_a_group: bool) -> None:
    results = launch(in_threads, 2, share_a_group, quiet=True)
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
        "rank 0 waits for ranks 1, 2 and 3, in barrier",
        "rank 1 waits for rank 2, in recv",
        "rank 2 waits for rank 3, in recv",
        "rank 3 has returned",
    ]


def test_each_rank_joins_with_the_variables_that_it_had() -> None:
    results = launch(join, 3, join=False)
    told = [f"{name}={value}" for variables in results for name, value in variables.items()]
    assert [word for word in words_of(show.joining(results)) if "=" in word] == told


@nightly
@pytest.mark.parametrize("late", [0, 1])
def test_before_rank_0_there_is_no_store_and_with_the_last_rank_all_have_joined(late: int, tmp_path: Path) -> None:
    figure = show.joining(launch(join, 3, late, str(tmp_path), join=False))
    assert figure.text == show.joining(launch(join, 3, join=False)).text
    first, second, last = figure.captions[2:5]
    assert [one.endswith("waiting.") for one in (first, second, last)] == [True, True, False]
    assert "has not opened the store yet" in first or late
    assert re.match(rf"Rank {late} calls init_process_group \d+\.\d s after", last)


@pytest.mark.parametrize(("stages", "micro_batches"), by_day([(2, 4), (2, 1), (3, 2), (4, 8)], 1))
def test_the_bubble_of_a_pipeline_is_what_the_formula_says(stages: int, micro_batches: int) -> None:
    drawn = show.pipeline(launch(both_ways, stages, micro_batches))
    assert {len(lane) for lane in slots(drawn)} == {2 * (micro_batches + stages - 1)}
    assert f"a bubble of {100 * (stages - 1) / (micro_batches + stages - 1):.0f} %" in drawn.text


def test_torchs_schedule_is_drawn_in_the_order_that_torch_plans() -> None:
    results = launch(one_forward_one_backward, 4)
    assert [[work[0] for work in lane if work != "."] for lane in slots(show.pipeline(results))] == list(results)


@nightly
def test_what_ranks_hold_and_send_is_what_a_step_of_ddp_zero_and_fsdp_needs() -> None:
    ways = ("DDP", "by hand", "FSDP2")
    text = show.sharding({way: launch(hold, 2, way) for way in ways}).text
    rows = [line.split() for line in text.splitlines()]
    ddp, by_hand, fsdp = (rows[start + 1 : start + 5] for start in (1, 6, 11))
    assert ddp[0][2:5] == [f"{WEIGHTS}", "0", f"{2 * WEIGHTS}"]
    assert by_hand[2][3:6] == [f"{WEIGHTS * 3 // 2}", f"{WEIGHTS}", f"{WEIGHTS}"]
    assert fsdp[3][3:6] == [f"{WEIGHTS // 2}", f"{WEIGHTS // 2}", f"{WEIGHTS}"]
    assert [row[-1] for row in (ddp[1], by_hand[2], *fsdp[:2])] == [
        "all_reduce",
        "all_gather",
        "all_gather",
        "reduce_scatter",
    ]
