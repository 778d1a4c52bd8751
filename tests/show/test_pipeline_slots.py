"""The slots of a pipeline: each piece of work once, none before what it needs, and the bubble of the formula."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.distributed as dist
from nights import by_day
from torch import Tensor, nn

from ddp_lessons import launch, show

BATCH = torch.randn(8, 3)


def send_forward(micro_batches: int) -> list[tuple[Tensor, Tensor]]:
    """Send micro-batches through this rank's stage by hand; return its inputs and outputs."""
    rank, last, passed = dist.get_rank(), dist.get_world_size() - 1, []
    for given in BATCH.chunk(micro_batches):
        given = given.clone().requires_grad_()
        if rank > 0:
            dist.recv(given.detach(), rank - 1)
        output = given * 2
        if rank < last:
            dist.send(output.detach(), rank + 1)
        passed.append((given, output))
    return passed


def forward(rank: int, world_size: int, micro_batches: int) -> None:
    send_forward(micro_batches)


def both_ways(rank: int, world_size: int, micro_batches: int, steps: int = 1) -> None:
    for _ in range(steps):
        dist.barrier()
        for given, output in send_forward(micro_batches):
            gradient = torch.ones_like(output)
            if rank < world_size - 1:
                dist.recv(gradient, rank + 1)
            output.backward(gradient)
            if rank > 0:
                assert given.grad is not None
                dist.send(given.grad, rank - 1)
    dist.barrier()


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


def lanes(figure: show.Figure) -> list[list[str]]:
    return [line.split(" | ")[1].split() for line in figure.text.splitlines() if line.startswith("rank ")]


@pytest.mark.parametrize(("stages", "micro_batches"), by_day([(2, 1), (2, 4), (3, 2), (4, 8)], 1))
def test_the_bubble_is_what_the_formula_says(stages: int, micro_batches: int) -> None:
    share = 100 * (stages - 1) / (micro_batches + stages - 1)
    for function, ways in ((forward, 1), (both_ways, 2)):
        figure = show.pipeline(launch(function, stages, micro_batches))
        drawn = lanes(figure)
        assert {len(lane) for lane in drawn if lane[-1] != "."} == {ways * (micro_batches + stages - 1)}
        assert f"a bubble of {share:.0f} %" in figure.text


def test_each_micro_batch_is_forward_on_one_stage_after_the_other_and_then_back() -> None:
    drawn = lanes(show.pipeline(launch(both_ways, 3, 2)))
    for number in "01":
        there = [lane.index(f"F{number}") for lane in drawn]
        back = [lane.index(f"B{number}") for lane in reversed(drawn)]
        assert [*there, *back] == sorted({*there, *back})
        assert sum(lane.count(f"F{number}") + lane.count(f"B{number}") for lane in drawn) == 6


def test_torchs_schedule_is_drawn_in_the_order_that_torch_plans() -> None:
    results = launch(one_forward_one_backward, 4)
    drawn = [[work[0] for work in lane if work != "."] for lane in lanes(show.pipeline(results))]
    assert drawn == list(results)


def test_of_several_steps_the_last_is_drawn_and_the_text_is_the_same_in_each_run() -> None:
    texts = {show.pipeline(launch(both_ways, 2, 2, steps)).text for steps in (1, 2, 3)}
    assert len(texts) == 1


def test_a_micro_batch_sets_out_from_its_slot_on_the_stage_before_and_idle_slots_come_with_their_step() -> None:
    document = show.pipeline(launch(forward, 2, 2)).document
    assert document["captions"][0] == "Before the first micro-batch."
    assert document["captions"][1] == "Step 1 of 3: rank 1 idle."
    assert document["captions"][3] == "Step 3 of 3: rank 0 idle. All in all, 2 of 6 slots are idle, a bubble of 33 %."
    shapes = document["layouts"][-1]["shapes"]
    travelling = [shape for shape in shapes if "from" in shape and "box" in shape]
    assert [shape["since"] for shape in travelling] == [2, 3]
    assert all(shape["from"][0] < 0 and shape["from"][1] < 0 for shape in travelling)  # from above and from the left
    assert [shape["since"] for shape in shapes if shape.get("is_dashed") and "since" in shape] == [3, 1]


def test_what_is_no_pipeline_is_said() -> None:
    assert "No rank sent a message" in show.pipeline(launch(lambda rank, world_size: None, 2)).text
