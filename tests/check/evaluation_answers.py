"""Answers to the exercise `evaluate`: right ones, and wrong ones with words of their sentences."""

# mypy: disable-error-code="no-any-return"
from __future__ import annotations

import contextlib
import copy
import functools
from collections.abc import Iterator
from typing import Any

import torch
import torch.distributed
from torch import Tensor, nn
from torch.utils.data import DataLoader, Subset
from torch.utils.data.distributed import DistributedSampler

dist: Any = torch.distributed


def recognized_and_tested(model: nn.Module, batches: Any) -> Tensor:
    """In eval mode, without gradients, and then as it was."""
    was_training = model.training
    model.eval()
    counts = torch.zeros(2)
    with torch.no_grad():
        for images, labels in batches:
            counts += torch.tensor([(model(images).argmax(dim=1) == labels).sum(), len(labels)])
    model.train(was_training)
    return counts


def my_share(data: Any) -> range:
    return range(dist.get_rank(), len(data), dist.get_world_size())


def loader_of_my_share(data: Any, batch_size: int = 64) -> Any:
    return DataLoader(Subset(data, my_share(data)), batch_size=batch_size)


# right


def counts_added_up(model: nn.Module, data: Any) -> float:
    counts = recognized_and_tested(model, loader_of_my_share(data))
    dist.all_reduce(counts)
    return float(counts[0] / counts[1])


@contextlib.contextmanager
def only_looking(model: nn.Module) -> Iterator[None]:
    was_training = model.training
    model.train(False)
    with torch.no_grad():
        yield
    model.train(was_training)


def straight_from_memory(model: nn.Module, data: Any) -> Tensor:
    was_training = model.training
    model.eval()
    rank, world_size = dist.get_rank(), dist.get_world_size()
    with torch.inference_mode():
        right = (model(data.images[rank::world_size]).argmax(1) == data.labels[rank::world_size]).sum()
    model.train(was_training)
    right = right.clone()
    dist.all_reduce(right)
    return right / len(data)


@torch.no_grad()
def parts_that_lie_together(model: nn.Module, data: Any) -> Tensor:
    modes = [(part, part.training) for part in model.modules()]
    model.eval()
    rank, world_size = dist.get_rank(), dist.get_world_size()
    images, labels = data.images.tensor_split(world_size)[rank], data.labels.tensor_split(world_size)[rank]
    right = (model(images).argmax(1) == labels).float().sum().reshape(1, 1)
    for part, mode in modes:
        part.training = mode
    dist.all_reduce(right.data)
    return right / len(data)


def one_by_one(model: nn.Module, data: Any) -> float:
    with only_looking(model):
        right = sum(int(model(data[i][0].unsqueeze(0)).argmax()) == data[i][1] for i in my_share(data))
    everyone = [0] * dist.get_world_size()
    dist.all_gather_object(everyone, right)
    return sum(everyone) / len(data)


def predictions_gathered(model: nn.Module, data: Any) -> float:
    """The sampler repeats samples: what is too much is cut off."""
    sampler: Any = DistributedSampler(data, shuffle=False)
    with only_looking(model):
        mine = torch.cat([model(images).argmax(1) for images, _ in DataLoader(data, batch_size=16, sampler=sampler)])
    received = [torch.empty_like(mine) for _ in range(dist.get_world_size())]
    dist.all_gather(received, mine)
    predictions = torch.stack(received, dim=1).flatten()[: len(data)]
    return float((predictions == data.labels).double().mean())


def rank_0_tells_the_others(model: nn.Module, data: Any) -> float:
    counts = recognized_and_tested(model, loader_of_my_share(data))
    dist.reduce(counts, 0)
    answer = [float(counts[0] / counts[1])]
    dist.broadcast_object_list(answer, src=0)
    return answer[0]


def a_weighted_mean(model: nn.Module, data: Any) -> Tensor:
    right, tested = recognized_and_tested(model, loader_of_my_share(data))
    accuracy = right / tested.clamp(min=1) * tested / len(data)
    dist.all_reduce(accuracy)
    return accuracy


def on_a_copy(model: nn.Module, data: Any) -> float:
    return counts_added_up(copy.deepcopy(model), data)


def by_messages(model: nn.Module, data: Any) -> float:
    counts = recognized_and_tested(model, loader_of_my_share(data))
    received = torch.empty_like(counts)
    if dist.get_rank() > 0:
        dist.send(counts, 0)
        dist.recv(counts, 0)
    else:
        for other in range(1, dist.get_world_size()):
            dist.recv(received, other)
            counts += received
        for other in range(1, dist.get_world_size()):
            dist.send(counts, other)
    return (counts[0] / counts[1]).item()


def no_repeats_among_the_sampler(model: nn.Module, data: Any) -> float:
    sampler: Any = DistributedSampler(data, shuffle=False)
    mine = list(sampler)
    whole = len(data) // dist.get_world_size()
    mine = mine[: whole + (dist.get_rank() < len(data) % dist.get_world_size())]
    counts = recognized_and_tested(model, DataLoader(Subset(data, mine), batch_size=10))
    dist.all_reduce(counts)
    return (counts[0] / counts[1]).item()


def average_of_both(model: nn.Module, data: Any) -> float:
    counts = recognized_and_tested(model, loader_of_my_share(data, 1000))
    dist.all_reduce(counts, op=dist.ReduceOp.AVG)
    return float(counts[0]) / float(counts[1])


def whole_batches_in_turns(model: nn.Module, data: Any) -> float:
    batches = enumerate(DataLoader(data, batch_size=16))
    mine = [batch for number, batch in batches if number % dist.get_world_size() == dist.get_rank()]
    counts = recognized_and_tested(model, mine)
    dist.all_reduce(counts)
    return float(counts[0]) / len(data)


def the_others_copy(model: nn.Module, data: Any) -> float:
    """A copy is nobody's: its mode does not matter."""
    mine = copy.deepcopy(model).eval()
    with torch.inference_mode():
        right = sum(int((mine(images).argmax(1) == labels).sum()) for images, labels in loader_of_my_share(data, 9))
    everyone = torch.tensor(right)
    dist.all_reduce(everyone)
    return everyone.item() / len(data)


def without_a_graph(model: nn.Module, data: Any) -> float:
    """Frozen for so long, and then as it was."""
    wanted = [(parameter, parameter.requires_grad) for parameter in model.parameters()]
    model.requires_grad_(False)
    counts = recognized_and_tested(model, loader_of_my_share(data))
    for parameter, was_wanted in wanted:
        parameter.requires_grad_(was_wanted)
    dist.all_reduce(counts)
    return float(counts[0] / counts[1])


def each_sample_flagged(model: nn.Module, data: Any) -> float:
    flags = torch.zeros(len(data), dtype=torch.int32)
    with only_looking(model):
        for index in my_share(data):
            flags[index] = int(model(data.images[index : index + 1]).argmax() == data.labels[index])
    dist.all_reduce(flags, op=dist.ReduceOp.MAX)
    return float(flags.float().mean())


def counts_of_errors(model: nn.Module, data: Any) -> float:
    right, tested = recognized_and_tested(model, loader_of_my_share(data, 32))
    wrong = tested - right
    dist.all_reduce(wrong)
    return float(1 - wrong / len(data))


def gathered_pairs(model: nn.Module, data: Any) -> float:
    right, tested = recognized_and_tested(model, loader_of_my_share(data, 32)).tolist()
    pairs: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(pairs, (right, tested))
    return sum(right for right, _ in pairs) / sum(tested for _, tested in pairs)


def with_grad_switched(model: nn.Module, data: Any) -> float:
    was_on = torch.is_grad_enabled()
    torch.set_grad_enabled(False)
    try:
        return counts_added_up(model, data)
    finally:
        torch.set_grad_enabled(was_on)


RIGHT = [
    *(whole_batches_in_turns, the_others_copy, without_a_graph, each_sample_flagged, counts_of_errors),
    *(gathered_pairs, with_grad_switched),
    counts_added_up,
    straight_from_memory,
    parts_that_lie_together,
    one_by_one,
    predictions_gathered,
    rank_0_tells_the_others,
    a_weighted_mean,
    on_a_copy,
    by_messages,
    no_repeats_among_the_sampler,
    average_of_both,
]


# wrong


def rank_0_alone(model: nn.Module, data: Any) -> Tensor:
    """Every sample counts once, but nobody's time is saved."""
    answer = torch.zeros(1)
    if dist.get_rank() == 0:
        right, tested = recognized_and_tested(model, DataLoader(data, batch_size=100))
        answer[0] = right / tested
    dist.broadcast(answer, 0)
    return answer


def rank_0_alone_tells_by_objects(model: nn.Module, data: Any) -> float:
    answer = [0.0]
    if dist.get_rank() == 0:
        right, tested = recognized_and_tested(model, DataLoader(data, batch_size=100))
        answer = [float(right / tested)]
    dist.broadcast_object_list(answer)
    return answer[0]


def rank_0_alone_adds_nothing(model: nn.Module, data: Any) -> float:
    """The others bring zeroes."""
    counts = torch.zeros(2)
    if dist.get_rank() == 0:
        counts = recognized_and_tested(model, DataLoader(data, batch_size=100))
    dist.all_reduce(counts)
    return float(counts[0] / counts[1])


def the_last_rank_alone(model: nn.Module, data: Any) -> Tensor:
    answer, last = torch.zeros(1), dist.get_world_size() - 1
    if dist.get_rank() == last:
        right, tested = recognized_and_tested(model, DataLoader(data, batch_size=100))
        answer[0] = right / tested
    dist.broadcast(answer, last)
    return answer


def leaves_it_in_eval_mode(model: nn.Module, data: Any) -> float:
    counts = recognized_and_tested(model, loader_of_my_share(data))
    model.eval()
    dist.all_reduce(counts)
    return float(counts[0] / counts[1])


def always_back_to_training(model: nn.Module, data: Any) -> float:
    counts = recognized_and_tested(model, loader_of_my_share(data))
    model.train()
    dist.all_reduce(counts)
    return float(counts[0] / counts[1])


def with_gradients(model: nn.Module, data: Any) -> float:
    was_training = model.training
    model.eval()
    right = sum(int((model(images).argmax(1) == labels).sum()) for images, labels in loader_of_my_share(data))
    model.train(was_training)
    count = torch.tensor(right)
    dist.all_reduce(count)
    return count.item() / len(data)


def no_grad_around_the_wrong_part(model: nn.Module, data: Any) -> float:
    was_training = model.training
    model.eval()
    outputs = [(model(images), labels) for images, labels in loader_of_my_share(data)]
    model.train(was_training)
    with torch.no_grad():
        count = torch.tensor(sum(int((output.argmax(1) == labels).sum()) for output, labels in outputs))
        dist.all_reduce(count)
    return count.item() / len(data)


def detached(model: nn.Module, data: Any) -> float:
    was_training = model.training
    model.eval()
    count = sum((int((model(i).detach().argmax(1) == labels).sum()) for i, labels in loader_of_my_share(data)), 0)
    model.train(was_training)
    counts = torch.tensor(count)
    dist.all_reduce(counts)
    return counts.item() / len(data)


def leaves_it_frozen(model: nn.Module, data: Any) -> float:
    model.requires_grad_(False)
    return counts_added_up(model, data)


def eval_only_in_words(model: nn.Module, data: Any) -> float:
    """model.eval without its brackets does nothing."""
    model.eval  # noqa: B018
    with torch.no_grad():
        count = sum(int((model(images).argmax(1) == labels).sum()) for images, labels in loader_of_my_share(data))
    counts = torch.tensor(count)
    dist.all_reduce(counts)
    return counts.item() / len(data)


def the_best_of_all(model: nn.Module, data: Any) -> Tensor:
    right, tested = recognized_and_tested(model, loader_of_my_share(data))
    accuracy = right / tested.clamp(min=1)
    dist.all_reduce(accuracy, op=dist.ReduceOp.MAX)
    return accuracy


def one_too_few(model: nn.Module, data: Any) -> float:
    mine = list(my_share(data))[:-1]
    counts = recognized_and_tested(model, DataLoader(Subset(data, mine), batch_size=10))
    dist.all_reduce(counts)
    return float(counts[0] / counts[1].clamp(min=1))


def padding_is_counted(model: nn.Module, data: Any) -> float:
    sampler: Any = DistributedSampler(data, shuffle=False)
    counts = recognized_and_tested(model, DataLoader(data, batch_size=64, sampler=sampler))
    dist.all_reduce(counts)
    return float(counts[0] / counts[1])


def padding_is_counted_in_a_shuffle(model: nn.Module, data: Any) -> float:
    sampler: Any = DistributedSampler(data)
    counts = recognized_and_tested(model, DataLoader(data, batch_size=64, sampler=sampler))
    dist.all_reduce(counts)
    return float(counts[0] / counts[1])


def padding_over_the_number_of_samples(model: nn.Module, data: Any) -> float:
    sampler: Any = DistributedSampler(data, shuffle=False)
    counts = recognized_and_tested(model, DataLoader(data, batch_size=64, sampler=sampler))
    dist.all_reduce(counts)
    return float(counts[0] / len(data))


def mean_of_the_accuracies(model: nn.Module, data: Any) -> Tensor:
    right, tested = recognized_and_tested(model, loader_of_my_share(data))
    accuracy = right / tested.clamp(min=1)
    dist.all_reduce(accuracy)
    return accuracy / dist.get_world_size()


def sum_of_the_accuracies(model: nn.Module, data: Any) -> Tensor:
    right, tested = recognized_and_tested(model, loader_of_my_share(data))
    accuracy = right / tested.clamp(min=1)
    dist.all_reduce(accuracy)
    return accuracy


def only_my_share(model: nn.Module, data: Any) -> Tensor:
    right, tested = recognized_and_tested(model, loader_of_my_share(data))
    return right / tested.clamp(min=1)


def own_count_over_all(model: nn.Module, data: Any) -> Tensor:
    right, _ = recognized_and_tested(model, loader_of_my_share(data))
    return right / len(data)


def over_my_count(model: nn.Module, data: Any) -> Tensor:
    right, tested = recognized_and_tested(model, loader_of_my_share(data))
    dist.all_reduce(right)
    return right / tested.clamp(min=1)


def over_my_count_times_the_ranks(model: nn.Module, data: Any) -> Tensor:
    right, tested = recognized_and_tested(model, loader_of_my_share(data))
    dist.all_reduce(right)
    return right / (tested.clamp(min=1) * dist.get_world_size())


def drops_the_remainder(model: nn.Module, data: Any) -> float:
    sampler: Any = DistributedSampler(data, shuffle=False, drop_last=True)
    counts = recognized_and_tested(model, DataLoader(data, batch_size=64, sampler=sampler))
    dist.all_reduce(counts)
    return float(counts[0] / counts[1].clamp(min=1))


def drops_the_last_batch(model: nn.Module, data: Any) -> float:
    batches: Any = DataLoader(Subset(data, my_share(data)), batch_size=5, drop_last=True)
    counts = recognized_and_tested(model, batches)
    dist.all_reduce(counts)
    return float(counts[0] / counts[1].clamp(min=1))


def equal_shares(model: nn.Module, data: Any) -> float:
    rank, each = dist.get_rank(), len(data) // dist.get_world_size()
    counts = recognized_and_tested(model, [(data.images[rank * each :][:each], data.labels[rank * each :][:each])])
    dist.all_reduce(counts)
    return float(counts[0] / counts[1].clamp(min=1))


def float_batch(model: nn.Module, data: Any) -> float:
    batches: Any = DataLoader(Subset(data, my_share(data)), batch_size=128 / dist.get_world_size())
    counts = recognized_and_tested(model, batches)
    dist.all_reduce(counts)
    return float(counts[0] / counts[1])


def in_training_mode(model: nn.Module, data: Any) -> float:
    right, tested = 0, 0
    with torch.no_grad():
        for images, labels in loader_of_my_share(data):
            right += int((model(images).argmax(dim=1) == labels).sum())
            tested += len(labels)
    counts = torch.tensor([right, tested])
    dist.all_reduce(counts)
    return float(counts[0] / counts[1])


def percentage(model: nn.Module, data: Any) -> float:
    return 100 * counts_added_up(model, data)


def only_rank_0_answers(model: nn.Module, data: Any) -> float | None:
    counts = recognized_and_tested(model, loader_of_my_share(data))
    dist.reduce(counts, 0)
    return float(counts[0] / counts[1]) if dist.get_rank() == 0 else None


def only_rank_0_has_the_sum(model: nn.Module, data: Any) -> float:
    counts = recognized_and_tested(model, loader_of_my_share(data))
    dist.reduce(counts, 0)
    return float(counts[0] / max(1.0, float(counts[1]))) if dist.get_rank() == 0 else 0.0


def summed_twice(model: nn.Module, data: Any) -> Tensor:
    right, _ = recognized_and_tested(model, loader_of_my_share(data))
    dist.all_reduce(right)
    dist.all_reduce(right)
    return right / len(data)


def divided_by_the_ranks_as_well(model: nn.Module, data: Any) -> float:
    return counts_added_up(model, data) / dist.get_world_size()


def everyone_tests_everything(model: nn.Module, data: Any) -> float:
    right, tested = recognized_and_tested(model, DataLoader(data, batch_size=100))
    return float(right / tested)


def everyone_tests_everything_and_adds_up(model: nn.Module, data: Any) -> Tensor:
    right, _ = recognized_and_tested(model, DataLoader(data, batch_size=100))
    dist.all_reduce(right)
    return right / len(data)


def a_count(model: nn.Module, data: Any) -> Tensor:
    counts = recognized_and_tested(model, loader_of_my_share(data))
    dist.all_reduce(counts)
    return counts[0]


def both_counts(model: nn.Module, data: Any) -> Tensor:
    counts = recognized_and_tested(model, loader_of_my_share(data))
    dist.all_reduce(counts)
    return counts


def mean_of_batches(model: nn.Module, data: Any) -> Tensor:
    each: Any = [recognized_and_tested(model, [batch]) for batch in loader_of_my_share(data, 7)]
    means = [float(right / tested) for right, tested in each]
    both = torch.tensor([sum(means), len(means)])
    dist.all_reduce(both)
    return both[0] / both[1]


def the_error(model: nn.Module, data: Any) -> float:
    return 1 - counts_added_up(model, data)


def batches_times_batch_size(model: nn.Module, data: Any) -> float:
    loader = loader_of_my_share(data, 10)
    right, _ = recognized_and_tested(model, loader)
    both = torch.tensor([right, len(loader) * 10.0])
    dist.all_reduce(both)
    return float(both[0] / both[1])


def divides_on_each_rank(model: nn.Module, data: Any) -> float:
    right, tested = (float(count) for count in recognized_and_tested(model, loader_of_my_share(data)))
    share = torch.tensor([right / tested * tested, tested])
    dist.all_reduce(share)
    return float(share[0] / share[1])


def returns_nothing(model: nn.Module, data: Any) -> None:
    dist.all_reduce(recognized_and_tested(model, loader_of_my_share(data)))


def every_number_below_one_is_none(model: nn.Module, data: Any) -> Tensor:
    counts = recognized_and_tested(model, loader_of_my_share(data)).long()
    dist.all_reduce(counts)
    return counts[0] // counts[1]


ALONE = "Straggler: rank 0 evaluates 2001 of 2001 samples, rank 1 none"
WRONG = [
    (rank_0_alone, ALONE),
    (rank_0_alone_tells_by_objects, ALONE),
    (rank_0_alone_adds_nothing, ALONE),
    (
        the_last_rank_alone,
        "Straggler: rank 1 evaluates 2001 of 2001 samples, rank 0 none. Give each rank an "
        "equal partition, and sum the counts",
    ),
    (leaves_it_in_eval_mode, "It leaves the model in eval mode"),
    (
        always_back_to_training,
        "The first call is right, but the next one is not: the model was in eval mode, but is left in training "
        "mode. Save model.training first, and pass it to model.train() at the end",
    ),
    (with_gradients, "Evaluate under torch.no_grad()"),
    (no_grad_around_the_wrong_part, "It builds an autograd graph for every batch"),
    (detached, "It builds an autograd graph for every batch"),
    (leaves_it_frozen, "It leaves parameters with requires_grad=False, so they would no longer train"),
    (eval_only_in_words, "It evaluates in training mode, where dropout sets random inputs to zero"),
    (
        the_best_of_all,
        "returns the accuracy of its own partition only. Sum the correct predictions and the number of samples",
    ),
    (
        one_too_few,
        "samples are never evaluated: drop_last or a division with // leaves out the remainder. Include the remaining "
        "samples",
    ),
    (
        padding_is_counted,
        "1 sample is counted twice: DistributedSampler repeats samples until all ranks have the same number. "
        "Take the indices range(rank, len(data), world_size) instead",
    ),
    (
        padding_is_counted_in_a_shuffle,
        "1 sample is counted twice: DistributedSampler repeats samples until all ranks have the same number. "
        "Take the indices range(rank, len(data), world_size) instead",
    ),
    (
        padding_over_the_number_of_samples,
        "1 sample is counted twice: DistributedSampler repeats samples until all ranks have the same number. "
        "Take the indices range(rank, len(data), world_size) instead",
    ),
    (
        mean_of_the_accuracies,
        "That is the mean of the ranks' accuracies, but a rank with more samples must count more. Sum the "
        "correct predictions and the number of samples over all ranks, then divide once",
    ),
    (sum_of_the_accuracies, "That is the sum of the ranks' accuracies. Sum the correct predictions and"),
    (
        only_my_share,
        "Rank 0 returns the accuracy of its own partition only. Sum the correct predictions and the number of samples",
    ),
    (own_count_over_all, "Rank 0 divides its own correct predictions by the total number of samples"),
    (
        over_my_count,
        "The sum was divided by the number of samples of this rank only. Sum the sample counts too",
    ),
    (
        over_my_count_times_the_ranks,
        "The sum was divided by this rank's sample count times the number of ranks. Sum the sample counts over the "
        "ranks instead",
    ),
    (
        drops_the_remainder,
        "1 of 37 samples is never evaluated: drop_last or a division with // leaves out the remainder. Include the "
        "remaining samples",
    ),
    (
        drops_the_last_batch,
        "7 of 37 samples are never evaluated: drop_last or a division with // leaves out the remainder. Include the "
        "remaining samples",
    ),
    (equal_shares, "1 of 37 samples is never evaluated: drop_last or a division with // leaves out the remainder"),
    (float_batch, "A batch size must be an integer. Divide with //, not with /"),
    (in_training_mode, "It evaluates in training mode, where dropout sets random inputs to zero"),
    (percentage, "That is a percentage. Return a fraction between 0 and 1"),
    (only_rank_0_answers, "Only rank 0 has the answer; rank 1 has None. Return the answer on every rank"),
    (only_rank_0_has_the_sum, "Rank 0 has the accuracy, but rank 1 does not. Return the accuracy on every rank"),
    (summed_twice, "The counts of correct predictions were summed over the ranks twice"),
    (divided_by_the_ranks_as_well, "The accuracy was divided by the number of ranks as well"),
    (everyone_tests_everything, "Every rank evaluates all samples, which takes as long as on one rank"),
    (everyone_tests_everything_and_adds_up, "Every rank evaluates all samples, and the results are summed"),
    (a_count, "That is the number of correct predictions. Divide it by the number of samples on all ranks"),
    (both_counts, "It returns a tensor of shape [2]. Return one number"),
    (
        mean_of_batches,
        "That is the mean of the batches' accuracies, where a short last batch counts as much as a full one",
    ),
    (the_error, "That is the error rate"),
    (
        batches_times_batch_size,
        "The 16 correct predictions are divided by 40, but there are 37 samples. Divide by the number of samples on "
        "all ranks",
    ),
    (divides_on_each_rank, "A rank without samples divides by its own count, which is 0"),
    (returns_nothing, "It returns None. Return the answer, and leave the given data set unchanged"),
    (every_number_below_one_is_none, "The accuracy was truncated to an integer. Divide with /, not with //"),
]


# hanging


def only_rank_0_adds_up(model: nn.Module, data: Any) -> float:
    counts = recognized_and_tested(model, loader_of_my_share(data))
    if dist.get_rank() == 0:
        dist.all_reduce(counts)
    return float(counts[0] / counts[1])


def ranks_without_samples_go_home(model: nn.Module, data: Any) -> float:
    if not my_share(data):
        return 0.0
    return counts_added_up(model, data)


def asks_the_others_in_every_batch(model: nn.Module, data: Any, batch_size: int = 32) -> float:
    everyone = torch.zeros(2)
    for batch in loader_of_my_share(data, batch_size):
        counts = recognized_and_tested(model, [batch])
        dist.all_reduce(counts)
        everyone += counts
    return float(everyone[0] / everyone[1])


asks_in_every_large_batch = functools.partial(asks_the_others_in_every_batch, batch_size=1000)

HANGING = [
    (only_rank_0_adds_up, "Not every rank calls all_reduce, so the ranks that call it wait forever"),
    (
        ranks_without_samples_go_home,
        "It works for 37 samples, but fails for fewer samples than ranks: rank 1 has no samples and never calls "
        "all_reduce, so rank 0 hangs. Call all_reduce on every rank, even with counts of 0",
    ),
    (asks_the_others_in_every_batch, "all_reduce"),
    (asks_in_every_large_batch, "all_reduce"),
]


@torch.no_grad()
def counted(model: nn.Module, data: Any, dim: int, dtype: torch.dtype) -> Tensor:
    """How many are recognized, and how many are tested."""
    rank, world_size, was_training = dist.get_rank(), dist.get_world_size(), model.training
    labels = data.labels[rank::world_size]
    read = model.eval()(data.images[rank::world_size]).argmax(dim)
    model.train(was_training)
    right = sum(int(one == other) for one, other in zip(read, labels, strict=False))
    counts = torch.tensor([right, len(labels)]).to(dtype)
    dist.all_reduce(counts)
    return counts


def largest_over_the_samples(model: nn.Module, data: Any) -> float:
    right, tested = counted(model, data, 0, torch.int64).tolist()
    return right / tested


def in_bytes(model: nn.Module, data: Any) -> float:
    right, tested = counted(model, data, 1, torch.uint8).tolist()
    return right / tested


def cuts_each_accuracy_down(model: nn.Module, data: Any) -> float:
    right, tested = recognized_and_tested(model, loader_of_my_share(data)).tolist()
    accuracy = torch.tensor(right // max(tested, 1))
    dist.all_reduce(accuracy)
    return accuracy.item() / dist.get_world_size()


WRONG += [
    (largest_over_the_samples, "No prediction counts as correct. Check that argmax goes over the classes, with dim=1"),
    (in_bytes, "The counts overflow their dtype with 257 samples. Count in int64"),
    (
        cuts_each_accuracy_down,
        "The accuracy is 0. Take argmax over the classes, with dim=1, and divide with / instead of //",
    ),
]
