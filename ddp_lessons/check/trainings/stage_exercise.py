"""The exercise of assigning layers to pipeline stages: consecutive layers, and equally many per stage."""

from __future__ import annotations

import numbers
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeGuard

import torch
import torch.distributed as dist
from torch import Tensor

from ddp_lessons.check.judging.examination import examine
from ddp_lessons.check.judging.exercise import Case, Difference, Exercise, named
from ddp_lessons.check.judging.exercise_trials import Trial, with_lateness
from ddp_lessons.check.judging.report import Report
from ddp_lessons.check.judging.unwritten_functions import mentions
from ddp_lessons.check.trials.sample_shares import InTurns, examine_in_turns


def stage_of(function: Callable[[int, int, int], int]) -> Report:
    """Check `function(layer, layers, stages)`: the number of the stage that owns this layer, the same on every rank.

    Layers and stages count from 0. Each stage owns consecutive layers, and stage 0 the first ones. Every stage has a
    layer, and the stages differ by one layer at most. There are at least as many layers as stages; the number of ranks
    does not matter.
    """
    exercise = _StageOf()
    exercise.asks_for_world_size = mentions(function, {"get_world_size"})
    return examine_in_turns(exercise, function, _AllLayers) if callable(function) else examine(exercise, function)


@dataclass(frozen=True)
class LayersTrial(Trial):
    """A model with so many layers, and one stage per rank or some more."""

    layers: int = 8
    more_stages: int = 0

    def stages(self, world_size: int) -> int:
        return world_size + self.more_stages

    def tensor(self, rank: int) -> Tensor:
        return torch.arange(self.layers)

    def arguments(self, rank: int) -> tuple[Any, ...]:
        return self.layers, self.stages(dist.get_world_size()), self.tensor(rank)

    def named(self, rank: int) -> str:
        return f"a model of {self.layers} {'layer' if self.layers == 1 else 'layers'}"


class _AllLayers(InTurns):
    """Ask for one layer after the other."""

    def __call__(self, layers: int, stages: int, numbers_of_layers: Tensor) -> object:  # type: ignore[override]
        answers = [_plain(self.written(layer, layers, stages)) for layer in numbers_of_layers.tolist()]
        return None if all(answer is None for answer in answers) else answers


def _plain(answer: Any) -> object:
    """A tensor with one integer is accepted as well."""
    if isinstance(answer, Tensor) and answer.numel() == 1 and not answer.is_floating_point():
        return int(answer)
    return answer


class _StageOf(Exercise):
    name = "stage_of"
    parameters = ("layer", "layers", "stages")
    thing, copy = "model", ""
    world_sizes = (2, 3, 4, 5, 1)
    messages_only = False
    keeps_input = True
    returns_answer = False
    asks_for_world_size = False
    measured = "bytes sent by the busiest rank"
    yardstick = "needed"
    trials = with_lateness(
        [
            LayersTrial((), layers=120),
            LayersTrial((), layers=12, trait="the next model"),
            LayersTrial((), layers=7, trait="layers not divisible by stages"),
            LayersTrial((), layers=9, trait="layers not divisible by stages"),
            LayersTrial((), layers=5, trait="only a few more layers than stages"),
            LayersTrial((), layers=1, trait="one layer", largest_world=1),
            LayersTrial((), layers=50, trait="more stages than ranks", more_stages=3),
            # in floats, 7 / 22 * 22 is slightly less than 7
            LayersTrial((), layers=22, trait="one layer per stage", more_stages=20, largest_world=2),
        ]
    )

    def difference(self, case: Case, rank: int) -> Difference | None:
        assert isinstance(case.trial, LayersTrial)
        answers, stages = case.outcomes[rank].answer, case.trial.stages(case.world_size)
        if not isinstance(answers, list):
            return Difference("answer", named(answers), "a stage", "It returns None. Return the number of the stage.")
        for layer, answer in enumerate(answers):
            if kind := _why_no_stage(answers, layer, stages):
                return Difference(f"layer {layer}", _shown(answer), f"0 to {stages - 1}", kind)
        if found := _unlike(case):
            return found
        if mistake := _why_not_fair([int(answer) for answer in answers], stages):
            as_ranks = stages != case.world_size and set(answers) == set(range(case.world_size))
            if as_ranks and self.asks_for_world_size:
                mistake = "It uses as many stages as there are ranks. Use `stages`, the number of stages."
            owned = ", ".join(str(answers.count(stage)) for stage in range(stages))
            return Difference("layers by stage", owned, _fair(len(answers), stages), mistake)
        return None

    def too_much(self, case: Case) -> str:
        return "Every rank can compute the stage by itself. Leave out the communication." if self.carried(case) else ""

    def carried(self, case: Case) -> int:
        return max(case.traffic.brought)

    def textbook(self, case: Case) -> int:
        return 0


def _why_no_stage(answers: Sequence[object], layer: int, stages: int) -> str:
    answer = answers[layer]
    if answer is None:
        return f"It returns None for layer {layer}. Return a stage for every layer."
    if not _is_whole(answer):
        is_float = isinstance(answer, float) or (isinstance(answer, Tensor) and answer.is_floating_point())
        hint = "Divide with //" if is_float else "Return an integer"
        return f"It returns {_shown(answer)} for layer {layer}, but a stage is an integer. {hint}."
    number = int(answer)
    if 0 <= number < stages:
        return ""
    there = "the only stage is 0" if stages == 1 else f"the stages are 0 to {stages - 1}"
    why = "Return one of these"
    if number >= stages and not any(_is_whole(one) and one == 0 for one in answers):
        why = "Count from 0"
    elif number == stages and len(answers) % stages and layer == len(answers) // stages * stages:
        why = f"Distribute the remainder of {len(answers)} / {stages} over these stages"
    return f"Layer {layer} goes to stage {number}, but {there}. {why}."


def _is_whole(answer: object) -> TypeGuard[numbers.Integral]:
    return isinstance(answer, numbers.Integral) and not isinstance(answer, bool)


def _unlike(case: Case) -> Difference | None:
    """The first layer that some rank assigns to another stage than rank 0 does."""
    first = case.outcomes[0].answer
    for rank, outcome in enumerate(case.outcomes):
        if not isinstance(first, list) or not isinstance(outcome.answer, list):
            continue
        for layer, (stage, at_first) in enumerate(zip(outcome.answer, first, strict=True)):
            if _is_whole(stage) and _is_whole(at_first) and stage != at_first:
                mistake = f"Rank {rank} assigns the layers differently than rank 0. Compute the stage without the rank."
                return Difference(f"layer {layer} on rank {rank}", str(stage), f"as on rank 0: {at_first}", mistake)
    return None


def _why_not_fair(owners: list[int], stages: int) -> str:
    sizes = [owners.count(stage) for stage in range(stages)]
    if owners == sorted(owners, reverse=True) and owners != sorted(owners):
        return "The stages are in reverse order. Stage 0 receives the data, so it must own the first layers."
    if owners != sorted(owners):
        layer = next(one for one in range(1, len(owners)) if owners[one] < owners[one - 1])
        return (
            f"Layer {layer - 1} is on stage {owners[layer - 1]}, but layer {layer} is back on stage {owners[layer]}. "
            "Give each stage consecutive layers, so that an activation crosses each boundary once."
        )
    used = owners[-1] + 1
    if 1 < used < stages and 0 not in sizes[:used]:
        empty = f"stages {used} to {stages - 1} have" if used < stages - 1 else f"stage {used} has"
        return f"It uses {used} of {stages} stages: {empty} no layer. Use all of them."
    if 0 in sizes:
        return f"Stage {sizes.index(0)} has no layer, so its rank would be idle. Give every stage a layer."
    largest, smallest = sizes.index(max(sizes)), sizes.index(min(sizes))
    if sizes[largest] - sizes[smallest] > 1:
        share = "Distribute the remainder, so that the stages differ by one layer at most"
        return (
            f"Stage {largest} has {sizes[largest]} layers and stage {smallest} has {sizes[smallest]}, so stage "
            f"{largest} is the straggler. {share if len(owners) % stages else 'Make the stages equal'}."
        )
    return ""


def _fair(layers: int, stages: int) -> str:
    if layers % stages == 0:
        return f"{layers // stages} each"
    return f"{layers // stages} or {layers // stages + 1} each"


def _shown(answer: object) -> str:
    return (
        named(answer) if answer is None or isinstance(answer, Tensor | list) else str(getattr(answer, "kind", answer))
    )
