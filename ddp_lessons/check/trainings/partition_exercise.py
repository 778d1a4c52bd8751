"""The exercise of partitioning data: every sample goes to exactly one rank, and all ranks split alike."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from torch import Tensor

from ddp_lessons.check.judging.exercise import Case, Difference, Exercise, named
from ddp_lessons.check.judging.exercise_trials import with_lateness
from ddp_lessons.check.judging.report import Report, not_right, not_started
from ddp_lessons.check.judging.trial_ranks import Thing
from ddp_lessons.check.trials.divided_data import Cuts, CutTrial
from ddp_lessons.check.trials.partitioners import Seeding, is_stub, seeding_of, untouched, why_not_a_partitioner
from ddp_lessons.check.trials.sample_shares import (
    MANY,
    SHUFFLES_THE_DATA,
    Shares,
    changed_data,
    examine_in_turns,
    shares_of,
    why_overlapping,
)


def data_partitioner(partitioner: Callable[..., Any]) -> Report:
    """Check a class: `partitioner(data, sizes, seed=1234)` on every rank, and its `use(rank)`.

    The sizes are fractions of 1, one for each rank. `use(rank)` returns something with len() and [index]: the samples
    of that rank. Together the partitions hold every sample exactly once, also where the sizes do not divide the data.
    They are shuffled, in the same way on all ranks and whenever the seed is the same.

    Raise ValueError for sizes below 0, sizes that do not add up to 1, and more sizes than samples. A class without a
    seed may always shuffle in the same way. Communication is allowed, but not needed.
    """
    refusal = why_not_a_partitioner(partitioner)
    if refusal:
        return not_right(_DataPartitioner.name, refusal)
    if is_stub(partitioner):
        return not_started(_DataPartitioner.name)
    if missing := untouched(partitioner):
        return not_right(_DataPartitioner.name, f"{missing[0]} is not written yet.")
    exercise = _DataPartitioner()
    exercise.seeding = seeding_of(partitioner)
    exercise.parameters = ("data", "sizes", *(["seed"] if exercise.seeding.is_needed else []))
    return examine_in_turns(exercise, partitioner, lambda written: Cuts(written, exercise.seeding))


_WRONG_SIZES = "invalid sizes"
_REFUSED = {
    "too small": "sizes that add up to less than 1",
    "too large": "sizes that add up to more than 1",
    "a little too small": "sizes that add up to less than 1",
    "a little too large": "sizes that add up to more than 1",
    "negative": "a size below 0",
    "too many": "more sizes than samples",
}


class _DataPartitioner(Exercise):
    name = "data_partitioner"
    parameters: tuple[str, ...] = ("data", "sizes")
    seeding = Seeding()
    thing, copy = "data set", "list(range(len(data)))"
    world_sizes = (2, 3, 4, 1)
    messages_only = False
    keeps_input = True
    returns_answer = False
    is_silent_when_wrong = True
    measured = "bytes sent by the busiest rank"
    yardstick = "needed"
    trials = with_lateness(
        [
            CutTrial((), samples=24),
            CutTrial((), samples=60, seeds=(7, 7), trait="the next data"),
            CutTrial((), samples=25, trait="data not divisible by world_size"),
            CutTrial((), samples=60, seeds=(1, 1), parts="unequal", trait="partitions of different sizes"),
            CutTrial((), samples=61, seeds=(5, 5, 6), parts="unequal", trait="unequal partitions and a remainder"),
            CutTrial((), samples=47, seeds=(0, 0, 1), trait="data in a list", is_list=True),
            CutTrial((), samples=5, trait="little data"),
            CutTrial((), samples=24, parts="one of them 0", trait="a partition of size 0", smallest_world=2),
            *(
                CutTrial((), samples=ranks, trait="one sample per partition", smallest_world=ranks, largest_world=ranks)
                for ranks in (2, 3, 4)
            ),
            *(
                CutTrial(
                    shape=(),
                    samples=1 if parts == "too many" else 24,
                    seeds=(1,),
                    parts=parts,
                    trait=_WRONG_SIZES,
                    smallest_world=2,
                    largest_world=3,
                )
                for parts in _REFUSED
            ),
        ]
    )

    def __init__(self) -> None:
        self._first: dict[int, Shares] = {}  # the first ones seen, by world size

    def difference(self, case: Case, rank: int) -> Difference | None:
        trial = _trial(case)
        if not trial.is_valid:
            return _not_refused(case, rank)
        kinds = [_wrong_kind(case, other) for other in range(case.world_size)]
        if any(kinds):
            return kinds[rank]
        if changed := changed_data(case, rank):
            return changed
        shares = shares_of(case, 0, 1)
        first = self._first.setdefault(case.world_size, shares)
        if shares.by_rank == first.by_rank and shares.samples > 2 * first.samples:  # more than a lost remainder
            mistake = (
                "A second DataPartitioner still returns the samples of the first. Create attributes such as "
                "self.parts = [] in __init__, not in the class body."
            )
            return Difference("samples", shares.told(), f"{shares.samples}, once each", mistake)
        if mistake := _why_not_once(shares, trial, self.seeding):
            return Difference("samples", shares.told(), f"{shares.samples}, once each", mistake)
        if not _are_equal([shares.by_rank[rank]], [shares_of(case, -1, -1).by_rank[rank]]):
            mistake = (
                f"use({rank}) returns different samples when called again. Shuffle and split once, in __init__, and "
                "let use() only return a partition."
            )
            return Difference(f"use({rank}), called again", "other samples", "the same samples", mistake)
        length, size = len(shares.by_rank[rank]), trial.sizes(case.world_size)[rank]
        if abs(length - size * trial.samples) > case.world_size:
            mistake = (
                f"Partition {rank} has {length} of {trial.samples} samples, but its size is {size:g}. Check where it "
                "starts and ends."
            )
            return Difference(f"len(use({rank}))", str(length), f"about {size * trial.samples:.4g}", mistake)
        if case.world_size == 1:  # then all partitions hold the same samples
            return None
        return self._not_shuffled(shares, rank) or self._not_seeded(case, shares, rank)

    def _not_shuffled(self, shares: Shares, rank: int) -> Difference | None:
        in_rows = Shares([sorted(share) for share in shares.by_rank], (), shares.samples)
        if shares.are_in_order:
            mistake = (
                "Your partitioner does not shuffle: the samples are in their original order. Shuffle the "
                "indices before splitting them."
            )
        elif in_rows.are_in_order:
            mistake = (
                "It splits first and shuffles afterwards, so each rank gets one contiguous part of the data. "
                "Shuffle the indices before splitting them."
            )
        else:
            return None
        return Difference(f"use({rank})", _start(shares.by_rank[rank]), "shuffled", mistake)

    def _not_seeded(self, case: Case, shares: Shares, rank: int) -> Difference | None:
        if not self.seeding.way or shares.samples < MANY:
            return None
        place = f"use({rank})"
        if not _are_equal(shares.by_rank, shares.again):
            mistake = (
                "The same seed gives different partitions each time. Shuffle with a new generator that is seeded only "
                "with `seed`, such as random.Random(seed)."
            )
            return Difference(f"{place}, made again", "other samples", "the same samples", mistake)
        if len(_trial(case).seeds) > 2 and _are_equal(shares.by_rank, shares_of(case, 2, 2).by_rank):
            mistake = "The seed has no effect. Pass it to the generator that shuffles."
            return Difference(f"{place}, another seed", "the same samples", "other samples", mistake)
        return None

    def why_failed(self, message: str) -> str:
        if "item assignment" in message:
            return SHUFFLES_THE_DATA
        if "has no attribute 'use'" in message:
            return "The object has no method use(rank). Add one that returns the partition of the given rank."
        return ""

    def carried(self, case: Case) -> int:
        return max(case.traffic.brought)

    def textbook(self, case: Case) -> int:
        return 0  # the seed determines the partitions


def _not_refused(case: Case, rank: int) -> Difference | None:
    answer, trial = case.outcomes[rank].answer, _trial(case)
    what = _REFUSED[trial.parts]
    kind = answer.kind if isinstance(answer, Thing) else ""
    if kind == "ValueError":
        return None
    shown = f"[{', '.join(f'{size:.3g}' for size in trial.sizes(case.world_size))}]"
    data = f" for {trial.samples} sample" if trial.parts == "too many" else ""
    if kind:
        mistake = f"It raises {kind} for {what}, {shown}{data}. Raise ValueError instead."
    else:
        mistake = f"It accepts {what}, {shown}{data}. Raise ValueError for these sizes."
    return Difference("raises", kind or "nothing", "ValueError", mistake)


def _wrong_kind(case: Case, rank: int) -> Difference | None:
    answers = case.outcomes[rank].answer
    if not isinstance(answers, list):
        mistake = f"It rejects {_trial(case).why_tempting(case.world_size)}"
        return Difference("raises", getattr(answers, "kind", "an error"), "nothing", mistake)
    for answer in answers:
        place = f"use({rank})"
        if not isinstance(answer, Tensor) or not answer.dim():
            if answer is None:
                mistake = f"{place} returns None. Return that rank's partition."
            else:
                mistake = f"{place} returns {named(answer)}. Return something with len() and [index]."
            return Difference(place, named(answer), "a partition", mistake)
        if (answer < 0).any():
            number = answer.tolist().index(-1)
            mistake = f"{place}[{number}] is not a sample of the data. Return data[index], not the index."
            return Difference(f"{place}[{number}]", "no sample", "a sample", mistake)
    return None


def _why_not_once(shares: Shares, trial: CutTrial, seeding: Seeding) -> str:
    """A sentence if a sample is in no partition, or in two."""
    lengths = [len(share) for share in shares.by_rank]
    most = max(shares.times.values(), default=0)
    if shares.are_whole:
        return "use() gives every rank all of the data. Split the data, so that each rank has its own partition."
    if all(share == list(range(len(share))) for share in shares.by_rank) and most > 1:
        return (
            "Every partition holds the first samples of the data in order. Let partition[i] return "
            "data[indices[i]], not data[i]."
        )
    if shares.are_all_equal and lengths[0]:
        return "use() gives every rank the same samples. Choose the partition by its argument."
    if shares.missing and most > 1:
        if not shares.come_again and trial.seeds[0] is None and seeding.is_none_at_first:
            return (
                "Without a seed each rank shuffles differently, so some samples are on several ranks and others on "
                "none. Use a fixed default, such as seed=1234."
            )
        return why_overlapping(shares)
    if shares.missing:
        sizes = trial.sizes(len(lengths))
        if lengths == [int(size * trial.samples) for size in sizes]:
            return (
                f"The remainder is lost: {shares.lost()}. Round the end of each partition instead of its length, "
                "and let the last one end with the data."
            )
        return (
            f"Some samples are in no partition: {shares.lost()}. Start each partition where the previous one ends, "
            "and let the last one end with the data."
        )
    if most > 1:
        return f"Partitions overlap: {shares.first_twice()}. Start each partition where the previous one ends."
    return ""


def _are_equal(some: Sequence[list[int]], others: Sequence[list[int]]) -> bool:
    return [sorted(share) for share in some] == [sorted(share) for share in others]


def _start(share: Sequence[int]) -> str:
    return f"{', '.join(map(str, share[:5]))}, ..."


def _trial(case: Case) -> CutTrial:
    assert isinstance(case.trial, CutTrial)
    return case.trial
