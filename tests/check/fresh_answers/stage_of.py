import os
import time

import torch
import torch.distributed as dist

RIGHT, WRONG = [], []


def right(answer, what):
    RIGHT.append((answer, what))


def wrong(answer, what, words):
    WRONG.append((answer, what, words))


import bisect


def stage_in_one_line(layer, layers, stages):
    return layer * stages // layers
right(stage_in_one_line, "the one line")


def stage_first_ones_larger(layer, layers, stages):
    size, rest = divmod(layers, stages)
    if layer < rest * (size + 1):
        return layer // (size + 1)
    return rest + (layer - rest * (size + 1)) // size
right(stage_first_ones_larger, "the first stages take the rest, divmod")


def stage_last_ones_larger(layer, layers, stages):
    return (stages * (layer + 1) - 1) // layers
right(stage_last_ones_larger, "rounds the other way")


def stage_by_tensor_split(layer, layers, stages):
    for stage, mine in enumerate(torch.arange(layers).tensor_split(stages)):
        if layer in mine.tolist():
            return stage
right(stage_by_tensor_split, "tensor_split and a search")


def stage_by_bisect(layer, layers, stages):
    firsts = [stage * layers // stages for stage in range(stages)]
    return bisect.bisect_right(firsts, layer) - 1
right(stage_by_bisect, "first layers of the stages, bisect")


def stage_by_dealing(layer, layers, stages):
    sizes = [0] * stages
    for number in range(layers):
        sizes[number % stages] += 1
    stage = 0
    while layer >= sizes[stage]:
        layer -= sizes[stage]
        stage += 1
    return stage
right(stage_by_dealing, "deals sizes out, then walks")


def stage_by_counting_borders(layer, layers, stages):
    borders = [-(-layers * s // stages) for s in range(1, stages)]
    return sum(layer >= border for border in borders)
right(stage_by_counting_borders, "counts the borders that lie before it")


def stage_rounds_down_the_size(layer, layers, stages):
    return layer // (layers // stages)
wrong(stage_rounds_down_the_size, "7 layers, 4 stages: stage 6", "does not divide, stage too large")


def stage_rounds_up_the_size(layer, layers, stages):
    return layer // -(-layers // stages)
wrong(stage_rounds_up_the_size, "6 layers, 4 stages: stage 3 is empty", "empty, rounds up")


def stage_last_takes_the_rest(layer, layers, stages):
    return min(layer // (layers // stages), stages - 1)
wrong(stage_last_takes_the_rest, "7 layers, 4 stages: the last has four", "two layers more, last")


def stage_dealt_out(layer, layers, stages):
    return layer % stages
wrong(stage_dealt_out, "deals layers out like cards", "neighbors together")


def stage_rounded(layer, layers, stages):
    return round(layer * stages / layers)
wrong(stage_rounded, "round instead of //: stage number `stages` exists", "round, too large")


def stage_true_division(layer, layers, stages):
    return layer * stages / layers
wrong(stage_true_division, "/ gives a float", "whole number, //, float")


def stage_from_1(layer, layers, stages):
    return layer * stages // layers + 1
wrong(stage_from_1, "stages counted from 1", "from 0")


def stage_last_first(layer, layers, stages):
    return stages - 1 - layer * stages // layers
wrong(stage_last_first, "the first layers on the last stage (the lesson: the first layers live on rank 0)", "first layers, rank 0, order")


def stage_of_the_ends(layer, layers, stages):
    return layer * (stages - 1) // max(layers - 1, 1)
wrong(stage_of_the_ends, "first to first, last to last: the last stage has one layer only", "two layers more, unequal")


def stage_floats_slip(layer, layers, stages):
    return int(layer / layers * stages)
wrong(stage_floats_slip, "floats: 29 / 100 * 100 is a little below 29", "float, rounding, empty")


def stage_is_the_layer(layer, layers, stages):
    return min(layer, stages - 1)
wrong(stage_is_the_layer, "a layer each, the rest on the last", "two layers more, last")


def stage_of_two(layer, layers, stages):
    return 0 if layer < layers / 2 else 1
wrong(stage_of_two, "two stages only", "stages, empty")


def stage_is_my_rank(layer, layers, stages):
    return dist.get_rank() if dist.is_initialized() else 0
wrong(stage_is_my_rank, "asks who it is, not who owns the layer", "rank, layer")


def stage_chunked(layer, layers, stages):
    return next(s for s, part in enumerate(torch.arange(layers).chunk(stages)) if layer in part)
wrong(stage_chunked, "chunk makes fewer parts: an empty stage", "chunk, empty")


def stage_turned_round(layer, layers, stages):
    return layer * layers // stages
wrong(stage_turned_round, "layers and stages exchanged", "layers, stages, too large")


def stage_true_if_mine(layer, layers, stages):
    return [stage == layer * stages // layers for stage in range(stages)]
wrong(stage_true_if_mine, "a list of truth values", "number of the stage")


def stage_inner_remainder_in_front(layer, layers, stages):
    rest = layers % stages
    return 0 if layer < rest else (layer - rest) // (layers // stages)
wrong(stage_inner_remainder_in_front, "stage 0 takes the whole rest besides its own", "two layers more, first stage")
