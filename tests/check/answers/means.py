"""Right and wrong answers to the exercises of means."""

# mypy: disable-error-code="no-any-return"
from __future__ import annotations

import contextlib
import copy
from typing import Any

import torch
import torch.distributed
from torch import Tensor
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader, DistributedSampler, Subset

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


def a_mean_by_messages(tensor: Tensor) -> Tensor:
    both = torch.tensor([float(tensor.sum()), float(len(tensor))])
    received, mean = torch.zeros(2), torch.zeros(1)
    if dist.get_rank():
        dist.send(both, 0)
        dist.recv(mean, 0)
        return mean
    for other in range(1, dist.get_world_size()):
        dist.recv(received, other)
        both += received
    for other in range(1, dist.get_world_size()):
        dist.send(both[:1] / both[1], other)
    return both[0] / both[1]


def its_part_of_the_mean(tensor: Tensor) -> object:
    count = torch.tensor(len(tensor))
    dist.all_reduce(count)
    part = (tensor.mean() * len(tensor) / count).reshape(1, 1)
    dist.all_reduce(part)
    return part.numpy()[0, 0]


def the_first_two_ranks(tensor: Tensor) -> Tensor:
    both, received = torch.tensor([float(tensor.sum()), float(len(tensor))]), torch.zeros(2)
    other = dist.get_rank() ^ 1
    if other < dist.get_world_size():
        for operation, one in [(dist.send, both), (dist.recv, received)][:: 1 if other else -1]:
            operation(one, other)
    return torch.divide(*(both + received))


def gathers_the_data(tensor: Tensor) -> Tensor:
    everything: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(everything, tensor)
    return torch.cat(everything).mean()


def subtracts_the_mean(tensor: Tensor) -> Tensor:
    mean = two_averages(tensor)
    tensor -= mean
    return mean


def through_the_store(tensor: Tensor) -> float:
    store = dist.distributed_c10d._get_default_store()
    store.add("sum", int(2**20 * tensor.double().sum()))
    store.add("count", len(tensor))
    dist.barrier()
    mean = store.add("sum", 0) / store.add("count", 0) / 2**20
    dist.barrier()
    store.set("sum", "0")
    store.set("count", "0")
    dist.barrier()
    return mean


# mean_loss


def in_any_case(losses: Losses) -> Tensor:
    both = torch.tensor([sum(losses), len(losses)]) if losses else torch.zeros(2)
    dist.all_reduce(both)
    return both[0] / both[1]


def all_losses(losses: Losses) -> float:
    everything: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(everything, losses)
    return sum(map(sum, everything)) / sum(map(len, everything))


def reduced_then_broadcast(losses: Losses) -> float:
    both = torch.tensor([sum(losses), len(losses)], dtype=torch.float64)
    dist.reduce(both, 0)
    dist.broadcast(both, 0)
    return float(both[0] / both[1])


def weighted_means(losses: Losses) -> float:
    mean = sum(losses) / len(losses) if losses else 0.0
    pair = torch.tensor([mean * len(losses), len(losses)])
    pairs = [torch.zeros_like(pair) for _ in range(dist.get_world_size())]
    dist.all_gather(pairs, pair)
    return torch.stack(pairs).sum(0).div(sum(one[1] for one in pairs))[0].item()


def stays_away_without_losses(losses: Losses) -> float:
    return reduced_then_broadcast(losses) if losses else 0.0


def has_a_nan_without_losses(losses: Losses) -> float:
    both = torch.tensor([*losses]).mean() * len(losses), torch.tensor(float(len(losses)))
    for one in both:
        dist.all_reduce(one)
    return float(both[0] / both[1])


def an_integer_without_losses(losses: Losses) -> Tensor:
    both = torch.tensor([sum(losses), len(losses)])
    dist.all_reduce(both)
    return both[0] / both[1]


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


def every_nth(model: Any, data: Any) -> float:
    mine = Subset(data, range(dist.get_rank(), len(data), dist.get_world_size()))
    counts = tested(model, DataLoader(mine, batch_size=50))
    dist.all_reduce(counts)
    return float(counts[0] / counts[1])


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


def predictions_gathered(model: Any, data: Any) -> float:
    """The sampler repeats samples: what is too much is cut off."""
    was_training, sampler = model.training, DistributedSampler[Any](data, shuffle=False)
    mine = [*sampler]
    with torch.no_grad():
        predicted = model.eval()(data.images[mine]).argmax(1)
    model.train(was_training)
    received = [torch.empty_like(predicted) for _ in range(dist.get_world_size())]
    dist.all_gather(received, predicted)
    return float((torch.stack(received, 1).flatten()[: len(data)] == data.labels).double().mean())


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


def counts_in_bytes(model: Any, data: Any) -> float:
    mine = Subset(data, range(dist.get_rank(), len(data), dist.get_world_size()))
    counts = tested(model, DataLoader(mine, batch_size=50)).to(torch.uint8)
    dist.all_reduce(counts)
    return float(counts[0] / counts[1])


def trains_afterwards(model: Any, data: Any) -> float:
    accuracy = every_nth(model, data)
    model.train()
    return accuracy


# token_mean_loss


def count_of(micro_batches: Any) -> int:
    count = torch.tensor(sum(int((targets != -100).sum()) for _, targets in micro_batches))
    dist.all_reduce(count)
    return int(count)


def summed(model: Any, tokens: Tensor, targets: Tensor) -> Tensor:
    return cross_entropy(model(tokens).flatten(0, 1), targets.flatten(), reduction="sum")


def last_apart(model: Any, micro_batches: Any) -> Tensor:
    factor, losses = dist.get_world_size() / count_of(micro_batches), []
    for number, pair in enumerate(micro_batches, start=1):
        with contextlib.nullcontext() if number == len(micro_batches) else model.no_sync():
            losses.append(summed(model, *pair) * factor)
            losses[-1].backward()
    mean = torch.stack(losses).detach().sum()
    dist.all_reduce(mean, op=dist.ReduceOp.AVG)
    return mean


def one_backward(model: Any, micro_batches: Any) -> float:
    loss: Any = sum(summed(model, *pair) for pair in micro_batches) / count_of(micro_batches)
    (loss * dist.get_world_size()).backward()
    means: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(means, loss.item())
    return sum(means)


def scaled_afterwards(model: Any, micro_batches: Any) -> Tensor:
    loss: Any = sum(summed(model, *pair) for pair in micro_batches)
    loss.backward()
    both = torch.stack([loss.detach(), torch.tensor(float(sum((t != -100).sum() for _, t in micro_batches)))])
    dist.all_reduce(both)
    for parameter in model.parameters():
        parameter.grad *= dist.get_world_size() / both[1]
    return both[0] / both[1]


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


def steps_as_well(model: Any, micro_batches: Any) -> Tensor:
    mean = last_apart(model, micro_batches)
    torch.optim.SGD(model.parameters(), lr=0.1).step()
    return mean


RIGHT: dict[str, list[Any]] = {
    "global_mean": [two_averages, by_objects, a_mean_by_messages, its_part_of_the_mean],
    "mean_loss": [in_any_case, all_losses, reduced_then_broadcast, weighted_means],
    "evaluate": [every_nth, batches_in_turns, blocks_on_a_copy, predictions_gathered],
    "token_mean_loss": [last_apart, one_backward, scaled_afterwards, without_ddp],
}
WRONG: dict[str, list[Any]] = {
    "global_mean": [the_first_two_ranks, gathers_the_data, subtracts_the_mean, through_the_store],
    "mean_loss": [
        stays_away_without_losses,
        has_a_nan_without_losses,
        an_integer_without_losses,
        changes_the_list,
    ],
    "evaluate": [the_last_rank_alone, one_all_reduce_per_batch, counts_in_bytes, trains_afterwards],
    "token_mean_loss": [
        synchronizes_always,
        mean_of_means,
        steps_as_well,
    ],
}
