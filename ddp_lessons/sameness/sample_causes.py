"""Causes of a difference in the samples that entered the model."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from ddp_lessons.run.diagnosis.wording import number_of_ranks, ranks_named
from ddp_lessons.sameness.evidence import Finding, number_of
from ddp_lessons.sameness.first_difference import Comparison
from ddp_lessons.sameness.run_records import Run


@dataclass(frozen=True)
class Entered:
    """The samples of the first step at which they are not the same."""

    one: Run
    many: Run
    step: int
    whole: Counter[int]  # on one rank
    parts: list[Counter[int]]  # on each of several

    @property
    def all_parts(self) -> Counter[int]:
        return sum(self.parts, Counter())

    @property
    def doubled(self) -> Counter[int]:
        return self.all_parts - self.whole

    @property
    def lost(self) -> Counter[int]:
        return self.whole - self.all_parts


SAMPLE_KEYS = (
    "skipped_step",
    "extra_step",
    "not_sharded",
    "global_batch",
    "other_inputs",
    "padded_samples",
    "lost_samples",
    "overlapping_shards",
    "sample_order",
)
_SHARD_IT = (
    "give each rank its own shard, with DistributedSampler(dataset, num_replicas=world_size, rank=rank) "
    "or dataset[rank::world_size]."
)


def sample_cause(comparison: Comparison) -> Finding | None:
    """Why other samples entered, or None where they did not, or the samples do not tell."""
    step = comparison.other_samples_at
    if step is None:
        return None
    one, many = comparison.one, comparison.many
    entered = Entered(one, many, step, one.samples(step)[0], many.samples(step))
    causes = (
        _stepped_without_samples,
        _skipped_step,
        _same_on_all_ranks,
        _whole_dataset_on_each_rank,
        _another_global_batch,
        _unknown_inputs,
        _padded,
        _lost,
        _overlapping,
        _another_order,
    )
    return next((found for cause in causes if (found := cause(entered)) is not None), None)


def _stepped_without_samples(entered: Entered) -> Finding | None:
    if entered.all_parts or not entered.whole:
        return None
    if any(len(rank.steps) <= entered.step for rank in entered.many.ranks):
        return None
    return Finding(
        "extra_step",
        f"On {number_of_ranks(entered.many.world_size)} the optimizer steps again before a new batch has entered the "
        "model.",
        "call optimizer.step() once per batch on every rank, not once per rank or per parameter.",
    )


def _skipped_step(entered: Entered) -> Finding | None:
    """Some ranks have run more forward passes than the others since the step before, and make fewer steps in all."""
    ranks = entered.many.ranks
    if len(set(entered.many.steps)) == 1 or any(len(rank.steps) <= entered.step for rank in ranks):
        return None
    passes = [len(rank.steps[entered.step].samples) for rank in ranks]
    late = [rank for rank, number in enumerate(passes) if number > min(passes)]
    if not late or any(entered.many.steps[rank] == max(entered.many.steps) for rank in late):
        return None
    return Finding(
        "skipped_step",
        f"{ranks_named(late).capitalize()} skipped an optimizer step: before step {entered.step} there were "
        f"{max(passes)} forward passes on {ranks_named(late)}, {min(passes)} elsewhere.",
        "step on all ranks or on none: to skip a bad batch, let the ranks agree with all_reduce first.",
    )


def _same_on_all_ranks(entered: Entered) -> Finding | None:
    first = entered.parts[0]
    if len(entered.parts) == 1 or not first or any(part != first for part in entered.parts):
        return None
    return Finding(
        "not_sharded",
        f"Every rank gets the same {number_of(first)}: the data is not sharded.",
        _SHARD_IT,
    )


def _whole_dataset_on_each_rank(entered: Entered) -> Finding | None:
    every = [
        sum((entered.many.samples(step)[rank] for step in range(entered.many.steps[rank])), Counter())
        for rank in range(entered.many.world_size)
    ]
    if len(every) == 1 or any(one != entered.one.all_samples for one in every):
        return None
    return Finding(
        "not_sharded",
        f"Every rank goes through all {number_of(every[0])} in an order of its own: the data is not sharded.",
        _SHARD_IT,
    )


def _another_global_batch(entered: Entered) -> Finding | None:
    whole, parts, ranks = entered.whole.total(), entered.all_parts.total(), entered.many.world_size
    if parts == whole:
        return None
    is_larger = not entered.lost and len(entered.doubled) >= ranks and not entered.doubled & entered.whole
    drops_remainder = entered.step > 0 and parts == whole - whole % ranks  # of a last batch, say
    is_smaller = not (entered.doubled or drops_remainder or entered.lost - entered.many.all_samples) and parts
    if not entered.whole & entered.all_parts or not (parts == ranks * whole or is_larger or is_smaller):
        return None
    return Finding(
        "global_batch",
        f"The global batch depends on the number of ranks: {number_of(parts)} per step on {number_of_ranks(ranks)}, "
        f"{whole:,} on one.",
        f"use a batch size of {_share(whole, ranks)} per rank (global batch // world_size)"
        f"{', or tune the learning rate for the larger batch' * (parts > whole)}.",
    )


def _share(whole: int, ranks: int) -> str:
    return f"{whole // ranks:,}" if whole % ranks == 0 else f"{whole:,} // {ranks}"


def _unknown_inputs(entered: Entered) -> Finding | None:
    """Most of the samples that only the ranks have for this step occur nowhere in the run on one rank."""
    known = entered.one.all_samples
    unknown = Counter({sample: number for sample, number in entered.doubled.items() if sample not in known})
    if unknown.total() * 2 <= entered.doubled.total():
        return None
    return Finding(
        "other_inputs",
        f"{unknown.total()} of {number_of(entered.all_parts)} of this step occur nowhere in the run on one rank. "
        "Random augmentation causes this, and so does preprocessing that depends on the batch or the rank.",
        "preprocess each sample on its own, and draw augmentation from a generator that is seeded by the sample's "
        'index. If only drawn numbers differ, pass random=["augmentation"] to compare what does not depend on them.',
    )


def _padded(entered: Entered) -> Finding | None:
    known = entered.one.all_samples
    if not entered.doubled or entered.lost or entered.doubled - known:
        return None
    return Finding(
        "padded_samples",
        f"{number_of(entered.doubled).capitalize()} entered once more than on one rank. "
        "DistributedSampler does this: it repeats samples so that all shards have the same size.",
        "give each rank its part of the global batch, such as batch[rank::world_size], and weight uneven parts by "
        "their number of samples; or make the dataset divisible by the number of ranks, or use drop_last=True, on one "
        "rank, too.",
    )


def _lost(entered: Entered) -> Finding | None:
    if not entered.lost or entered.doubled:
        return None
    return Finding(
        "lost_samples",
        f"{number_of(entered.lost).capitalize()} of the global batch reached no rank.",
        "check how the batch is split: drop_last, `len(batch) // world_size` and an uneven remainder lose samples.",
    )


def _overlapping(entered: Entered) -> Finding | None:
    """Over the run some samples enter more often than on one rank, and others less often."""
    all_one, all_many = entered.one.all_samples, entered.many.all_samples
    if all_one == all_many or not entered.lost or not entered.doubled:
        return None
    more, fewer = all_many - all_one, all_one - all_many
    if not (more and fewer):
        return None
    return Finding(
        "overlapping_shards",
        f"The shards of the ranks overlap: over the run {number_of(more)} entered more often than on one rank, "
        f"and {number_of(fewer)} less often.",
        "shuffle with the same seed on every rank, then take indices[rank::world_size].",
    )


def _another_order(entered: Entered) -> Finding | None:
    if entered.whole.total() != entered.all_parts.total() or not (entered.lost and entered.doubled):
        return None
    if entered.one.all_samples - entered.many.all_samples:
        return None
    return Finding(
        "sample_order",
        "The run uses the same samples, but in other steps: their order or their split differs.",
        "split each global batch over the ranks (batch[rank::world_size]), and use the same seed and "
        "sampler.set_epoch(epoch) for every number of ranks.",
    )
