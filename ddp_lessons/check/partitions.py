"""The exercise of dividing data among ranks: every sample goes to exactly one, and all ranks cut alike."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from torch import Tensor

from ddp_lessons.check.cuts import Cuts, CutTrial
from ddp_lessons.check.exercise import Case, Difference, Exercise, named
from ddp_lessons.check.partitioners import Seeding, is_stub, seeding_of, untouched, why_not_a_partitioner
from ddp_lessons.check.ranks import Thing
from ddp_lessons.check.report import Report, not_right, not_started
from ddp_lessons.check.shares import (
    MANY,
    SHUFFLES_THE_DATA,
    Shares,
    changed_data,
    examine_in_turns,
    shares_of,
    why_overlapping,
)
from ddp_lessons.check.trials import with_lateness


def data_partitioner(partitioner: Callable[..., Any]) -> Report:
    """Check a class: `partitioner(data, sizes, seed=1234)` on every rank, and its `use(rank)`.

    The sizes are parts of 1, one for each rank. `use(rank)` returns something with a length and `[index]`, the rank's
    samples. Together the partitions hold every sample exactly once, also where the sizes do not divide the data; they
    are shuffled, alike on all ranks and whenever the seed is the same. Sizes below 0, sizes that do not add up to 1,
    and more sizes than samples are a ValueError. A class without a seed may shuffle the same way always. Nothing has
    to travel for that, but it may.
    """
    refusal = why_not_a_partitioner(partitioner)
    if refusal:
        return not_right(_DataPartitioner.name, refusal)
    if is_stub(partitioner):
        return not_started(_DataPartitioner.name)
    if missing := untouched(partitioner):
        return not_right(_DataPartitioner.name, f"{missing[0]} is still to be written.")
    exercise = _DataPartitioner()
    exercise.seeding = seeding_of(partitioner)
    exercise.parameters = ("data", "sizes", *(["seed"] if exercise.seeding.is_needed else []))
    return examine_in_turns(exercise, partitioner, lambda written: Cuts(written, exercise.seeding))


_WRONG_SIZES = "sizes that are wrong"
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
    measured = "bytes given by the busiest rank"
    yardstick = "enough"
    trials = with_lateness(
        [
            CutTrial((), samples=24),
            CutTrial((), samples=60, seeds=(7, 7), trait="the next data"),
            CutTrial((), samples=25, trait="data that the number of ranks does not divide"),
            CutTrial((), samples=60, seeds=(1, 1), parts="unequal", trait="parts of different size"),
            CutTrial((), samples=61, seeds=(5, 5, 6), parts="unequal", trait="unequal parts, and a remainder"),
            CutTrial((), samples=47, seeds=(0, 0, 1), trait="data in a list", is_list=True),
            CutTrial((), samples=5, trait="little data"),
            CutTrial((), samples=24, parts="one of them 0", trait="a part of size 0", smallest_world=2),
            *(
                CutTrial((), samples=ranks, trait="one sample for each part", smallest_world=ranks, largest_world=ranks)
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
        self._first: dict[int, Shares] = {}  # that were seen, by world size

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
        if shares.by_rank == first.by_rank and shares.samples > 2 * first.samples:  # not a remainder that is lost
            mistake = (
                "A second DataPartitioner still hands out the samples of the first: make what belongs to one of them "
                "in __init__, as in self.parts = [], and not in the class."
            )
            return Difference("samples", shares.told(), f"{shares.samples}, once each", mistake)
        if mistake := _why_not_once(shares, trial, self.seeding):
            return Difference("samples", shares.told(), f"{shares.samples}, once each", mistake)
        if not _are_equal([shares.by_rank[rank]], [shares_of(case, -1, -1).by_rank[rank]]):
            mistake = (
                f"use({rank}) gives other samples when it is called again: shuffle and cut once, in __init__, and let "
                "use() only pick a partition."
            )
            return Difference(f"use({rank}), called again", "other samples", "the same samples", mistake)
        length, size = len(shares.by_rank[rank]), trial.sizes(case.world_size)[rank]
        if abs(length - size * trial.samples) > case.world_size:
            mistake = f"Partition {rank} has {length} of {trial.samples} samples, and its size is {size:g}."
            return Difference(f"len(use({rank}))", str(length), f"about {size * trial.samples:.4g}", mistake)
        if case.world_size == 1:  # then all cuts hold the same
            return None
        return self._not_shuffled(shares, rank) or self._not_seeded(case, shares, rank)

    def _not_shuffled(self, shares: Shares, rank: int) -> Difference | None:
        in_rows = Shares([sorted(share) for share in shares.by_rank], (), shares.samples)
        if shares.are_in_order:
            mistake = "It does not shuffle: the samples are in the order of the data."
        elif in_rows.are_in_order:
            mistake = (
                "It cuts first and shuffles afterwards, so each rank gets one stretch of the data, whatever the seed: "
                "shuffle the indices before they are cut."
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
                "With the same seed it cuts in another way the next time: the shuffle has to depend on the seed alone, "
                "with a generator that is made for it."
            )
            return Difference(f"{place}, made again", "other samples", "the same samples", mistake)
        if len(_trial(case).seeds) > 2 and _are_equal(shares.by_rank, shares_of(case, 2, 2).by_rank):
            mistake = "The seed changes nothing: give it to the generator that shuffles."
            return Difference(f"{place}, another seed", "the same samples", "other samples", mistake)
        return None

    def why_failed(self, message: str) -> str:
        if "item assignment" in message:
            return SHUFFLES_THE_DATA
        if "has no attribute 'use'" in message:
            return "What it makes has no method use(rank), which gives a rank its partition."
        return ""

    def carried(self, case: Case) -> int:
        return max(case.traffic.brought)

    def textbook(self, case: Case) -> int:
        return 0  # who knows the seed knows the cut


def _not_refused(case: Case, rank: int) -> Difference | None:
    answer, trial = case.outcomes[rank].answer, _trial(case)
    what = _REFUSED[trial.parts]
    kind = answer.kind if isinstance(answer, Thing) else ""
    if kind == "ValueError":
        return None
    shown = f"[{', '.join(f'{size:.3g}' for size in trial.sizes(case.world_size))}]"
    data = f" for {trial.samples} sample" if trial.parts == "too many" else ""
    if kind:
        mistake = f"It raises {kind} for {what}, {shown}{data}: a ValueError says that the value is wrong."
    else:
        mistake = f"It takes {what}, {shown}{data}: raise ValueError, and say what is wrong with them."
    return Difference("raises", kind or "nothing", "ValueError", mistake)


def _wrong_kind(case: Case, rank: int) -> Difference | None:
    answers = case.outcomes[rank].answer
    if not isinstance(answers, list):
        mistake = f"It refuses {_trial(case).why_tempting(case.world_size)}"
        return Difference("raises", getattr(answers, "kind", "an error"), "nothing", mistake)
    for answer in answers:
        place = f"use({rank})"
        if not isinstance(answer, Tensor) or not answer.dim():
            if answer is None:
                mistake = f"{place} returns None: return the partition of that rank."
            else:
                mistake = f"{place} returns {named(answer)}: a partition needs a length, len(), and samples by [index]."
            return Difference(place, named(answer), "a partition", mistake)
        if (answer < 0).any():
            number = answer.tolist().index(-1)
            mistake = f"{place}[{number}] is no sample of the data: return data[index], not the index."
            return Difference(f"{place}[{number}]", "no sample", "a sample", mistake)
    return None


def _why_not_once(shares: Shares, trial: CutTrial, seeding: Seeding) -> str:
    """A sentence if a sample is in no partition, or in two."""
    lengths = [len(share) for share in shares.by_rank]
    most = max(shares.times.values(), default=0)
    if shares.are_whole:
        return "use() gives every rank all of the data: cut it, so that each has a part of its own."
    if all(share == list(range(len(share))) for share in shares.by_rank) and most > 1:
        return (
            "Every partition holds the first samples of the data in their order: partition[i] has to be "
            "data[indices[i]], not data[i]."
        )
    if shares.are_all_equal and lengths[0]:
        return "use() gives every rank the same samples: its argument says which partition is wanted."
    if shares.missing and most > 1:
        if not shares.come_again and trial.seeds[0] is None and seeding.is_none_at_first:
            return (
                "Without a seed each rank shuffles in its own way, so some samples are on several ranks, and others on "
                "none: let the seed be a number from the start, such as seed=1234."
            )
        return why_overlapping(shares)
    if shares.missing:
        sizes = trial.sizes(len(lengths))
        if lengths == [int(size * trial.samples) for size in sizes]:
            return (
                f"The remainder is lost, {shares.lost()}: each length is rounded for itself. Round where each ends, "
                "and let the last one end with the data."
            )
        return (
            f"Not every sample is in a partition, {shares.lost()}: look where one ends and the next one begins, and "
            "let the last one end with the data."
        )
    if most > 1:
        return f"Partitions overlap, {shares.first_twice()}: look where one ends and the next one begins."
    return ""


def _are_equal(some: Sequence[list[int]], others: Sequence[list[int]]) -> bool:
    return [sorted(share) for share in some] == [sorted(share) for share in others]


def _start(share: Sequence[int]) -> str:
    return f"{', '.join(map(str, share[:5]))}, ..."


def _trial(case: Case) -> CutTrial:
    assert isinstance(case.trial, CutTrial)
    return case.trial
