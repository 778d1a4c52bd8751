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


# of learners who have read only the lesson


def without_autograd(model: nn.Module) -> None:
    with torch.no_grad():
        for parameter in with_gradients(model):
            total = parameter.grad.clone()
            dist.all_reduce(total)
            parameter.grad.copy_(total / dist.get_world_size())


def as_objects(model: nn.Module) -> None:
    everyones: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(everyones, [parameter.grad for parameter in model.parameters()])
    for parameter, *gradients in zip(model.parameters(), *everyones, strict=True):
        if gradients[0] is not None:
            parameter.grad = sum(gradients) / len(gradients)


def a_broadcast_from_each(model: nn.Module) -> None:
    for parameter in with_gradients(model):
        total = torch.zeros_like(parameter.grad)
        for source in range(dist.get_world_size()):
            one = parameter.grad.clone()
            dist.broadcast(one, source)
            total += one
        parameter.grad = total / dist.get_world_size()


def round_a_ring(model: nn.Module) -> None:
    rank, world_size = dist.get_rank(), dist.get_world_size()
    for parameter in with_gradients(model):
        passing, total = parameter.grad.clone(), parameter.grad.clone()
        for _ in range(world_size - 1):
            arrived = torch.empty_like(passing)
            request = dist.isend(passing, (rank + 1) % world_size)
            dist.recv(arrived, (rank - 1) % world_size)
            request.wait()
            total += arrived
            passing = arrived
        parameter.grad.copy_(total / world_size)


def waits_for_the_future(model: nn.Module) -> None:
    works = [(one, dist.all_reduce(one.grad, async_op=True)) for one in with_gradients(model)]
    for parameter, work in works:
        work.get_future().wait()
        parameter.grad /= dist.get_world_size()


def of_layers_from_the_end(model: nn.Module) -> None:
    for _, parameter in reversed(list(model.named_parameters())):
        if parameter.requires_grad and parameter.grad is not None:
            parameter.grad.div_(dist.get_world_size())
            dist.all_reduce(parameter.grad.view(-1))


RIGHT += [
    without_autograd,
    as_objects,
    a_broadcast_from_each,
    round_a_ring,
    waits_for_the_future,
    of_layers_from_the_end,
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
        "No rank sends a gradient, so rank 0 still has its own gradient. Call all_reduce on every param.grad",
    ),
    (
        only_divides,
        "Rank 0 divides its own gradient without adding those of the other ranks. Sum the gradients over all "
        "ranks first",
    ),
    (
        only_sums,
        "That is the sum over the ranks. Divide param.grad in place by the number of ranks: param.grad /= world_size",
    ),
    (divides_twice, "The sum was divided by the number of ranks twice"),
    (
        divides_by_two,
        "It works with 2 ranks, but not with 3: the sum was divided by 2, but there are 3 ranks. Divide by 3",
    ),
    (averages_the_weights, "It averages the weights, which are already equal. Average param.grad instead"),
    (sums_the_weights, "It changes the weights. Average param.grad, and leave the step to the optimizer"),
    (steps_as_well, "It changes the weights. Average param.grad, and leave the step to the optimizer"),
    (
        forgets_the_bias,
        "layers.0.weight is averaged, but layers.0.bias is not. Average every parameter of every layer, biases "
        "included",
    ),
    (
        only_the_first_layer,
        "It works for a model of 1 layer, float32, but fails for a model with three layers: layers.0.weight is "
        "averaged, but layers.1.weight is not. Average every parameter of every layer, biases included",
    ),
    (
        only_on_rank_0,
        "Rank 0 has the mean, but rank 1 still has its own gradient. Put the mean into param.grad on every rank",
    ),
    (only_rank_0_divides, "Only rank 0 is right. On rank 1, that is the sum over the ranks. Divide"),
    (averages_a_copy, "The ranks communicate, but the gradients do not change. Put the mean into param.grad"),
    (returns_them, "The ranks communicate, but the gradients do not change"),
    (copies_those_of_rank_0, "Rank 1 has a copy of rank 0's gradient. Average the gradients of all ranks"),
    (
        gives_zeros_to_those_without,
        "layers.0.bias had no gradient, but has one now. Skip parameters whose grad is None",
    ),
    (
        does_not_ask_whether_there_is_one,
        "The param.grad of a parameter without a gradient is None. Skip that parameter",
    ),
    (divides_what_there_is_not, "The param.grad of a parameter without a gradient is None. Skip that parameter"),
    (takes_them_away, "The gradient of layers.0.weight is None now"),
    (
        the_largest,
        "That is the maximum over the ranks (ReduceOp.MAX). Sum the gradients over all ranks, then divide by "
        "the number of ranks",
    ),
    (does_not_wait, "It reads the result of all_reduce too early"),
    (takes_the_weights_for_gradients, "The gradient of layers.0.weight holds the weight itself"),
]


def skips_zeros(model: nn.Module) -> None:
    for parameter in model.parameters():
        if parameter.grad is not None and parameter.grad.any():
            dist.all_reduce(parameter.grad)
            parameter.grad /= dist.get_world_size()


def skips_what_is_small(model: nn.Module) -> None:
    for parameter in with_gradients(model):
        if parameter.grad.norm() > 1e-8:
            parameter.grad /= dist.get_world_size()
            dist.all_reduce(parameter.grad)


def counts_only_who_has_something(model: nn.Module) -> None:
    for parameter in with_gradients(model):
        having = torch.tensor(float(parameter.grad.any()))
        dist.all_reduce(having)
        dist.all_reduce(parameter.grad)
        parameter.grad /= having.clamp(min=1)


def only_other_ranks_divide(model: nn.Module) -> None:
    only_sums(model)
    if dist.get_rank() != 0:
        only_divides(model)


def reduces(model: nn.Module) -> None:
    for parameter in with_gradients(model):
        dist.reduce(parameter.grad, 0)
        parameter.grad /= dist.get_world_size()


def reduces_to_the_last(model: nn.Module) -> None:
    for parameter in with_gradients(model):
        dist.reduce(parameter.grad, dst=dist.get_world_size() - 1, op=dist.ReduceOp.SUM)
        parameter.grad /= dist.get_world_size()


def takes_what_all_reduce_returns(model: nn.Module) -> None:
    for parameter in with_gradients(model):
        parameter.grad = dist.all_reduce(parameter.grad) / dist.get_world_size()


def puts_what_all_reduce_returns(model: nn.Module) -> None:
    for parameter in with_gradients(model):
        parameter.grad = dist.all_reduce(parameter.grad, op=dist.ReduceOp.AVG)


def waits_for_the_last_only(model: nn.Module) -> None:
    for parameter in with_gradients(model):
        parameter.grad /= dist.get_world_size()
        work = dist.all_reduce(parameter.grad, async_op=True)
    work.wait()


def divides_by_its_rank(model: nn.Module) -> None:
    only_sums(model)
    for parameter in with_gradients(model):
        parameter.grad /= dist.get_rank()


def one_mean_for_all_elements(model: nn.Module) -> None:
    for parameter in with_gradients(model):
        received = [torch.empty_like(parameter.grad) for _ in range(dist.get_world_size())]
        dist.all_gather(received, parameter.grad)
        parameter.grad.fill_(torch.stack(received).mean())


def divides_a_copy(model: nn.Module) -> None:
    for parameter in with_gradients(model):
        gradient = parameter.grad
        dist.all_reduce(gradient)
        gradient = gradient / dist.get_world_size()


def divides_between(model: nn.Module) -> None:
    """Half of the elements of what is sent are of another layer."""
    for parameter in with_gradients(model)[:-1]:
        dist.all_reduce(parameter.grad, op=dist.ReduceOp.AVG)


def of_the_parameter(model: nn.Module) -> None:
    for parameter in with_gradients(model):
        dist.all_reduce(parameter)
        parameter.grad /= dist.get_world_size()


def through_rank_0_which_keeps_it(model: nn.Module) -> None:
    for parameter in with_gradients(model):
        if dist.get_rank():
            dist.send(parameter.grad, 0)
        else:
            received = torch.empty_like(parameter.grad)
            for source in range(1, dist.get_world_size()):
                dist.recv(received, source)
                parameter.grad += received
            parameter.grad /= dist.get_world_size()


def in_half_precision(model: nn.Module) -> None:
    for parameter in with_gradients(model):
        small = parameter.grad.half()
        dist.all_reduce(small)
        parameter.grad = (small / dist.get_world_size()).to(parameter.dtype)


WRONG += [
    (
        skips_zeros,
        "It works for a model of 1 layer, float32, but fails for a model whose gradients are zero on one rank: "
        "rank 1 has only zero gradients and never calls all_reduce, so rank 0 hangs. Include zero gradients in the "
        "mean",
    ),
    (skips_what_is_small, "hangs. Include zero gradients in the mean"),
    (
        counts_only_who_has_something,
        "The divisor leaves out a rank whose gradient is zero. Divide by the world size",
    ),
    (only_other_ranks_divide, "Only rank 1 is right. On rank 0, that is the sum over the ranks. Divide"),
    (reduces, "reduce gives the sum to one rank only"),
    (reduces_to_the_last, "reduce gives the sum to one rank only"),
    (takes_what_all_reduce_returns, "all_reduce returns None. Use the tensor that you passed, which holds the result"),
    (
        puts_what_all_reduce_returns,
        "The gradient of layers.0.weight is None now. Put the mean into param.grad. all_reduce returns None",
    ),
    (waits_for_the_last_only, "It reads the result of all_reduce too early"),
    (divides_by_its_rank, "holds nan or inf. Divide by the number of ranks, which is never 0"),
    (one_mean_for_all_elements, "are equal. Take the mean over the ranks, not over the elements"),
    (divides_a_copy, "That is the sum over the ranks"),
    (divides_between, "layers.0.weight is averaged, but layers.0.bias is not"),
    (of_the_parameter, "It changes the weights. Average param.grad, and leave the step to the optimizer"),
    (
        through_rank_0_which_keeps_it,
        "Rank 0 has the mean, but rank 1 still has its own gradient. Put the mean into param.grad on every rank",
    ),
    (in_half_precision, "is almost the mean, but digits were lost. Keep the dtype"),
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
    (
        only_rank_0_calls,
        "Hang: not every rank calls all_reduce, so the ranks that call it wait forever. Call it on every rank",
    ),
]


def rank_1_leaves_early(model: nn.Module) -> None:
    for number, parameter in enumerate(with_gradients(model)):
        if number and dist.get_rank() == 1:
            return
        dist.all_reduce(parameter.grad)
        parameter.grad /= dist.get_world_size()


def rank_1_leaves_the_bias_out(model: nn.Module) -> None:
    for name, parameter in model.named_parameters():
        if parameter.grad is not None and not (dist.get_rank() == 1 and name.endswith("bias")):
            dist.all_reduce(parameter.grad)
            parameter.grad /= dist.get_world_size()


def each_rank_in_an_order_of_its_own(model: nn.Module) -> None:
    for parameter in with_gradients(model)[:: -1 if dist.get_rank() else 1]:
        dist.all_reduce(parameter.grad)
        parameter.grad /= dist.get_world_size()


HANGING += [
    (
        rank_1_leaves_early,
        "Rank 1 returned after 1 call of all_reduce, but rank 0 waits in the next call. Make the same calls on "
        "every rank",
    ),
    (
        rank_1_leaves_the_bias_out,
        "Rank 1 returned after 1 call of all_reduce, but rank 0 waits in the next call. Make the same calls on "
        "every rank",
    ),
    (
        each_rank_in_an_order_of_its_own,
        "Size mismatch in all_reduce: the ranks pass tensors of different sizes. A rank skips a parameter, or uses "
        "another order. Loop over the same parameters in the same order on every rank",
    ),
    (
        rank_1_has_a_parameter_less,
        "Size mismatch in all_reduce: the ranks pass tensors of different sizes. A rank skips a parameter, or uses "
        "another order. Loop over the same parameters in the same order on every rank",
    ),
]


def divides_another_tensor(model: nn.Module) -> None:
    for parameter in with_gradients(model):
        gradient = parameter.grad
        dist.all_reduce(gradient)
        gradient = gradient / dist.get_world_size()


def the_smallest(model: nn.Module) -> None:
    for parameter in with_gradients(model):
        dist.all_reduce(parameter.grad, dist.ReduceOp.MIN)


WRONG += [
    (divides_another_tensor, "Divide param.grad in place by the number of ranks: param.grad /= world_size"),
    (the_smallest, "That is the minimum over the ranks (ReduceOp.MIN)"),
]
