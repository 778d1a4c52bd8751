"""Right and wrong answers to the exercises of means."""

# mypy: disable-error-code="no-any-return"
from __future__ import annotations

import copy
from typing import Any

import torch
import torch.distributed
from torch import Tensor
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader

dist: Any = torch.distributed
Losses = list[float]


# global_mean


def two_averages(tensor: Tensor) -> Tensor:
    total, count = tensor.sum(), torch.tensor(float(len(tensor)))
    dist.all_reduce(total, op=dist.ReduceOp.AVG)
    dist.all_reduce(count, op=dist.ReduceOp.AVG)
    return total / count


def by_objects(tensor: Tensor) -> float:
    pairs: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(pairs, (tensor.sum(), tensor.numel()))
    return float(sum(total for total, _ in pairs) / sum(count for _, count in pairs))


def gathers_the_data(tensor: Tensor) -> Tensor:
    everything: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(everything, tensor)
    return torch.cat(everything).mean()


def subtracts_the_mean(tensor: Tensor) -> Tensor:
    mean = two_averages(tensor)
    tensor -= mean
    return mean


# mean_loss


def all_losses(losses: Losses) -> float:
    everything: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(everything, losses)
    return sum(map(sum, everything)) / sum(map(len, everything))


def reduced_then_broadcast(losses: Losses) -> float:
    both = torch.tensor([sum(losses), len(losses)], dtype=torch.float64)
    dist.reduce(both, 0)
    dist.broadcast(both, 0)
    return float(both[0] / both[1])


def stays_away_without_losses(losses: Losses) -> float:
    return reduced_then_broadcast(losses) if losses else 0.0


def has_a_nan_without_losses(losses: Losses) -> float:
    both = torch.tensor([*losses]).mean() * len(losses), torch.tensor(float(len(losses)))
    for one in both:
        dist.all_reduce(one)
    return float(both[0] / both[1])


def changes_the_list(losses: Losses) -> float:
    mean = reduced_then_broadcast(losses)
    losses.append(mean)
    return mean


# evaluate


def tested(model: Any, batches: Any) -> Tensor:
    was_training, counts = model.training, torch.zeros(2)
    model.eval()
    with torch.no_grad():
        for images, labels in batches:
            counts += torch.tensor([(model(images).argmax(1) == labels).sum(), len(labels)])
    model.train(was_training)
    return counts


def batches_in_turns(model: Any, data: Any) -> float:
    batches = enumerate(DataLoader(data, batch_size=64))
    counts = tested(model, [one for number, one in batches if number % dist.get_world_size() == dist.get_rank()])
    dist.all_reduce(counts)
    return float(counts[0]) / len(data)


@torch.inference_mode()
def blocks_on_a_copy(model: Any, data: Any) -> Tensor:
    rank, world_size = dist.get_rank(), dist.get_world_size()
    images, labels = data.images.tensor_split(world_size)[rank], data.labels.tensor_split(world_size)[rank]
    errors = (copy.deepcopy(model).eval()(images).argmax(1) != labels).sum().clone()
    dist.all_reduce(errors)
    return 1 - errors / len(data)


def the_last_rank_alone(model: Any, data: Any) -> float:
    is_last = dist.get_rank() == dist.get_world_size() - 1
    counts = tested(model, DataLoader(data, batch_size=100)) if is_last else torch.zeros(2)
    dist.all_reduce(counts)
    return float(counts[0] / counts[1])


def one_all_reduce_per_batch(model: Any, data: Any) -> float:
    counts = torch.zeros(2)
    for batch in torch.arange(len(data))[dist.get_rank() :: dist.get_world_size()].split(32):
        both = tested(model, [(data.images[batch], data.labels[batch])])
        dist.all_reduce(both)
        counts += both
    return float(counts[0] / counts[1])


def trains_afterwards(model: Any, data: Any) -> float:
    accuracy = batches_in_turns(model, data)
    model.train()
    return accuracy


# token_mean_loss


def count_of(micro_batches: Any) -> int:
    count = torch.tensor(sum(int((targets != -100).sum()) for _, targets in micro_batches))
    dist.all_reduce(count)
    return int(count)


def summed(model: Any, tokens: Tensor, targets: Tensor) -> Tensor:
    return cross_entropy(model(tokens).flatten(0, 1), targets.flatten(), reduction="sum")


def one_backward(model: Any, micro_batches: Any) -> float:
    loss: Any = sum(summed(model, *pair) for pair in micro_batches) / count_of(micro_batches)
    (loss * dist.get_world_size()).backward()
    means: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(means, loss.item())
    return sum(means)


def without_ddp(model: Any, micro_batches: Any) -> float:
    loss: Any = sum(summed(model.module, *pair) for pair in micro_batches) / count_of(micro_batches)
    loss.backward()
    mean = loss.detach()
    for one in [mean, *(parameter.grad for parameter in model.parameters())]:
        dist.all_reduce(one)
    return float(mean)


def synchronizes_always(model: Any, micro_batches: Any) -> float:
    count, total = count_of(micro_batches), torch.zeros((), dtype=torch.float64)
    for pair in micro_batches:
        loss = summed(model, *pair) / count
        (loss * dist.get_world_size()).backward()
        total += loss.detach()
    dist.all_reduce(total)
    return float(total)


def mean_of_means(model: Any, micro_batches: Any) -> float:
    losses: list[Any] = [cross_entropy(model(one).transpose(1, 2), two).nan_to_num() for one, two in micro_batches]
    mean = sum(losses) / len(losses)
    mean.backward()
    mean = mean.detach()
    dist.all_reduce(mean, op=dist.ReduceOp.AVG)
    return float(mean)


def steps_as_well(model: Any, micro_batches: Any) -> float:
    mean = one_backward(model, micro_batches)
    torch.optim.SGD(model.parameters(), lr=0.1).step()
    return mean


RIGHT: dict[str, list[Any]] = {
    "global_mean": [two_averages, by_objects],
    "mean_loss": [reduced_then_broadcast, all_losses],
    "evaluate": [batches_in_turns, blocks_on_a_copy],
    "token_mean_loss": [one_backward, without_ddp],
}
WRONG: dict[str, list[Any]] = {
    "global_mean": [
        (gathers_the_data, "The ranks communicate too much"),
        (subtracts_the_mean, "your function changes its argument"),
    ],
    "mean_loss": [
        (stays_away_without_losses, "Hang, no rank can make progress."),
        (has_a_nan_without_losses, "returns nan"),
        (changes_the_list, "your function changes its argument"),
    ],
    "evaluate": [
        (the_last_rank_alone, "evaluates all samples"),
        (one_all_reduce_per_batch, "fails for samples that give one rank an extra batch"),
        (trains_afterwards, "Your function leaves the model in the other mode."),
    ],
    "token_mean_loss": [
        (synchronizes_always, "The ranks communicate too much"),
        (mean_of_means, "The gradient is not that of the mean over all tokens"),
        (steps_as_well, "Your function changes the weights."),
    ],
}
