"""Answers to the exercise `average_gradients`: right ones, and wrong ones with words of their sentences."""

# mypy: disable-error-code="no-any-return"
from __future__ import annotations

from typing import Any

import torch
import torch.distributed
from torch import Tensor, nn

dist: Any = torch.distributed


def with_gradients(model: nn.Module) -> list[Any]:
    return [parameter for parameter in model.parameters() if parameter.grad is not None]


# right


def one_by_one(model: nn.Module) -> None:
    for parameter in with_gradients(model):
        dist.all_reduce(parameter.grad)
        parameter.grad /= dist.get_world_size()


def divided_before(model: nn.Module) -> nn.Module:
    for parameter in with_gradients(model):
        parameter.grad = parameter.grad / dist.get_world_size()
        dist.all_reduce(parameter.grad.data, op=dist.ReduceOp.SUM)
    return model


def torchs_own_average(model: nn.Module) -> None:
    for parameter in with_gradients(model):
        dist.all_reduce(parameter.grad, op=dist.ReduceOp.AVG)


def all_at_once(model: nn.Module) -> None:
    parameters = with_gradients(model)
    flat = torch.cat([parameter.grad.flatten() for parameter in parameters])
    dist.all_reduce(flat)
    pieces = (flat / dist.get_world_size()).split([parameter.numel() for parameter in parameters])
    for parameter, piece in zip(parameters, pieces, strict=True):
        parameter.grad = piece.view_as(parameter)


def asynchronously(model: nn.Module) -> None:
    requests = [dist.all_reduce(parameter.grad, async_op=True) for parameter in with_gradients(model)]
    for parameter, request in zip(with_gradients(model), requests, strict=True):
        request.wait()
        parameter.grad.mul_(1 / dist.get_world_size())


def gathered(model: nn.Module) -> list[Tensor]:
    means = []
    for parameter in with_gradients(model):
        received = [torch.empty_like(parameter.grad) for _ in range(dist.get_world_size())]
        dist.all_gather(received, parameter.grad)
        means.append(torch.stack(received).mean(0))
        parameter.grad.copy_(means[-1])
    return means


def reduced_then_broadcast(model: nn.Module) -> None:
    for parameter in with_gradients(model):
        dist.reduce(parameter.grad, 0)
        parameter.grad /= dist.get_world_size()
        dist.broadcast(parameter.grad, 0)


RIGHT = [
    one_by_one,
    divided_before,
    torchs_own_average,
    all_at_once,
    asynchronously,
    gathered,
    reduced_then_broadcast,
]


# wrong


def a_guard_that_is_never_true(model: nn.Module) -> None:
    """The program of the exercise."""
    for parameter in model.parameters():
        if type(parameter) is torch.Tensor:
            dist.all_reduce(parameter.grad)
            parameter.grad /= dist.get_world_size()


def only_divides(model: nn.Module) -> None:
    for parameter in with_gradients(model):
        parameter.grad /= dist.get_world_size()


def only_sums(model: nn.Module) -> None:
    for parameter in with_gradients(model):
        dist.all_reduce(parameter.grad)


def divides_twice(model: nn.Module) -> None:
    torchs_own_average(model)
    only_divides(model)


def divides_by_two(model: nn.Module) -> None:
    only_sums(model)
    for parameter in with_gradients(model):
        parameter.grad /= 2


def averages_the_weights(model: nn.Module) -> None:
    for parameter in model.parameters():
        dist.all_reduce(parameter.data)
        parameter.data /= dist.get_world_size()


def sums_the_weights(model: nn.Module) -> None:
    for parameter in model.parameters():
        dist.all_reduce(parameter.data)


def steps_as_well(model: nn.Module) -> None:
    one_by_one(model)
    with torch.no_grad():
        for parameter in with_gradients(model):
            parameter -= 0.1 * parameter.grad


def forgets_the_bias(model: nn.Module) -> None:
    for name, parameter in model.named_parameters():
        if parameter.grad is not None and name.endswith("weight"):
            dist.all_reduce(parameter.grad)
            parameter.grad /= dist.get_world_size()


def only_the_first_layer(model: nn.Module) -> None:
    for parameter in with_gradients(model)[:2]:
        dist.all_reduce(parameter.grad)
        parameter.grad /= dist.get_world_size()


def only_on_rank_0(model: nn.Module) -> None:
    for parameter in with_gradients(model):
        total = parameter.grad.clone()
        dist.reduce(total, 0)
        if dist.get_rank() == 0:
            parameter.grad = total / dist.get_world_size()


def only_rank_0_divides(model: nn.Module) -> None:
    only_sums(model)
    if dist.get_rank() == 0:
        only_divides(model)


def averages_a_copy(model: nn.Module) -> None:
    for parameter in with_gradients(model):
        gradient = parameter.grad.clone()
        dist.all_reduce(gradient)
        gradient /= dist.get_world_size()


def returns_them(model: nn.Module) -> list[Tensor]:
    gradients = [parameter.grad.clone() for parameter in with_gradients(model)]
    for gradient in gradients:
        dist.all_reduce(gradient)
    return [gradient / dist.get_world_size() for gradient in gradients]


def copies_those_of_rank_0(model: nn.Module) -> None:
    for parameter in with_gradients(model):
        dist.broadcast(parameter.grad, 0)


def gives_zeros_to_those_without(model: nn.Module) -> None:
    for parameter in model.parameters():
        if parameter.grad is None:
            parameter.grad = torch.zeros_like(parameter)
        dist.all_reduce(parameter.grad)
        parameter.grad /= dist.get_world_size()


def does_not_ask_whether_there_is_one(model: nn.Module) -> None:
    for parameter in model.parameters():
        dist.all_reduce(parameter.grad)
        parameter.grad /= dist.get_world_size()


def divides_what_there_is_not(model: nn.Module) -> None:
    for parameter in model.parameters():
        parameter.grad.div_(dist.get_world_size())  # type: ignore[union-attr]
        dist.all_reduce(parameter.grad)


def takes_them_away(model: nn.Module) -> None:
    one_by_one(model)
    model.zero_grad()


def the_largest(model: nn.Module) -> None:
    for parameter in with_gradients(model):
        dist.all_reduce(parameter.grad, op=dist.ReduceOp.MAX)


def does_not_wait(model: nn.Module) -> None:
    for parameter in with_gradients(model):
        dist.all_reduce(parameter.grad / dist.get_world_size(), async_op=True)


def takes_the_weights_for_gradients(model: nn.Module) -> None:
    for parameter in with_gradients(model):
        parameter.grad = parameter.detach().clone()
        dist.all_reduce(parameter.grad, op=dist.ReduceOp.AVG)


WRONG = [
    (
        a_guard_that_is_never_true,
        "It never averages: no rank gives a gradient to another, and rank 0 still has",
    ),
    (only_divides, "Rank 0 divides its own gradient, but nothing was added to it"),
    (only_sums, "That is the sum over the ranks: divide it by the number of ranks"),
    (divides_twice, "The sum was divided by the number of ranks twice"),
    (divides_by_two, "It works with 2 ranks, but not with 3: the sum was divided by 2, and there are 3 ranks"),
    (averages_the_weights, "It averages the weights, and these are equal anyway: the gradients are in param.grad"),
    (sums_the_weights, "It changes the weights: average param.grad"),
    (steps_as_well, "It changes the weights: average param.grad, and leave the step to the optimizer"),
    (forgets_the_bias, "layers.0.weight is averaged, and layers.0.bias is not: every parameter has to take part"),
    (only_the_first_layer, "a model of three layers: layers.0.weight is averaged, and layers.1.weight is not"),
    (only_on_rank_0, "Rank 0 has the mean, and rank 1 still its own: every rank needs the mean"),
    (only_rank_0_divides, "That is the sum over the ranks: divide it by the number of ranks"),
    (averages_a_copy, "The ranks talk, but the gradients stay what they were: the mean has to be put into param.grad"),
    (returns_them, "The ranks talk, but the gradients stay what they were"),
    (copies_those_of_rank_0, "Rank 1 has the gradient of rank 0 now: it was copied, not averaged"),
    (gives_zeros_to_those_without, "layers.0.bias had no gradient, and has one now"),
    (does_not_ask_whether_there_is_one, "A parameter without a gradient has None in param.grad: leave it out"),
    (divides_what_there_is_not, "A parameter without a gradient has None in param.grad: leave it out"),
    (takes_them_away, "The gradient of layers.0.weight is gone"),
    (the_largest, "The gradient of layers.0.weight on rank 0 is not the mean over the ranks"),
    (does_not_wait, "It reads the result of all_reduce too early"),
    (takes_the_weights_for_gradients, "The gradient of layers.0.weight holds the weight itself"),
]


# hanging


def only_rank_0_calls(model: nn.Module) -> None:
    if dist.get_rank() == 0:
        one_by_one(model)


def rank_1_has_a_parameter_less(model: nn.Module) -> None:
    for parameter in with_gradients(model)[dist.get_rank() % 2 :]:
        dist.all_reduce(parameter.grad)
        parameter.grad /= dist.get_world_size()


HANGING = [
    (only_rank_0_calls, "Not every rank calls all_reduce, and those that do wait for the others"),
]
