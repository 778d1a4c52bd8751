"""The exercise of shuffling: a new order of the samples in every epoch, and the same one for all ranks."""

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable, Iterable
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from ddp_lessons.check.judging.exercise import Case, Difference, Exercise, dtype_name, named
from ddp_lessons.check.judging.exercise_trials import with_lateness
from ddp_lessons.check.judging.report import Report
from ddp_lessons.check.judging.unwritten_functions import mentions
from ddp_lessons.check.trials.reshuffling import never_seen, why_the_same
from ddp_lessons.check.trials.sample_shares import (
    MANY,
    SHUFFLES_THE_DATA,
    DataTrial,
    InTurns,
    Shares,
    changed_data,
    examine_in_turns,
    other_random_numbers,
    shares_of,
    why_overlapping,
)

# out of order and far apart: counting calls, or using only a part of the epoch, gives repetitions
_EPOCHS = (0, 1, 2, 3, 10, 4, 7, 101, 50, 1000, 5, 23)
_ONCE_MORE = (3, 1000, 0, 10, 101, 2, 5, 50, 1, 23, 7, 4)
_EVEN_SHARES = "Take order[rank::world_size], or for a tensor order.tensor_split(world_size)[rank]"
_SHUFFLES = {"DistributedSampler", "set_epoch", "randperm", "permutation", "shuffle", "sample", "range", "arange"}


def epoch_order(function: Callable[[Any, int], Iterable[int]]) -> Report:
    """Check `function(data, epoch)`: every rank returns the indices of its samples in this epoch, in order.

    Together the ranks see every sample, in an order that is shuffled again in each epoch, as a whole, so that in time
    every rank sees every sample. Asked for the same epoch again, in any order of calls, a rank returns the same indices
    (unless the ranks communicate).

    Partitions may differ in length by one, or be padded with samples that come twice, as DistributedSampler does; no
    sample may be left out. Return a list, a tensor or any other iterable. Communication is allowed, but not needed. One
    rank alone sees everything.
    """
    exercise = _EpochOrder()
    exercise.is_silent_when_wrong = mentions(function, _SHUFFLES)
    return examine_in_turns(exercise, function, _Epochs)


class _Epochs(InTurns):
    """Ask for one epoch after the other, and then for all of them again."""

    def __call__(self, trial: DataTrial, data: Any) -> object:
        answers: dict[tuple[int, int], object] = {}
        for time, epochs in enumerate((_EPOCHS, _ONCE_MORE)):
            for epoch in epochs:
                other_random_numbers(dist.get_rank(), len(answers))
                answers[time, epoch] = _read(self.written(data, epoch), 10 * trial.samples)
        if all(answer is None for answer in answers.values()):
            return None
        return [answers[time, epoch] for time in range(2) for epoch in _EPOCHS]


def _read(answer: Any, most: int) -> object:
    """A tensor of integers, or the answer itself if it is something else."""
    if answer is None or isinstance(answer, set | frozenset | dict | str | bytes):
        return answer
    if isinstance(answer, Tensor):
        is_right = answer.dim() == 1 and not answer.is_floating_point() and answer.dtype != torch.bool
        return answer.long() if is_right else answer
    try:
        items = list(itertools.islice(iter(answer), most))
    except TypeError:
        if not isinstance(answer, Iterable):
            return answer
        raise
    indices = []
    for item in items:
        if isinstance(item, bool) or (isinstance(item, Tensor) and item.dim()):
            return [item]
        try:
            indices.append(operator.index(item))
        except TypeError:
            return [item]
    return torch.tensor(indices, dtype=torch.int64)


class _EpochOrder(Exercise):
    name = "epoch_order"
    parameters = ("data", "epoch")
    thing, copy = "data set", "list(range(len(data)))"
    world_sizes = (2, 3, 4, 1)
    messages_only = False
    keeps_input = True
    returns_answer = False
    measured = "bytes sent by the busiest rank"
    yardstick = "needed"
    trials = with_lateness(
        [
            DataTrial((), samples=24),
            DataTrial((), samples=60, trait="the next data"),
            DataTrial((), samples=25, trait="data not divisible by world_size"),
            DataTrial((), samples=23, trait="data in a list", is_list=True),
            DataTrial((), samples=7, trait="little data", largest_world=3),
            DataTrial(
                (), samples=9, trait="little data", smallest_world=4, largest_world=4
            ),  # chunk() would make three
        ]
    )

    def difference(self, case: Case, rank: int) -> Difference | None:
        kinds = [self._wrong_kind(case, other) for other in range(case.world_size)]
        if any(kinds):
            return kinds[rank]
        if changed := changed_data(case, rank):
            return changed
        return (
            self._wrong_shares(case)
            or self._not_shuffled(case, rank)
            or self._other_the_next_time(case, rank)
            or _repeated(case, rank)
        )

    def why_failed(self, message: str) -> str:
        if "item assignment" in message:
            return SHUFFLES_THE_DATA
        if "index out of range" in message and ".chunk(" in message:
            return (
                "There are fewer chunks than ranks, because chunk() makes all but the last one equally long. "
                f"{_EVEN_SHARES}."
            )
        return ""

    def carried(self, case: Case) -> int:
        return max(case.traffic.brought)

    def textbook(self, case: Case) -> int:
        return 0  # epoch and rank determine the order

    def _wrong_kind(self, case: Case, rank: int) -> Difference | None:
        answers = case.outcomes[rank].answer
        samples = _samples(case)
        for turn, answer in enumerate(answers if isinstance(answers, list) else [answers]):
            place = f"epoch {_EPOCHS[turn % len(_EPOCHS)]}"
            if not _is_row(answer):
                return Difference(place, _named(answer), "indices", _what_else(case, rank, answer))
            if len(answer) >= 10 * samples:
                mistake = "It returns too many indices, or never ends. Check the loop."
                return Difference(place, f"{len(answer)} and more", "indices", mistake)
            if wrong := [index for index in answer.tolist() if not 0 <= index < samples]:
                mistake = (
                    f"It returns the index {wrong[0]}, but the indices of {samples} samples are 0 to "
                    f"{samples - 1}. Check the range of the indices."
                )
                return Difference(place, str(wrong[0]), f"0 to {samples - 1}", mistake)
        return None

    def _wrong_shares(self, case: Case) -> Difference | None:
        for turn, epoch in enumerate(_EPOCHS):
            shares = shares_of(case, turn, turn + len(_EPOCHS))
            if mistake := _why_not_all(shares):
                return Difference(f"epoch {epoch}", shares.told(), f"{shares.samples}, once each", mistake)
        return None

    def _not_shuffled(self, case: Case, rank: int) -> Difference | None:
        for turn, epoch in enumerate(_EPOCHS):
            shares = shares_of(case, turn, turn)
            if shares.are_in_order:
                mistake = (
                    f"Your function does not shuffle{'' if turn == 0 else f' in epoch {epoch}'}: the samples are in "
                    "their original order. Shuffle with a generator seeded with the epoch, as DistributedSampler does."
                )
                return Difference(f"epoch {epoch}", _start(shares.by_rank[rank]), "shuffled", mistake)
        return None

    def _other_the_next_time(self, case: Case, rank: int) -> Difference | None:
        """Does the order of an epoch depend on earlier calls? It may if the ranks communicate."""
        if any(case.traffic.brought):
            return None
        for turn, epoch in enumerate(_EPOCHS):
            first, again = (shares_of(case, one, one).by_rank[rank] for one in (turn, turn + len(_EPOCHS)))
            if first != again:
                mistake = (
                    f"Epoch {epoch} has a different order when asked again, so a resumed run would differ. In each "
                    "call, seed a new generator with the epoch, as DistributedSampler does after set_epoch."
                )
                return Difference(f"epoch {epoch} again", _start(again), _start(first), mistake)
        return None


def _repeated(case: Case, rank: int) -> Difference | None:
    """What repeats in two epochs and should not."""
    if _samples(case) < MANY:
        return None
    by_epoch = [shares_of(case, turn, turn).by_rank for turn in range(len(_EPOCHS))]
    for (one, first), (other, second) in itertools.combinations(zip(_EPOCHS, by_epoch, strict=True), 2):
        if mistake := why_the_same(first, second, f"epochs {one} and {other}", _samples(case)):
            return Difference(f"epoch {other}", _start(second[rank]), f"not as in epoch {one}", mistake)
    unseen = never_seen(by_epoch, _samples(case))
    if not unseen:
        return None
    who = next(iter(unseen))
    samples, lost = _samples(case), len(unseen[who])
    mistake = (
        f"In {len(_EPOCHS)} epochs rank {who} never sees {lost} of the {samples} samples. Shuffle all indices "
        "first, and then take this rank's partition."
    )
    return Difference("samples seen", str(samples - lost), f"about {samples}", mistake)


def _why_not_all(shares: Shares) -> str:
    """A sentence if the ranks do not see every sample, or repeat more samples than needed for padding."""
    samples, world_size = shares.samples, shares.world_size
    lengths = [len(share) for share in shares.by_rank]
    longest, shortest = lengths.index(max(lengths)), lengths.index(min(lengths))
    if shares.are_whole:
        return "Every rank returns all samples. Give each rank its own partition, as DistributedSampler does."
    if shares.are_all_equal and lengths[0]:
        return "All ranks have the same samples. Choose the partition by the rank, as DistributedSampler does."
    if shares.missing:
        return _why_missing(shares)
    if lengths[longest] - lengths[shortest] > 1 and shares.total == samples:
        return (
            f"Partitions may differ by one sample only, but of {samples} samples rank {longest} has "
            f"{lengths[longest]} and rank {shortest} has {lengths[shortest]}. {_EVEN_SHARES}."
        )
    if shares.total == samples:
        return ""
    twice = shares.first_twice()
    ((most, times),) = shares.times.most_common(1)
    if times > 2:
        return f"Sample {most} occurs {times} times. Padding may repeat a sample only once."
    if len(set(lengths)) > 1:
        return f"Partitions overlap, {twice}. Repeat a sample only to make the partitions equally long."
    if shares.total - samples >= world_size:
        return (
            f"It repeats more samples than equally long partitions need: {shares.total} indices for {samples} samples. "
            "Repeat fewer samples than there are ranks."
        )
    return ""


def _why_missing(shares: Shares) -> str:
    lengths = {len(share) for share in shares.by_rank}
    if shares.times and max(shares.times.values()) > 1:
        return why_overlapping(shares)
    remainder = shares.samples % shares.world_size
    if len(shares.missing) == remainder and len(lengths) == 1:
        return f"The remainder is dropped: {shares.lost()}. Pad the partitions, or let some be longer by one."
    return (
        f"Some samples are missing: {shares.lost()}. Shuffle all indices, then take every world_size-th index, "
        "starting at index number rank."
    )


def _what_else(case: Case, rank: int, answer: Any) -> str:
    if answer is None and any(outcome.answer is not None for outcome in case.outcomes):
        return f"Rank {rank} returns None. Every rank must return the indices of its own partition."
    if answer is None:
        return "It returns None. Return the indices of this rank's samples."
    if isinstance(answer, list):
        return f"It returns {_named(answer)} in place of an index. Return indices, not samples or batches."
    if isinstance(answer, Tensor) and answer.dim() == 1:
        return f"It returns {dtype_name(answer)}, but indices are integers. Return integers."
    if _kind(answer) in ("set", "frozenset"):
        return "It returns a set, which has no order. Return a list."
    return f"It returns {_named(answer)}, not indices. Return the indices of this rank's samples."


def _is_row(answer: Any) -> bool:
    return isinstance(answer, Tensor) and answer.dim() == 1 and dtype_name(answer) == "int64"


def _named(answer: Any) -> str:
    return named(answer[0] if isinstance(answer, list) and answer else answer)


def _kind(answer: Any) -> str:
    return getattr(answer, "kind", "")


def _start(share: list[int]) -> str:
    return f"{', '.join(map(str, share[:5]))}, ..."


def _samples(case: Case) -> int:
    assert isinstance(case.trial, DataTrial)
    return case.trial.samples
