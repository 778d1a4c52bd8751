"""What ranks hold during a step: the bytes that they logged, drawn to scale, and the calls of each phase."""

from __future__ import annotations

import functools

import pytest
import torch
import torch.distributed as dist
from nights import nightly
from torch import nn
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

from ddp_lessons import launch, show, tell
from ddp_lessons.train.memory import bytes_held
from ddp_lessons.train.sharding import ShardedOptimizer

WEIGHTS = 8 * 8 * 4  # bytes: one layer without a bias, in float32
adam = functools.partial(torch.optim.Adam, lr=0.01)


def train(way: str, steps: int = 3) -> None:
    layer: nn.Module = nn.Linear(8, 8, bias=False)
    if way == "DDP":
        layer = DistributedDataParallel(layer)
    elif way == "FSDP2":
        from torch.distributed.device_mesh import init_device_mesh

        fully_shard(layer, mesh=init_device_mesh("cpu", (dist.get_world_size(),)))
    optimizer = ShardedOptimizer(layer.parameters(), adam) if way == "by hand" else adam(layer.parameters())
    for _ in range(steps):
        optimizer.zero_grad()
        tell("forward", **bytes_held(layer, optimizer))
        loss = layer(torch.ones(2, 8)).sum()
        tell("backward", **bytes_held(layer, optimizer))
        loss.backward()
        tell("optimizer step", **bytes_held(layer, optimizer))
        optimizer.step()
    tell("", **bytes_held(layer, optimizer))


@pytest.fixture(scope="module")
def figure() -> show.Figure:
    ways = ("DDP", "by hand", "FSDP2")
    return show.sharding({way: launch(lambda rank, world_size, way: train(way), 2, way) for way in ways})


def bars(figure: show.Figure, step: int, hatched: bool = False) -> list[float]:
    """The widths of what is filled, or hatched, at a step: rank by rank, way by way."""
    shapes = figure.document["layouts"][-1]["shapes"]
    seen = [s for s in shapes if s.get("since", 0) <= step < s.get("until", 1000) and "box" in s and "from" not in s]
    of_ranks = [s for s in seen if s.get("edge", "").startswith("rank ")]
    return [s["box"][2] for s in of_ranks if ("is_hatched" in s if hatched else "fill" in s and "opacity" not in s)]


@nightly
def test_the_text_has_what_was_logged_and_the_calls_of_each_phase(figure: show.Figure) -> None:
    rows = [line.split() for line in figure.text.splitlines()]
    ddp, by_hand, fsdp = (rows[start + 1 : start + 5] for start in (1, 6, 11))
    assert [row[2:5] for row in ddp[:1]] == [[f"{WEIGHTS}", "0", f"{2 * WEIGHTS}"]]
    assert [row[-2:] for row in (ddp[1], by_hand[2], fsdp[0])] == [
        ["1", "all_reduce"],
        ["1", "all_gather"],
        ["1", "all_gather"],
    ]
    assert fsdp[1][-1] == "reduce_scatter"
    assert by_hand[2][3:6] == [f"{WEIGHTS * 3 // 2}", f"{WEIGHTS}", f"{WEIGHTS}"]
    assert fsdp[3][3:6] == [f"{WEIGHTS // 2}", f"{WEIGHTS // 2}", f"{WEIGHTS}"]


def test_a_shard_is_drawn_as_large_as_its_part_of_the_whole(figure: show.Figure) -> None:
    ddp, by_hand, fsdp = (bars(figure, 1)[place : place + 2] for place in (0, 2, 4))
    assert ddp[0] == ddp[1]
    assert by_hand == pytest.approx([1.5 * ddp[0]] * 2, abs=0.1)
    assert fsdp == pytest.approx([0.5 * ddp[0]] * 2, abs=0.1)
    # a single unit of FSDP2 is the outermost one, which keeps its weights until backward, and its shard of them
    assert bars(figure, 0)[4:] == pytest.approx([1.5 * ddp[0]] * 2, abs=0.1)
    of_optimizer = bars(figure, 0, hatched=True)
    assert of_optimizer == pytest.approx([of_optimizer[0]] * 2 + [of_optimizer[0] / 2] * 4, abs=0.1)


def test_shards_of_two_ranks_lie_beside_each_other_and_copies_below_each_other(figure: show.Figure) -> None:
    shapes = figure.document["layouts"][0]["shapes"]  # one way below the other
    hatched = [s["box"] for s in shapes if s.get("is_hatched") and s.get("edge", "").startswith("rank ")]
    ddp, by_hand = hatched[:2], hatched[2:4]
    assert ddp[0][0] == ddp[1][0]
    assert by_hand[1][0] == pytest.approx(by_hand[0][0] + by_hand[0][2], abs=0.1)


def test_gradients_come_with_backward_and_squares_only_where_something_travels(figure: show.Figure) -> None:
    shapes = figure.document["layouts"][-1]["shapes"]
    pale = [s for s in shapes if s.get("opacity") == 0.3 and s.get("edge") == "rank 0"]
    assert [(s.get("since", 0), s.get("until")) for s in pale[:2]] == [(0, 1), (3, None)]
    squares = [s["since"] for s in shapes if "from" in s]
    assert {step: squares.count(step) for step in set(squares)} == {2: 2, 3: 4, 4: 2}
    assert len(figure.document["captions"]) == 5


def test_what_has_nothing_logged_is_refused() -> None:
    with pytest.raises(ValueError, match="every rank has to log what it holds"):
        show.sharding({"DDP": launch(lambda rank, world_size: None, 2)})
