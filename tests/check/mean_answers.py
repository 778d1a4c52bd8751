"""Answers to the exercise `global_mean`: right ones, and wrong ones with words of their sentences."""

# mypy: disable-error-code="no-any-return"
from __future__ import annotations

from typing import Any

import torch
import torch.distributed
from torch import Tensor

dist: Any = torch.distributed


# right


def sum_and_count(tensor: Tensor) -> Tensor:
    both = torch.tensor([tensor.sum(), tensor.numel()])
    dist.all_reduce(both)
    return both[0] / both[1]


def two_all_reduces(tensor: Tensor) -> float:
    total, count = tensor.sum(), torch.tensor(len(tensor))
    dist.all_reduce(total)
    dist.all_reduce(count)
    return float(total / count)


def two_averages(tensor: Tensor) -> Tensor:
    total, count = tensor.sum(), torch.tensor(float(len(tensor)))
    dist.all_reduce(total, op=dist.ReduceOp.AVG)
    dist.all_reduce(count, op=dist.ReduceOp.AVG)
    return total / count


def weighted_means(tensor: Tensor) -> Tensor:
    count = torch.tensor([float(tensor.numel())])
    dist.all_reduce(count)
    part = tensor.mean() * tensor.numel() / count
    dist.all_reduce(part)
    return part


def reduce_then_broadcast_from_the_last(tensor: Tensor) -> float:
    last = dist.get_world_size() - 1
    both = torch.tensor([tensor.double().sum(), float(len(tensor))], dtype=torch.float64)
    dist.reduce(both, dst=last)
    mean = both[0] / both[1]
    dist.broadcast(mean, src=last)
    return float(mean)


def all_gather_of_two_numbers(tensor: Tensor) -> Tensor:
    mine = torch.stack([tensor.sum(), torch.tensor(tensor.numel(), dtype=tensor.dtype)])
    received = [torch.empty_like(mine) for _ in range(dist.get_world_size())]
    dist.all_gather(received, mine)
    total, count = torch.stack(received).sum(0)
    return total / count


def all_gather_of_objects(tensor: Tensor) -> float:
    received: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(received, (tensor.sum().item(), tensor.numel()))
    return float(sum(total for total, _ in received) / sum(count for _, count in received))


def asynchronous(tensor: Tensor) -> Tensor:
    total, count = tensor.sum().reshape(1), torch.tensor([tensor.numel()])
    requests = [dist.all_reduce(total, async_op=True), dist.all_reduce(count, async_op=True)]
    for request in requests:
        request.wait()
    return total / count


def by_messages_through_rank_0(tensor: Tensor) -> float:
    both = torch.tensor([float(tensor.sum()), float(tensor.numel())], dtype=torch.float64)
    received = torch.empty_like(both)
    others = range(1, dist.get_world_size())
    if dist.get_rank() == 0:
        for other in others:
            dist.recv(received, other)
            both += received
        for other in others:
            dist.send(both, other)
    else:
        dist.send(both, 0)
        dist.recv(both, 0)
    return float(both[0] / both[1])


def gather_objects_then_broadcast_objects(tensor: Tensor) -> float:
    received: list[Any] | None = [None] * dist.get_world_size() if dist.get_rank() == 0 else None
    dist.gather_object((tensor.sum(), len(tensor)), received, dst=0)
    mean: list[Any] = [None]
    if received is not None:
        mean = [sum(total for total, _ in received) / sum(count for _, count in received)]
    dist.broadcast_object_list(mean, src=0)
    return float(mean[0])


def a_number_of_numpy(tensor: Tensor) -> object:
    return sum_and_count(tensor).numpy().reshape(1)[0]


RIGHT = [
    a_number_of_numpy,
    sum_and_count,
    two_all_reduces,
    two_averages,
    weighted_means,
    reduce_then_broadcast_from_the_last,
    all_gather_of_two_numbers,
    all_gather_of_objects,
    asynchronous,
    by_messages_through_rank_0,
    gather_objects_then_broadcast_objects,
]


# of learners who have read only the lesson


def in_an_object(tensor: Tensor) -> float:
    facts: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(facts, {"sum": tensor.sum().item(), "count": len(tensor)})
    return sum(one["sum"] for one in facts) / sum(one["count"] for one in facts)


def the_count_as_a_whole_number(tensor: Tensor) -> Tensor:
    total, count = tensor.double().sum(), torch.tensor([tensor.numel()])
    dist.all_reduce(total, op=dist.ReduceOp.SUM)
    dist.all_reduce(count, op=dist.ReduceOp.SUM)
    return (total / count).squeeze()


def its_part_of_the_mean(tensor: Tensor) -> float:
    count = torch.tensor(float(tensor.numel()), dtype=torch.float64)
    dist.all_reduce(count)
    part = tensor.double().sum() / count
    dist.all_reduce(part)
    return part.item()


RIGHT += [in_an_object, the_count_as_a_whole_number, its_part_of_the_mean]


# wrong


def mean_of_means(tensor: Tensor) -> Tensor:
    mean = tensor.mean()
    dist.all_reduce(mean)
    return mean / dist.get_world_size()


def average_of_means(tensor: Tensor) -> Tensor:
    mean = tensor.mean()
    dist.all_reduce(mean, op=dist.ReduceOp.AVG)
    return mean


def its_own_mean(tensor: Tensor) -> Tensor:
    return tensor.mean()


def total_sum(tensor: Tensor) -> Tensor:
    total = tensor.sum()
    dist.all_reduce(total)
    return total


def divided_by_the_ranks(tensor: Tensor) -> Tensor:
    return total_sum(tensor) / dist.get_world_size()


def divided_by_its_own_count(tensor: Tensor) -> Tensor:
    return total_sum(tensor) / len(tensor)


def divided_by_its_own_count_times_ranks(tensor: Tensor) -> Tensor:
    return total_sum(tensor) / (len(tensor) * dist.get_world_size())


def own_sum_by_all_counts(tensor: Tensor) -> Tensor:
    count = torch.tensor(float(len(tensor)))
    dist.all_reduce(count)
    return tensor.sum() / count


def sum_of_means(tensor: Tensor) -> Tensor:
    mean = tensor.mean()
    dist.all_reduce(mean)
    return mean


def divided_once_more(tensor: Tensor) -> Tensor:
    return sum_and_count(tensor) / dist.get_world_size()


def largest_count(tensor: Tensor) -> Tensor:
    count = torch.tensor(float(len(tensor)))
    dist.all_reduce(count, op=dist.ReduceOp.MAX)
    return total_sum(tensor) / (count * dist.get_world_size())


def only_rank_0(tensor: Tensor) -> Tensor | None:
    mean = sum_and_count(tensor)
    return mean if dist.get_rank() == 0 else None


def reduced_to_rank_0(tensor: Tensor) -> Tensor:
    both = torch.tensor([tensor.sum(), float(tensor.numel())])
    dist.reduce(both, dst=0)
    return both[0] / both[1] if dist.get_rank() == 0 else tensor.mean()


def returns_nothing(tensor: Tensor) -> None:
    sum_and_count(tensor)


def in_place(tensor: Tensor) -> None:
    tensor.fill_(float(sum_and_count(tensor)))


def subtracts_the_mean(tensor: Tensor) -> Tensor:
    mean = sum_and_count(tensor)
    tensor -= mean
    return mean


def returns_sum_and_count(tensor: Tensor) -> Tensor:
    both = torch.tensor([tensor.sum(), tensor.numel()])
    dist.all_reduce(both)
    return both


def whole_number(tensor: Tensor) -> int:
    return int(sum_and_count(tensor))


def a_whole_number_on_the_way(tensor: Tensor) -> Tensor:
    both = torch.tensor([int(tensor.sum()), tensor.numel()])
    dist.all_reduce(both)
    return both[0] / both[1]


def gathers_the_data(tensor: Tensor) -> Tensor:
    counts = [torch.tensor(0) for _ in range(dist.get_world_size())]
    dist.all_gather(counts, torch.tensor(len(tensor)))
    longest = int(max(counts))
    padded = torch.cat([tensor, tensor.new_zeros(longest - len(tensor))])
    received = [torch.empty_like(padded) for _ in counts]
    dist.all_gather(received, padded)
    return torch.cat([one[:count] for one, count in zip(received, counts, strict=True)]).mean()


def gathers_the_data_as_objects(tensor: Tensor) -> Tensor:
    received: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(received, tensor)
    return torch.cat(received).mean()


def sends_the_data_to_rank_0(tensor: Tensor) -> Tensor:
    everything = tensor
    others = range(1, dist.get_world_size())
    mean = torch.zeros(1, dtype=tensor.dtype)
    count = torch.zeros(1, dtype=torch.int64)
    if dist.get_rank() == 0:
        for other in others:
            dist.recv(count, other)
            part = tensor.new_empty(int(count))
            dist.recv(part, other)
            everything = torch.cat([everything, part])
        mean = everything.mean().reshape(1)
        for other in others:
            dist.send(mean, other)
    else:
        dist.send(torch.tensor([len(tensor)]), 0)
        dist.send(tensor, 0)
        dist.recv(mean, 0)
    return mean


def adds_up_elements(tensor: Tensor) -> Tensor:
    longest = torch.tensor(len(tensor))
    dist.all_reduce(longest, op=dist.ReduceOp.MAX)
    padded = torch.cat([tensor, tensor.new_zeros(int(longest) - len(tensor))])
    count = torch.tensor(float(len(tensor)))
    dist.all_reduce(padded)
    dist.all_reduce(count)
    return padded.sum() / count


def adds_up_unequal_lengths(tensor: Tensor) -> Tensor:
    total = tensor.clone()
    dist.all_reduce(total)
    return total.mean() / dist.get_world_size()


def does_not_wait(tensor: Tensor) -> Tensor:
    both = torch.tensor([tensor.sum(), tensor.numel()])
    KEPT.append((both, dist.all_reduce(both, async_op=True)))
    return both[0] / both[1]


KEPT: list[object] = []


def the_first_two_ranks(tensor: Tensor) -> Tensor:
    both = torch.tensor([float(tensor.sum()), float(tensor.numel())])
    received = torch.empty_like(both)
    rank = dist.get_rank()
    if rank == 0 and dist.get_world_size() > 1:
        dist.send(both, 1)
        dist.recv(received, 1)
    elif rank == 1:
        dist.recv(received, 0)
        dist.send(both, 0)
    else:
        received.zero_()
    total, count = both + received
    return total / count


def through_the_store(tensor: Tensor) -> float:
    store = dist.distributed_c10d._get_default_store()
    rank, world_size = dist.get_rank(), dist.get_world_size()
    store.set(f"mine {rank}", f"{float(tensor.double().sum())} {len(tensor)}")
    dist.barrier()
    pairs = [store.get(f"mine {other}").decode().split() for other in range(world_size)]
    dist.barrier()
    return sum(float(total) for total, _ in pairs) / sum(int(count) for _, count in pairs)


def ends_the_group(tensor: Tensor) -> Tensor:
    mean = sum_and_count(tensor)
    dist.destroy_process_group()
    return mean


def raises(tensor: Tensor) -> Tensor:
    return tensor.mean(dim=3)


WRONG = [
    (mean_of_means, "mean of the ranks' means"),
    (average_of_means, "mean of the ranks' means"),
    (its_own_mean, "Rank 0 returns the mean of its own elements"),
    (total_sum, "That is the sum over all ranks. Divide it by the number of elements on all ranks"),
    (divided_by_the_ranks, "divided by the number of ranks. Divide it by the number of elements"),
    (divided_by_its_own_count, "The sum was divided by the count of this rank only"),
    (
        divided_by_its_own_count_times_ranks,
        "The sum was divided by this rank's count times the number of ranks",
    ),
    (own_sum_by_all_counts, "divides its own sum by the total count. Sum the ranks' sums first"),
    (sum_of_means, "sum of the ranks' means"),
    (divided_once_more, "divided by the number of ranks as well"),
    (
        largest_count,
        "The sum was divided by the largest count times the number of ranks. Sum the counts (ReduceOp.SUM, not MAX)",
    ),
    (only_rank_0, "Only rank 0 has the answer"),
    (reduced_to_rank_0, "Rank 1 returns the mean of its own elements"),
    (returns_nothing, "returns None"),
    (in_place, "It returns None. Return the answer, and leave the given tensor unchanged"),
    (subtracts_the_mean, "The answer is right, but the given tensor was changed. Work on a copy"),
    (returns_sum_and_count, "returns a tensor of shape [2]. Return one number"),
    (whole_number, "truncated to an integer"),
    (a_whole_number_on_the_way, "Each rank's sum was truncated to an integer. Keep the sum a float"),
    (gathers_the_data, "sends its data. A sum and a count per rank are enough"),
    (gathers_the_data_as_objects, "sends its data. A sum and a count per rank are enough"),
    (sends_the_data_to_rank_0, "rank 1 sends its data"),
    (adds_up_elements, "sends its data. A sum and a count per rank are enough"),
    (does_not_wait, "reads the result of all_reduce too early"),
    (the_first_two_ranks, "It works with 2 ranks, but not with 3"),
    (through_the_store, "too little is communicated"),
    (ends_the_group, "The process group was destroyed or replaced"),
    (raises, "raised IndexError"),
]


def gathers_unequal_lengths(tensor: Tensor) -> Tensor:
    room = [torch.zeros_like(tensor) for _ in range(dist.get_world_size())]
    dist.all_gather(room, tensor)
    return torch.cat(room).mean()


WRONG += [(gathers_unequal_lengths, "Size mismatch in all_gather: the ranks pass tensors of different sizes")]


def reduces(tensor: Tensor) -> float:
    both = torch.tensor([float(tensor.sum()), tensor.numel()], dtype=torch.float64)
    dist.reduce(both, dst=0)
    return float(both[0] / both[1])


def only_rank_0_divides(tensor: Tensor) -> float:
    both = torch.tensor([float(tensor.sum()), tensor.numel()], dtype=torch.float64)
    dist.all_reduce(both)
    return float(both[0] / both[1]) if dist.get_rank() == 0 else float(both[0])


def takes_what_all_reduce_returns(tensor: Tensor) -> float:
    total = dist.all_reduce(tensor.sum())
    return total / tensor.numel()


def the_largest_count_for_all(tensor: Tensor) -> float:
    total, count = tensor.double().sum(), torch.tensor(float(len(tensor)), dtype=torch.float64)
    dist.all_reduce(total)
    dist.all_reduce(count, op=dist.ReduceOp.MAX)
    return (total / (count * dist.get_world_size())).item()


def sums_in_place_first(tensor: Tensor) -> Tensor:
    total, count = tensor[:1], torch.tensor([float(tensor.numel())])
    total.copy_(tensor.sum())
    dist.all_reduce(total)
    dist.all_reduce(count)
    return total / count


def the_data_in_an_object(tensor: Tensor) -> float:
    everything: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(everything, tensor)
    return float(torch.cat(everything).double().mean())


def the_median_of_means(tensor: Tensor) -> float:
    means: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(means, tensor.double().mean().item())
    return sorted(means)[len(means) // 2]


WRONG += [
    (reduces, "reduce gives the sum to one rank only"),
    (only_rank_0_divides, "Only rank 0 is right. On rank 1, that is the sum over all ranks"),
    (takes_what_all_reduce_returns, "all_reduce returns None. Use the tensor that you passed, which holds the result"),
    (the_largest_count_for_all, "The sum was divided by the largest count times the number of ranks"),
    (sums_in_place_first, "The answer is right, but the given tensor was changed. Work on a copy"),
    (the_data_in_an_object, "sends its data. A sum and a count per rank are enough"),
    (the_median_of_means, "Rank 0"),
]


# hanging


def only_rank_0_reduces(tensor: Tensor) -> Tensor:
    both = torch.tensor([tensor.sum().item(), tensor.numel()])
    if dist.get_rank() == 0:
        dist.all_reduce(both)
    else:
        dist.recv(both, 0)
    return both[0] / both[1]


def rank_0_stays_away(tensor: Tensor) -> Tensor:
    return tensor.mean() if dist.get_rank() == 0 else sum_and_count(tensor)


HANGING = [
    (only_rank_0_reduces, "Rank 0 waits in all_reduce, but rank 1 waits in recv"),
    (rank_0_stays_away, "Not every rank calls all_reduce"),
    (adds_up_unequal_lengths, "ensors of different size"),
]
