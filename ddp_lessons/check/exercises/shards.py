"""Shards of tensors and stages of a pipeline, lesson 15."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.distributed import get_rank, get_world_size
from torch.nn import functional as F

from ddp_lessons.check.differences import plain, shown
from ddp_lessons.check.exercise import Budget, Exercise, Fields, Mistake, Program, Trial
from ddp_lessons.check.exercises.cluster import integer
from ddp_lessons.check.trials import tensor
from ddp_lessons.record.event import Event
from ddp_lessons.run.diagnosis.wording import joined
from ddp_lessons.run.recording.interception import recorder
from ddp_lessons.train import pipeline, sharding

_LOST = "The remainder is lost: no rank has it. Round the length up, and pad with zeros."
_IN_FRONT = "The padding comes before the elements. Pad at the end of the tensor."
_HINTS = {
    "lengths": "The shards have different lengths, but all_gather needs equal ones. Pad the shorter ones with zeros.",
    "answer": "Rank {rank} does not have its own shard. Start at rank * length, and pad the end with zeros.",
    "given": "The answer is correct, but the given tensor has changed. Work on a copy: flat.clone().",
    "memory": "The answer is correct, but it is a view that keeps a longer tensor in memory. Return a copy of the "
    "shard, with clone().",
    "sent": "The answer is correct, but the ranks send more than needed. Each rank needs only its shard of the mean, "
    "so use reduce_scatter.",
}
_TENSORS = [
    Trial(tensor((120,))),
    Trial(tensor((121,)), "a length not divisible by world_size"),
    Trial(tensor((7,), "float64"), "another dtype (float64)"),
    Trial(tensor((3,)), "a tensor with fewer elements than ranks"),
]


def _same_on_all(rank: int, world_size: int, chance: torch.Generator, make: Callable[..., Any]) -> Any:
    return make(0, world_size, torch.Generator().manual_seed(1))


def _with_lengths(of_ranks: Sequence[Fields]) -> Sequence[Fields]:
    answers = [fields["answer"] for fields in of_ranks]
    lengths = {len(answer) for answer in answers if isinstance(answer, Tensor) and answer.dim() == 1}
    return [{"lengths": joined(sorted(lengths)) if len(lengths) > 1 else "equal", **fields} for fields in of_ranks]


def _shard_called(program: Program, flat: Tensor) -> Fields:
    answer = program(flat)
    is_view = isinstance(answer, Tensor) and answer.untyped_storage().nbytes() > max(answer.nbytes, 64)  # a block
    return {"answer": answer, "given": flat, "memory": "of a longer tensor" if is_view else "its own"}


def _padded(flat: Tensor, in_front: bool = False) -> Tensor:
    missing = -len(flat) % get_world_size()
    return F.pad(flat, (missing, 0) if in_front else (0, missing))


def _without_remainder(flat: Tensor) -> Tensor:
    return flat[: len(flat) - len(flat) % get_world_size()].clone()


shard = Exercise(
    """Check `function(flat)`: every rank returns its shard of a 1-D tensor that is the same on all ranks.

    The shards are in rank order, equally long and as short as possible; the last ones are padded with zeros. A shard
    has its own memory, so that the whole tensor can be freed. No communication is necessary.
    """,
    solution=sharding.shard,
    call=_shard_called,
    together=_with_lengths,
    trials=[
        *(Trial(partial(_same_on_all, make=one.make), one.trait) for one in _TENSORS),
        Trial(partial(_same_on_all, make=tensor((119,), "int64")), "integers (int64)"),
    ],
    budget=Budget(most=lambda case: 0, too_much="Every rank already has the whole tensor, so slice it."),
    hints=_HINTS,
    mistakes=[
        Mistake(lambda flat: sharding.shard(_without_remainder(flat)), _LOST),
        Mistake(lambda flat: sharding.shard(_padded(flat, in_front=True)), _IN_FRONT),
        Mistake(
            lambda flat: _padded(flat)[get_rank() :: get_world_size()].clone(),
            "The shard's elements are not contiguous, so all_gather would mix up their order. Take one contiguous "
            "slice.",
        ),
    ],
)


def _mean_called(program: Program, flat: Tensor) -> Fields:
    before = len(recorder.recorded().calls)
    answer = program(flat)
    sent = sum(map(_bytes_passed_on, recorder.recorded().calls[before:]))
    needed = (get_world_size() - 1) * sharding.shard_length(flat) * flat.element_size()
    told = f"{sent / needed:.3g} times as much as needed" if sent > 1.01 * needed + 64 else "as much as needed"
    return {"answer": answer, "given": flat, "sent": told}


def _bytes_passed_on(event: Event) -> float:
    """What a rank sends for a call, on average, in a ring: of w parts all but one, in a sum or a copy."""
    ranks = max(1, len(event.group_ranks))
    once = (ranks - 1) / ranks
    times = {"send": 1.0, "recv": 0.0, "all_reduce": 2 * once, "all_gather": ranks - 1.0}
    return event.bytes * times.get(event.operation, once)


sharded_mean = Exercise(
    """Check `function(flat)`: every rank returns its shard of the mean over the ranks' tensors, which are equally long.

    The shards are those of `check.shard`. You may use any collectives or messages, but each rank may send only one
    shard to each other rank, which is half of what an all_reduce sends.
    """,
    solution=sharding.sharded_mean,
    call=_mean_called,
    together=_with_lengths,
    tolerance=1e-6,
    trials=_TENSORS,
    budget=Budget(measured="bytes passed to torch.distributed by the busiest rank"),
    hints=_HINTS
    | {"answer": "Rank {rank} does not have its shard of the mean. Sum the tensors over the ranks, then divide."},
    mistakes=[
        Mistake(
            lambda flat: sharding.sharded_mean(flat) * get_world_size(),
            "Your function returns the sum. Divide it by world_size.",
        ),
        Mistake(sharding.shard, "Rank {rank} returns only its own values. Sum them over all ranks, then divide."),
        Mistake(lambda flat: sharding.sharded_mean(_without_remainder(flat)), _LOST),
        Mistake(lambda flat: sharding.sharded_mean(_padded(flat, in_front=True)), _IN_FRONT),
        Mistake(
            lambda flat: sharding.sharded_mean(sharding.shard(flat).repeat(get_world_size())),
            "Your function adds up pieces from different positions. For rank r, add up piece r of every rank's tensor.",
        ),
    ],
)


def _model(rank: int, world_size: int, chance: torch.Generator, layers: int, more_stages: int = 0) -> tuple[Any, ...]:
    return f"0 to {layers - 1}", layers, world_size + more_stages


def _stages_called(program: Program, every: str, layers: int, stages: int) -> Fields:
    answers = [program(layer, layers, stages) for layer in range(layers)]
    owners = [*map(integer, answers)]
    odd = [layer for layer in range(layers) if owners[layer] not in range(stages)]
    sizes = [owners.count(stage) for stage in range(stages)]
    back = [layer for layer in range(1, layers) if owners[layer] < owners[layer - 1]]
    return {
        "owners": owners,
        "stage": f"{shown(plain(answers[odd[0]]))} for layer {odd[0]}" if odd else "one of the stages",
        "order": f"layer {back[0]} is back on stage {owners[back[0]]}" if back else "consecutive",
        "layers by stage": joined(sizes) if max(sizes) - min(sizes) > 1 else "almost equal",
    }


def _compared(of_ranks: Sequence[Fields]) -> Sequence[Fields]:
    first = of_ranks[0]["owners"]
    return [{**one, "owners": "as on rank 0" if one["owners"] == first else "not as on rank 0"} for one in of_ranks]


stage_of = Exercise(
    """Check `function(layer, layers, stages)`: it returns the number of the stage that owns this layer.

    Layers and stages count from 0. Each stage owns consecutive layers, and stage 0 the first ones. Every stage has a
    layer, and their numbers of layers differ by at most one. There are at least as many layers as stages. The result is
    the same on every rank, for any number of ranks.
    """,
    solution=pipeline.stage_of,
    call=_stages_called,
    together=_compared,
    trials=[
        Trial(partial(_model, layers=120)),
        Trial(partial(_model, layers=7), "layers not divisible by stages"),
        Trial(partial(_model, layers=5), "only a few more layers than stages"),
        Trial(partial(_model, layers=50, more_stages=3), "more stages than ranks"),
        # in floats, 7 / 22 * 22 is slightly less than 7
        Trial(partial(_model, layers=22, more_stages=20), "one layer per stage", largest_world=2),
    ],
    budget=Budget(most=lambda case: 0, too_much="Every rank can compute the stage by itself."),
    hints={
        "owners": "Rank {rank} assigns the layers differently from rank 0. Compute the stage without using the rank.",
        "stage": "A stage is an integer from 0 to stages - 1. Divide with //, and spread any remainder over the "
        "stages.",
        "order": "The layers are out of order. Give each stage consecutive layers, starting with stage 0, so that an "
        "activation crosses each boundary once.",
        "layers": "The largest stage is a straggler. Let the stages differ by at most one layer.",
    },
    mistakes=[
        Mistake(
            lambda layer, layers, stages: layer * get_world_size() // layers,
            "Your function uses as many stages as there are ranks. Use the argument `stages` instead.",
        ),
    ],
)
