"""Answers to the exercise `stage_of`: right ones, and wrong ones with words of their sentences."""

from __future__ import annotations

import bisect
import math
import random
from fractions import Fraction
from typing import Any

import numpy as np
import torch
import torch.distributed
from torch import Tensor

dist: Any = torch.distributed


# right


def more_in_front(layer: int, layers: int, stages: int) -> int:
    sizes = [layers // stages + (stage < layers % stages) for stage in range(stages)]
    return next(stage for stage in range(stages) if layer < sum(sizes[: stage + 1]))


def as_tensor_split_does(layer: int, layers: int, stages: int) -> int:
    parts = torch.arange(layers).tensor_split(stages)
    return next(stage for stage, part in enumerate(parts) if layer in part)


def as_a_tensor(layer: int, layers: int, stages: int) -> Tensor:
    return torch.tensor(layer * stages // layers)


def more_at_the_end(layer: int, layers: int, stages: int) -> int:
    return stages - 1 - (layers - 1 - layer) * stages // layers


def by_array_split(layer: int, layers: int, stages: int) -> Any:
    parts = np.array_split(np.arange(layers), stages)
    return np.int64(next(stage for stage, part in enumerate(parts) if part[0] <= layer <= part[-1]))


def by_divmod(layer: int, layers: int, stages: int) -> int:
    each, more = divmod(layers, stages)
    front = more * (each + 1)
    return layer // (each + 1) if layer < front else more + (layer - front) // each


def by_rounded_borders(layer: int, layers: int, stages: int) -> int:
    borders = [round(stage * layers / stages) for stage in range(1, stages)]
    return bisect.bisect_right(borders, layer)


def by_fractions(layer: int, layers: int, stages: int) -> int:
    return math.floor(Fraction(layer, layers) * stages)


def dealt_and_sorted(layer: int, layers: int, stages: int) -> int:
    return sorted(other % stages for other in range(layers))[layer]


def walked_through(layer: int, layers: int, stages: int) -> int:
    stage, left = 0, layers
    while stages - stage:
        size = -(-left // (stages - stage))
        if layer < size:
            break
        layer, left, stage = layer - size, left - size, stage + 1
    return stage


RIGHT = [
    *(more_in_front, as_tensor_split_does, as_a_tensor, more_at_the_end, by_array_split, by_divmod),
    *(by_rounded_borders, by_fractions, dealt_and_sorted, walked_through),
]


# wrong


def dealt_like_cards(layer: int, layers: int, stages: int) -> int:
    return layer % stages


def rounded_down(layer: int, layers: int, stages: int) -> int:
    return layer // (layers // stages)


def the_rest_to_the_last(layer: int, layers: int, stages: int) -> int:
    return min(layer // (layers // stages), stages - 1)


def rounded_up(layer: int, layers: int, stages: int) -> int:
    return layer // -(-layers // stages)


def a_fraction(layer: int, layers: int, stages: int) -> float:
    return layer * stages / layers


def from_one(layer: int, layers: int, stages: int) -> int:
    return layer * stages // layers + 1


def backwards(layer: int, layers: int, stages: int) -> int:
    return stages - 1 - layer * stages // layers


def the_layer_itself(layer: int, layers: int, stages: int) -> int:
    return layer


def its_own_rank(layer: int, layers: int, stages: int) -> int:
    return int(dist.get_rank())


def shifted_by_the_rank(layer: int, layers: int, stages: int) -> int:
    return more_in_front(layer, layers, stages) if dist.get_rank() == 0 else more_at_the_end(layer, layers, stages)


def all_to_the_first(layer: int, layers: int, stages: int) -> int:
    return 0


def forgets_the_last(layer: int, layers: int, stages: int) -> int | None:
    return layer * stages // layers if layer < layers - 1 else None


def in_words(layer: int, layers: int, stages: int) -> str:
    return f"stage {layer * stages // layers}"


def in_a_list(layer: int, layers: int, stages: int) -> list[int]:
    return []


def asks_the_others(layer: int, layers: int, stages: int) -> int:
    answer = torch.tensor(layer * stages // layers)
    dist.broadcast(answer, 0)
    return int(answer)


def as_many_as_ranks(layer: int, layers: int, stages: int) -> int:
    return int(layer * dist.get_world_size() // layers)


def rounded(layer: int, layers: int, stages: int) -> int:
    return round(layer * stages / layers)


def rounded_to_the_nearest_below_the_last(layer: int, layers: int, stages: int) -> int:
    return min(round(layer * stages / layers), stages - 1)


def divided_by_the_stages(layer: int, layers: int, stages: int) -> int:
    return layer // stages


def one_layer_ahead(layer: int, layers: int, stages: int) -> int:
    return (layer + 1) * stages // layers


def over_the_last_layer(layer: int, layers: int, stages: int) -> int:
    return layer * (stages - 1) // max(1, layers - 1)


def the_rest_to_the_first(layer: int, layers: int, stages: int) -> int:
    each = layers // stages
    return max(0, stages - 1 - (layers - 1 - layer) // each)


def rounded_step(layer: int, layers: int, stages: int) -> int:
    return min(layer // round(layers / stages), stages - 1)


def by_chance(layer: int, layers: int, stages: int) -> int:
    return random.Random(layer).randrange(stages)


def a_whole_float(layer: int, layers: int, stages: int) -> float:
    return float(layer * stages // layers)


def a_digit(layer: int, layers: int, stages: int) -> str:
    return str(layer * stages // layers)


def is_it_mine(layer: int, layers: int, stages: int) -> bool:
    return bool(layer * stages // layers == dist.get_rank())


def all_layers_of_it(layer: int, layers: int, stages: int) -> list[int]:
    stage = layer * stages // layers
    return [other for other in range(layers) if other * stages // layers == stage]


def fifty_layers(layer: int, layers: int, stages: int) -> int:
    return min(layer * stages // 120, stages - 1)


def always_two(layer: int, layers: int, stages: int) -> int:
    return 0 if layer < layers / 2 else 1


WRONG = [
    (as_many_as_ranks, "It uses as many stages as there are ranks. Use `stages`, the number of stages"),
    (always_two, "It uses 2 of 5 stages: stages 2 to 4 have no layer. Use all of them"),
    (rounded, "Layer 90 goes to stage 2, but the stages are 0 to 1. Return one of these"),
    (rounded_to_the_nearest_below_the_last, "so stage 1 is the straggler. Make the stages equal"),
    (divided_by_the_stages, "Layer 4 goes to stage 2, but the stages are 0 to 1. Return one of these"),
    (one_layer_ahead, "Layer 119 goes to stage 2, but the stages are 0 to 1. Return one of these"),
    (
        over_the_last_layer,
        "Stage 0 has 119 layers and stage 1 has 1, so stage 0 is the straggler. Make the stages equal",
    ),
    (
        the_rest_to_the_first,
        "It works with 2 ranks, but not with 3: stage 0 has 3 layers and stage 1 has 1, so stage 0 is the "
        "straggler. Distribute the remainder, so that the stages differ by one layer at most",
    ),
    (
        rounded_step,
        "stage 5 has 10 layers and stage 0 has 8, so stage 5 is the straggler. Distribute the remainder, so that "
        "the stages differ by one layer at most",
    ),
    (by_chance, "Give each stage consecutive layers, so that an activation crosses each boundary once"),
    (a_whole_float, "It returns 0.0 for layer 0, but a stage is an integer"),
    (a_digit, "for layer 0, but a stage is an integer"),
    (is_it_mine, "It returns True for layer 0, but a stage is an integer"),
    (all_layers_of_it, "It returns a list of length 60 for layer 0, but a stage is an integer"),
    (fifty_layers, "Stage 1 has no layer"),
    (
        dealt_like_cards,
        "Layer 1 is on stage 1, but layer 2 is back on stage 0. Give each stage consecutive layers, so that an "
        "activation crosses each boundary once",
    ),
    (
        rounded_down,
        "It works for a model of 120 layers, but fails for layers not divisible by stages: layer 6 goes to stage "
        "2, but the stages are 0 to 1. Distribute the remainder of 7 / 2 over these stages",
    ),
    (
        the_rest_to_the_last,
        "It works with 2 ranks, but not with 3: stage 2 has 3 layers and stage 0 has 1, so stage 2 is the "
        "straggler. Distribute the remainder, so that the stages differ by one layer at most",
    ),
    (
        rounded_up,
        "It works with 2 ranks, but not with 3: stage 0 has 3 layers and stage 2 has 1, so stage 0 is the straggler",
    ),
    (a_fraction, "It returns 0.0 for layer 0, but a stage is an integer. Divide with //"),
    (from_one, "Layer 60 goes to stage 2, but the stages are 0 to 1. Count from 0"),
    (backwards, "The stages are in reverse order"),
    (the_layer_itself, "Layer 2 goes to stage 2, but the stages are 0 to 1. Return one of these"),
    (its_own_rank, "Rank 1 assigns the layers differently than rank 0. Compute the stage without the rank"),
    (shifted_by_the_rank, "Rank 1 assigns the layers differently than rank 0"),
    (all_to_the_first, "Stage 1 has no layer, so its rank would be idle. Give every stage a layer"),
    (forgets_the_last, "It returns None for layer 119. Return a stage for every layer"),
    (in_words, "for layer 0, but a stage is an integer"),
    (in_a_list, "for layer 0, but a stage is an integer"),
    (asks_the_others, "Every rank can compute the stage by itself. Leave out the communication"),
]


def empty(layer: int, layers: int, stages: int) -> None: ...


STUBS = [empty]
