"""Answers to the exercise `weighted_average`: right ones, and wrong ones with words of their sentences."""

# mypy: disable-error-code="no-any-return"
from __future__ import annotations

import functools
from typing import Any

import torch
import torch.distributed
from torch import Tensor, nn

dist: Any = torch.distributed
PLAIN: Any = torch.Tensor


def with_gradients(model: nn.Module) -> list[Any]:
    return [parameter for parameter in model.parameters() if parameter.grad is not None]


def all_of(model: nn.Module) -> list[Any]:
    return list(model.parameters())


def count_of_all(samples: int) -> int:
    count = torch.tensor(samples)
    dist.all_reduce(count)
    return int(count)


# right


def multiplied_then_divided(model: nn.Module, samples: int) -> None:
    total = torch.tensor(samples)
    dist.all_reduce(total)
    for parameter in with_gradients(model):
        parameter.grad *= samples
        dist.all_reduce(parameter.grad)
        parameter.grad /= total


def by_its_share(model: nn.Module, samples: int) -> nn.Module:
    share = samples / count_of_all(samples)
    for parameter in with_gradients(model):
        parameter.grad = parameter.grad * share
        dist.all_reduce(parameter.grad.data, op=dist.ReduceOp.SUM)
    return model


def two_averages(model: nn.Module, samples: int) -> None:
    count = torch.tensor(float(samples))
    dist.all_reduce(count, op=dist.ReduceOp.AVG)
    for parameter in with_gradients(model):
        parameter.grad.mul_(samples)
        dist.all_reduce(parameter.grad, op=dist.ReduceOp.AVG)
        parameter.grad.div_(count)


def the_count_in_the_same_bucket(model: nn.Module, samples: int) -> None:
    parameters = with_gradients(model)
    pieces = [parameter.grad.flatten() * samples for parameter in parameters]
    flat = torch.cat([*pieces, pieces[0].new_tensor([samples])])
    dist.all_reduce(flat)
    means = (flat[:-1] / flat[-1]).split([parameter.numel() for parameter in parameters])
    for parameter, mean in zip(parameters, means, strict=True):
        parameter.grad = mean.view_as(parameter)


def with_torchs_own_vectors(model: nn.Module, samples: int) -> None:
    gradients = [parameter.grad for parameter in with_gradients(model)]
    flat = nn.utils.parameters_to_vector(gradients) * samples
    dist.all_reduce(flat)
    nn.utils.vector_to_parameters(flat / count_of_all(samples), gradients)


def counts_gathered(model: nn.Module, samples: int) -> None:
    counts: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(counts, samples)
    for parameter in with_gradients(model):
        weighted = parameter.grad * samples / sum(counts)
        dist.all_reduce(weighted)
        parameter.grad.copy_(weighted)


def gradients_gathered(model: nn.Module, samples: int) -> list[Tensor]:
    counts = [torch.zeros(1) for _ in range(dist.get_world_size())]
    dist.all_gather(counts, torch.tensor([float(samples)]))
    means = []
    for parameter in with_gradients(model):
        received = [torch.empty_like(parameter.grad) for _ in counts]
        dist.all_gather(received, parameter.grad)
        parts = [count * one for count, one in zip(counts, received, strict=True)]
        means.append(torch.stack(parts).sum(0) / sum(counts))
        parameter.grad.copy_(means[-1])
    return means


def asynchronously(model: nn.Module, samples: int, weight: float = 1.0) -> None:
    total = torch.tensor([samples], dtype=torch.float64)
    requests = [dist.all_reduce(total, async_op=True)]
    for parameter in with_gradients(model):
        parameter.grad.mul_(samples)
        requests.append(dist.all_reduce(parameter.grad, async_op=True))
    for request in requests:
        request.wait()
    with torch.no_grad():
        for parameter in with_gradients(model):
            parameter.grad /= total.item() * weight


def reduced_then_broadcast(model: nn.Module, samples: int) -> None:
    total = torch.tensor(samples)
    dist.reduce(total, 0)
    for parameter in with_gradients(model):
        parameter.grad *= samples
        dist.reduce(parameter.grad, 0)
        if dist.get_rank() == 0:
            parameter.grad /= total
        dist.broadcast(parameter.grad, 0)


def by_messages_through_rank_0(model: nn.Module, samples: int) -> None:
    rank, world_size = dist.get_rank(), dist.get_world_size()
    flat = torch.cat([parameter.grad.flatten().double() for parameter in with_gradients(model)])
    both = torch.cat([flat * samples, torch.tensor([samples])])
    if rank == 0:
        for other in range(1, world_size):
            received = torch.empty_like(both)
            dist.recv(received, other)
            both += received
        for other in range(1, world_size):
            dist.send(both, other)
    else:
        dist.send(both, 0)
        dist.recv(both, 0)
    begin = 0
    for parameter in with_gradients(model):
        mean = both[begin : begin + parameter.numel()] / both[-1]
        parameter.grad = mean.view_as(parameter).to(parameter.dtype)
        begin += parameter.numel()


def a_hint_of_those_without(model: nn.Module, samples: int) -> None:
    if samples == 0:
        for parameter in with_gradients(model):
            parameter.grad.zero_()
    multiplied_then_divided(model, samples)


class Averager:
    def __call__(self, model: nn.Module, samples: int) -> None:
        by_its_share(model, samples)

    def average(self, network: nn.Module, count: int) -> None:
        by_its_share(network, count)


RIGHT: list[Any] = [
    multiplied_then_divided,
    by_its_share,
    two_averages,
    the_count_in_the_same_bucket,
    with_torchs_own_vectors,
    counts_gathered,
    gradients_gathered,
    asynchronously,
    reduced_then_broadcast,
    by_messages_through_rank_0,
    a_hint_of_those_without,
    Averager(),
    Averager().average,
    functools.partial(asynchronously, weight=1.0),
    lambda model, samples: multiplied_then_divided(model, samples),
]


# of learners who have read only the lesson


def sums_and_then_one_division(model: nn.Module, samples: int) -> None:
    total = torch.tensor([samples], dtype=torch.float64)
    dist.all_reduce(total)
    for parameter in model.parameters():
        if parameter.grad is None:
            continue
        parameter.grad.mul_(samples)
        dist.all_reduce(parameter.grad)
        parameter.grad.div_(total.item())


def counts_as_objects(model: nn.Module, samples: int) -> None:
    counts: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(counts, samples)
    weight = samples / sum(counts)
    for parameter in with_gradients(model):
        part = parameter.grad * weight
        dist.all_reduce(part)
        parameter.grad = part


def times_the_ranks_and_torchs_average(model: nn.Module, samples: int) -> None:
    total = torch.tensor(float(samples))
    dist.all_reduce(total)
    for parameter in with_gradients(model):
        parameter.grad *= samples * dist.get_world_size() / total.item()
        dist.all_reduce(parameter.grad, op=dist.ReduceOp.AVG)


RIGHT += [sums_and_then_one_division, counts_as_objects, times_the_ranks_and_torchs_average]


# wrong


def all_count_alike(model: nn.Module, samples: int) -> None:
    for parameter in with_gradients(model):
        dist.all_reduce(parameter.grad)
        parameter.grad /= dist.get_world_size()


def torchs_own_average(model: nn.Module, samples: int) -> None:
    for parameter in with_gradients(model):
        dist.all_reduce(parameter.grad, op=dist.ReduceOp.AVG)


def only_adds_up(model: nn.Module, samples: int) -> None:
    for parameter in with_gradients(model):
        dist.all_reduce(parameter.grad)


def does_not_multiply(model: nn.Module, samples: int) -> None:
    total = count_of_all(samples)
    for parameter in with_gradients(model):
        dist.all_reduce(parameter.grad)
        parameter.grad /= total


def never_divides(model: nn.Module, samples: int) -> None:
    for parameter in with_gradients(model):
        parameter.grad *= samples
        dist.all_reduce(parameter.grad)


def divides_by_the_ranks(model: nn.Module, samples: int) -> None:
    never_divides(model, samples)
    for parameter in with_gradients(model):
        parameter.grad /= dist.get_world_size()


def divides_by_its_own_count(model: nn.Module, samples: int) -> None:
    never_divides(model, samples)
    for parameter in with_gradients(model):
        parameter.grad /= max(1, samples)


def divides_by_the_largest_count(model: nn.Module, samples: int) -> None:
    count = torch.tensor(samples)
    dist.all_reduce(count, op=dist.ReduceOp.MAX)
    never_divides(model, samples)
    for parameter in with_gradients(model):
        parameter.grad /= count


def divides_once_more(model: nn.Module, samples: int) -> None:
    by_its_share(model, samples)
    for parameter in with_gradients(model):
        parameter.grad /= dist.get_world_size()


def shares_and_torchs_average(model: nn.Module, samples: int) -> None:
    share = samples / count_of_all(samples)
    for parameter in with_gradients(model):
        parameter.grad *= share
        dist.all_reduce(parameter.grad, op=dist.ReduceOp.AVG)


def averages_only_the_count(model: nn.Module, samples: int) -> None:
    count = torch.tensor(float(samples))
    dist.all_reduce(count, op=dist.ReduceOp.AVG)
    never_divides(model, samples)
    for parameter in with_gradients(model):
        parameter.grad /= count


def upside_down(model: nn.Module, samples: int) -> None:
    for parameter in with_gradients(model):
        parameter.grad /= max(1, samples)
        dist.all_reduce(parameter.grad)


def multiplies_afterwards(model: nn.Module, samples: int) -> None:
    share = samples / count_of_all(samples)
    for parameter in with_gradients(model):
        dist.all_reduce(parameter.grad)
        parameter.grad *= share


def only_weighs(model: nn.Module, samples: int) -> None:
    share = samples / count_of_all(samples)
    for parameter in with_gradients(model):
        parameter.grad *= share


def knows_no_other_count(model: nn.Module, samples: int) -> None:
    for parameter in with_gradients(model):
        parameter.grad = parameter.grad * samples / (samples * dist.get_world_size() or 1)
        dist.all_reduce(parameter.grad)


def whole_shares(model: nn.Module, samples: int) -> None:
    share = samples // count_of_all(samples)
    for parameter in with_gradients(model):
        parameter.grad *= share
        dist.all_reduce(parameter.grad)


def counts_again_and_again(model: nn.Module, samples: int) -> None:
    total = torch.tensor(samples)
    for parameter in with_gradients(model):
        dist.all_reduce(total)
        parameter.grad *= samples
        dist.all_reduce(parameter.grad)
        parameter.grad /= total


def divides_by_four_ranks_of_three(model: nn.Module, samples: int) -> None:
    never_divides(model, samples)
    for parameter in with_gradients(model):
        parameter.grad /= 12


def only_rank_0_divides(model: nn.Module, samples: int) -> None:
    total = count_of_all(samples)
    never_divides(model, samples)
    if dist.get_rank() == 0:
        for parameter in with_gradients(model):
            parameter.grad /= total


def only_on_rank_0(model: nn.Module, samples: int) -> None:
    total = count_of_all(samples)
    for parameter in with_gradients(model):
        weighted = parameter.grad * samples
        dist.reduce(weighted, 0)
        if dist.get_rank() == 0:
            parameter.grad = weighted / total


def works_on_a_copy(model: nn.Module, samples: int) -> None:
    total = count_of_all(samples)
    for parameter in with_gradients(model):
        gradient = parameter.grad * samples
        dist.all_reduce(gradient)
        gradient /= total


def a_guard_that_is_never_true(model: nn.Module, samples: int) -> None:
    for parameter in all_of(model):
        if type(parameter) is PLAIN:
            parameter.grad *= samples
            dist.all_reduce(parameter.grad)
            parameter.grad /= count_of_all(samples)


def a_guard_after_the_count(model: nn.Module, samples: int) -> None:
    total = count_of_all(samples)
    for parameter in all_of(model):
        if type(parameter) is PLAIN:
            parameter.grad *= samples / total
            dist.all_reduce(parameter.grad)


def forgets_the_bias(model: nn.Module, samples: int) -> None:
    total = count_of_all(samples)
    for name, parameter in model.named_parameters():
        if parameter.grad is not None and name.endswith("weight"):
            parameter.grad *= samples / total
            dist.all_reduce(parameter.grad)


def averages_the_weights(model: nn.Module, samples: int) -> None:
    total = count_of_all(samples)
    for parameter in all_of(model):
        parameter.data *= samples / total
        dist.all_reduce(parameter.data)


def steps_as_well(model: nn.Module, samples: int) -> None:
    by_its_share(model, samples)
    with torch.no_grad():
        for parameter in with_gradients(model):
            parameter -= 0.1 * parameter.grad


def does_not_ask_whether_there_is_one(model: nn.Module, samples: int) -> None:
    total = count_of_all(samples)
    for parameter in all_of(model):
        parameter.grad *= samples / total
        dist.all_reduce(parameter.grad)


def gives_zeros_to_those_without(model: nn.Module, samples: int) -> None:
    for parameter in all_of(model):
        if parameter.grad is None:
            parameter.grad = torch.zeros_like(parameter)
    by_its_share(model, samples)


def takes_them_away(model: nn.Module, samples: int) -> None:
    by_its_share(model, samples)
    model.zero_grad()


def divides_by_nothing(model: nn.Module, samples: int) -> None:
    total = count_of_all(samples)
    for parameter in with_gradients(model):
        parameter.grad /= total / samples
        dist.all_reduce(parameter.grad)


def divides_tensors_by_nothing(model: nn.Module, samples: int) -> None:
    total, mine = count_of_all(samples), torch.tensor(samples)
    for parameter in with_gradients(model):
        parameter.grad = parameter.grad / mine * mine * samples / total
        dist.all_reduce(parameter.grad)


def a_whole_count_meets_a_float(model: nn.Module, samples: int) -> None:
    count = torch.tensor(samples) if dist.get_rank() == 0 else torch.tensor(float(samples))
    dist.all_reduce(count)
    for parameter in with_gradients(model):
        parameter.grad *= samples / count
        dist.all_reduce(parameter.grad)


def adds_up_a_number(model: nn.Module, samples: int) -> None:
    dist.all_reduce(samples)
    multiplied_then_divided(model, samples)


def does_not_wait(model: nn.Module, samples: int) -> None:
    total = count_of_all(samples)
    for parameter in with_gradients(model):
        dist.all_reduce(parameter.grad * samples / total, async_op=True)


def takes_the_largest_share(model: nn.Module, samples: int) -> None:
    counts: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(counts, samples)
    for parameter in with_gradients(model):
        dist.broadcast(parameter.grad, counts.index(max(counts)))


def two_parameters_changed_places(samples: int, model: nn.Module) -> None:
    multiplied_then_divided(model, samples)


def knows_no_count(model: nn.Module) -> None:
    all_count_alike(model, 1)


WRONG: list[tuple[Any, str]] = [
    (
        adds_up_a_number,
        "It passes something other than a tensor to torch.distributed. For a number, pass torch.tensor(number)",
    ),
    (
        all_count_alike,
        "That is the mean of the ranks' means, but a rank with more samples must count more. Multiply each "
        "gradient by its rank's count before the sum, and divide by the sum of all counts",
    ),
    (torchs_own_average, "That is the mean of the ranks' means"),
    (knows_no_other_count, "That is the mean of the ranks' means"),
    (only_adds_up, "The sum is over the ranks' means, not over the samples"),
    (does_not_multiply, "The sum is over the ranks' means, not over the samples"),
    (never_divides, "That is the sum over all samples. Divide it by the number of samples on all ranks"),
    (
        divides_by_the_ranks,
        "The sum was divided by the number of ranks. Divide it by the number of samples on all ranks",
    ),
    (divides_by_its_own_count, "The sum was divided by the count of this rank only"),
    (divides_by_the_largest_count, "The sum was divided by the largest count"),
    (divides_once_more, "The mean was divided by the number of ranks as well"),
    (shares_and_torchs_average, "The mean was divided by the number of ranks as well"),
    (
        averages_only_the_count,
        "That is 2 times the mean. This happens when the count is averaged over the ranks. Sum it instead",
    ),
    (upside_down, "Each gradient was divided by the count of its rank. Multiply it by the count instead"),
    (
        multiplies_afterwards,
        "Rank 0 multiplies the sum by its own count. Multiply each gradient by its rank's count before the sum",
    ),
    (only_weighs, "Rank 0 scales its own gradient, but adds no gradient of another rank. Sum the scaled gradients"),
    (whole_shares, "is zero. This happens when a weight such as 1 / 4 is truncated to 0. Keep the weights as floats"),
    (
        counts_again_and_again,
        "the count is summed again for every parameter, so layers.0.bias is divided by too much. Sum the count "
        "once, before the loop",
    ),
    (divides_by_four_ranks_of_three, "The sum was divided by 12, but 2 ranks have 8 samples together. Divide by 8"),
    (only_rank_0_divides, "That is the sum over all samples"),
    (
        only_on_rank_0,
        "Rank 0 has the mean, but rank 1 still has its own gradient. Put the mean into param.grad on every rank",
    ),
    (works_on_a_copy, "The ranks communicate, but the gradients do not change. Put the mean into param.grad"),
    (a_guard_that_is_never_true, "No rank sends a gradient, so rank 0 still has its own gradient"),
    (a_guard_after_the_count, "The ranks communicate, but the gradients do not change"),
    (
        forgets_the_bias,
        "layers.0.weight is averaged, but layers.0.bias is not. Average every parameter of every layer, biases "
        "included",
    ),
    (averages_the_weights, "It averages the weights, which are already equal. Average param.grad instead"),
    (steps_as_well, "It changes the weights. Average param.grad, and leave the step to the optimizer"),
    (
        does_not_ask_whether_there_is_one,
        "The param.grad of a parameter without a gradient is None. Skip that parameter",
    ),
    (
        gives_zeros_to_those_without,
        "layers.0.bias had no gradient, but has one now. Skip parameters whose grad is None",
    ),
    (takes_them_away, "The gradient of layers.0.weight is None now"),
    (divides_by_nothing, "A rank without samples divides by its own count, which is 0"),
    (
        divides_tensors_by_nothing,
        "ranks without samples: the gradient of layers.0.weight holds nan or inf",
    ),
    (a_whole_count_meets_a_float, "mismatch in all_reduce: the ranks pass"),
    (does_not_wait, "It reads the result of all_reduce too early"),
    (takes_the_largest_share, "Rank 0 has the gradient of rank 1 only. Average over all ranks"),
    (two_parameters_changed_places, "raised RuntimeError: Could not infer dtype"),
    (knows_no_count, "The check calls knows_no_count(model, samples) with two arguments"),
]


def reduces(model: nn.Module, samples: int) -> None:
    total = count_of_all(samples)
    for parameter in with_gradients(model):
        parameter.grad *= samples / total
        dist.reduce(parameter.grad, 0)


def takes_what_all_reduce_returns(model: nn.Module, samples: int) -> None:
    total = dist.all_reduce(torch.tensor(samples))
    for parameter in with_gradients(model):
        parameter.grad *= samples / total
        dist.all_reduce(parameter.grad)


def rounds_its_weight(model: nn.Module, samples: int) -> None:
    weight = round(samples / count_of_all(samples), 2)
    for parameter in with_gradients(model):
        parameter.grad *= weight
        dist.all_reduce(parameter.grad)


def counts_every_rank_at_least_once(model: nn.Module, samples: int) -> None:
    total = count_of_all(max(1, samples))
    for parameter in with_gradients(model):
        parameter.grad *= max(1, samples) / total
        dist.all_reduce(parameter.grad)


def by_the_square_of_its_count(model: nn.Module, samples: int) -> None:
    total = count_of_all(samples)
    for parameter in with_gradients(model):
        parameter.grad *= samples * samples / total
        dist.all_reduce(parameter.grad)


def skips_zeros(model: nn.Module, samples: int) -> None:
    total = count_of_all(samples)
    for parameter in with_gradients(model):
        if parameter.grad.any():
            parameter.grad *= samples / total
            dist.all_reduce(parameter.grad)


def as_if_all_had_as_many(model: nn.Module, samples: int) -> None:
    for parameter in with_gradients(model):
        parameter.grad *= samples
        dist.all_reduce(parameter.grad)
        parameter.grad /= max(1, samples) * dist.get_world_size()


def divides_by_its_count_first(model: nn.Module, samples: int) -> None:
    total = count_of_all(samples)
    for parameter in with_gradients(model):
        parameter.grad /= max(1, samples)
        dist.all_reduce(parameter.grad)
        parameter.grad *= total / dist.get_world_size() ** 2


WRONG += [
    (takes_what_all_reduce_returns, "all_reduce returns None"),
    (reduces, "reduce gives the sum to one rank only"),
    (
        rounds_its_weight,
        "is not the mean over the samples of all ranks. Multiply it by this rank's count, sum the products over all "
        "ranks, then divide by the sum of the counts",
    ),
    (counts_every_rank_at_least_once, "but fails for ranks without samples"),
    (
        by_the_square_of_its_count,
        "is not the mean over the samples of all ranks. Multiply it by this rank's count, sum the products over all "
        "ranks, then divide by the sum of the counts",
    ),
    (
        skips_zeros,
        "but fails for ranks without samples: rank 1 has no samples and does not call all_reduce often enough, so "
        "rank 0 hangs. Make the same calls on every rank, even with gradients of 0",
    ),
    (as_if_all_had_as_many, "The sum was divided by 6, which is the count of rank 0 times the number of ranks"),
    (divides_by_its_count_first, "Each gradient was divided by the count of its rank"),
]


# hanging


def those_without_stay_away(model: nn.Module, samples: int) -> None:
    if samples:
        multiplied_then_divided(model, samples)


def only_rank_0_calls(model: nn.Module, samples: int) -> None:
    if dist.get_rank() == 0:
        multiplied_then_divided(model, samples)


HANGING: list[tuple[Any, str]] = [
    (
        those_without_stay_away,
        "It works for a model of 1 layer, float32, and 3 samples, but fails for ranks without samples: rank "
        "1 has no samples and never calls all_reduce, so rank 0 hangs. Call all_reduce on every rank, even with a "
        "count of 0",
    ),
    (only_rank_0_calls, "Not every rank calls all_reduce, so the ranks that call it wait forever"),
]


# not written yet


def only_dots(model: nn.Module, samples: int) -> None: ...


def prepared(model: nn.Module, samples: int) -> None:
    """Make every gradient the mean over the samples of all ranks."""
    for parameter in all_of(model):
        shape = parameter.shape  # noqa: F841
        # your code


def not_implemented(model: nn.Module, samples: int) -> None:
    raise NotImplementedError("your code")


STUBS: list[Any] = [only_dots, prepared, not_implemented]
