"""Causes of a gradient that is not the one of a single rank, though the same samples entered the model.

Most of them show in weights: with which weights do the ranks' own gradients, as their backward passes gave them, enter
the gradient that the optimizer stepped with (`used`), and with which would they give the gradient of one rank
(`wanted`)? Both are least-squares fits that leave no more than rounding.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np

from ddp_lessons.run.diagnosis.wording import joined, ranks_named
from ddp_lessons.sameness.cause_table import Finding, finding, names_of
from ddp_lessons.sameness.first_difference import GRADIENTS, Comparison, apart
from ddp_lessons.sameness.rounding_limits import largest
from ddp_lessons.sameness.run_records import Array, ByName

CLOSE = 1e-3  # how far a factor that was fitted may be from a simple one, relatively
WORST_CONDITION = 1e4  # ranks whose own gradients are nearly multiples of each other explain nothing


def gradient_cause(comparison: Comparison, step: int) -> Finding | None:
    gradients = StepGradients(comparison, step)
    causes = _OF_EQUAL_RANKS if gradients.ranks_agree() else _OF_UNEQUAL_RANKS
    return next((found for cause in causes if (found := cause(gradients)) is not None), None)


def fitted(target: ByName, columns: Sequence[ByName], limit: float) -> Array | None:
    """The weights with which the columns add up to `target` up to the limit, if they do so in one way only."""
    names = sorted(target.keys() & set.intersection(*map(set, columns)))
    if not names or len(columns) > sum(target[name].size for name in names):
        return None
    matrix = np.stack([_flat(column, names) for column in columns], axis=1)
    wanted, norms = _flat(target, names), np.linalg.norm(matrix, axis=0)
    if not (np.isfinite(matrix).all() and np.isfinite(wanted).all() and norms.all()):
        return None
    if np.linalg.cond(matrix / norms) > WORST_CONDITION:
        return None
    weights = np.linalg.lstsq(matrix, wanted, rcond=None)[0]
    rest = np.abs(matrix @ weights - wanted).max()
    return weights if rest <= limit * max(1.0, np.abs(weights).max()) else None


def _flat(by_name: ByName, names: Sequence[str]) -> Array:
    return np.concatenate([by_name[name] for name in names])


class StepGradients:
    """The gradients of the step at which two runs diverge: of one rank, and of each of several."""

    def __init__(self, comparison: Comparison, step: int) -> None:
        self.many, self.step = comparison.many, step
        self.record, self.records = comparison.one.at(step)[0], comparison.many.at(step)
        self.world_size, self.limit = comparison.many.world_size, comparison.gradient_limit
        base, ranks = comparison.one.values(GRADIENTS, step)[0], comparison.many.values(GRADIENTS, step)
        zeros = {name: np.zeros_like(values) for by_name in (base, *ranks) for name, values in by_name.items()}
        self.base, self.ranks = zeros | base, [zeros | by_name for by_name in ranks]
        self.own = comparison.many.values("local", step)  # without parameters of which that is not known
        self.own_of_one = comparison.one.values("local", step)[0]
        self.counts = [samples.total() for samples in comparison.many.samples(step)]
        relative = comparison.limits.relative(self.record, comparison.one.samples(step)[0].total())
        self.tolerance = max(CLOSE, 10 * relative)  # of fitted weights and factors
        self.limit_of_own = max(self.limit, relative * largest(*self.own))

    @cached_property
    def used(self) -> Array | None:
        """The weights of the ranks' own gradients in the gradient of rank 0."""
        return fitted(self.ranks[0], self.own, self.limit_of_own)

    @cached_property
    def wanted(self) -> Array | None:
        """Those in the gradient of one rank."""
        return fitted(self.base, self.own, self.limit_of_own)

    @cached_property
    def clipped(self) -> float:
        """By which factor one rank has made its gradient smaller after its backward passes."""
        factor = (
            fitted(self.base, [self.own_of_one], self.limit) if self.own_of_one.keys() >= self.base.keys() else None
        )
        return float(factor[0]) if factor is not None and 0 < factor[0] < 1 - self.tolerance else 1.0

    @cached_property
    def differing(self) -> set[str]:
        """The parameters with another gradient than on one rank, on any rank."""
        return {name for name in self.base if not all(self.equal(self.base, own, {name}) for own in self.ranks)}

    def factor(self, names: set[str] | None = None) -> float | None:
        """By which the gradient of rank 0 is that of one rank, on all of these parameters."""
        base, theirs = (
            {name: values for name, values in by_name.items() if names is None or name in names}
            for by_name in (self.base, self.ranks[0])
        )
        found = fitted(theirs, [base], self.limit)
        return None if found is None or largest(theirs) < self.limit else float(found[0])

    def equal(self, mine: ByName, theirs: ByName, names: set[str] | None = None) -> bool:
        wanted = mine.keys() if names is None else names
        return all(bool((apart(mine[name], theirs[name]) <= self.limit).all()) for name in wanted)

    def ranks_agree(self, names: set[str] | None = None) -> bool:
        """All ranks stepped with the same gradient."""
        return all(self.equal(self.ranks[0], own, names) for own in self.ranks[1:])

    def own_agree(self) -> bool:
        """All ranks' backward passes gave the same, and something."""
        first, *others = self.own
        return bool(first) and all(one.keys() == first.keys() and self.equal(first, one) for one in others)

    def near(self, number: float, wanted: float) -> bool:
        return abs(number - wanted) <= self.tolerance * abs(wanted)

    def is_even(self, weights: Array) -> bool:
        return bool((np.abs(weights - weights.mean()) <= self.tolerance * abs(weights.mean())).all())


# of a gradient that is the same on all ranks


def _not_zeroed(at: StepGradients) -> Finding | None:
    """The gradient of the step before is still in it."""
    if at.step == 0 or at.many.at(at.step - 1)[0].optimizer != at.records[0].optimizer:
        return None
    before = at.many.values(GRADIENTS, at.step - 1)[0]
    new = {name: values - before.get(name, 0.0) for name, values in at.ranks[0].items()}
    if not at.equal(at.base, new):
        return None
    return finding("not_zeroed", step=at.step, before=at.step - 1)


def _by_a_factor(at: StepGradients) -> Finding | None:
    factor, ranks = at.factor(), at.world_size
    if factor is None:
        return None
    passes_of_one, passes = (len(record.samples) for record in (at.record, at.records[0]))
    told = f"{factor:.4g}"
    if passes_of_one and passes not in (0, passes_of_one) and at.near(factor, passes / passes_of_one):
        return finding("micro_batches", factor=told, passes=passes, passes_of_one=passes_of_one)
    if at.near(factor, ranks):
        return finding("sum_not_mean", ranks=ranks)
    # one rank clips to the threshold, so a smaller gradient of several ranks is as it was before clipping
    clipped = at.clipped if 0 < factor < 1 and not at.near(factor, 1 / ranks) else 1.0
    if at.near(factor * clipped, 1 / ranks):
        when = f"Before clipping, which scaled one rank's gradient by {clipped:.4g}, the" if clipped < 1 else "The"
        add_up = (
            "the ranks' own gradients already add up to that of one rank (their loss is a sum, or is divided by "
            "world_size or by the global batch), and then they are also averaged"
        )
        is_sum = at.wanted is not None and bool((np.abs(at.wanted / clipped - 1) <= at.tolerance).all())
        why = add_up if is_sum else "it is divided by world_size twice"
        return finding("averaged_twice", ranks=ranks, when=when, why=why)
    note = ". The gradients were clipped before they were compared, so the true factor is smaller"
    return finding("factor", factor=told, clipped=note if clipped < 1 else "")


def _by_weights(at: StepGradients) -> Finding | None:
    """What the two vectors of weights say: `used` has zeros, is even, or is that of gradients with equal norms."""
    silent = [rank for rank, own in enumerate(at.own) if not largest(own)]
    if all(at.own) and 0 < len(silent) < at.world_size:
        how = "is zero after its backward pass, but counts in the average"
        return finding("rank_left_out", left_out=ranks_named(silent), how=how)
    used, wanted = at.used, at.wanted
    if used is None:
        return None
    is_lost = np.abs(used) <= at.tolerance
    if is_lost.any() and not is_lost.all():
        rank = int(np.argmin(is_lost))
        if is_lost.sum() == at.world_size - 1 and not at.near(used[rank], 1 / at.world_size):
            return finding("gradient_of_one_rank", rank=rank)
        left_out = ranks_named([int(rank) for rank in np.flatnonzero(is_lost)])
        return finding("rank_left_out", left_out=left_out, how="is left out of the average")
    if wanted is None:
        return None
    if at.is_even(used) and not at.is_even(wanted):
        have = f"have {joined(at.counts)} samples"
        why = have if len(set(at.counts)) > 1 else "average over different numbers of terms"
        return finding("mean_of_means", why=why, shares=_numbers(wanted / wanted.sum()))
    scaled = used * at.world_size
    is_clipped = scaled < 1 - at.tolerance
    norms = scaled * [np.sqrt(sum(np.square(values).sum() for values in own.values())) for own in at.own]
    if (used > 0).all() and is_clipped.any() and (np.abs(scaled[~is_clipped] - 1) <= at.tolerance).all():
        threshold = norms[is_clipped]
        if np.ptp(threshold) <= 10 * at.tolerance * threshold.max():
            return finding("clipped_before_averaging", norm=f"{threshold.max():.3g}")
    return None


def _some_parameters_by_a_factor(at: StepGradients) -> Finding | None:
    if not any(at.base[name].any() for name in at.base.keys() - at.differing):
        return None
    factor = at.factor(at.differing)
    if factor is None:
        return None
    return finding("factor_of_parameter", names=names_of(at.differing), factor=f"{factor:.4g}")


def _rounded(at: StepGradients) -> Finding | None:
    """Each element is off by a rounding of its own size, or of the ranks' own gradients, and not more.

    This leaves the rounding of a coarser dtype, in which a small difference of any other kind would hide.
    """
    names = sorted(at.base)
    base, theirs = _flat(at.base, names), _flat(at.ranks[0], names)
    sizes, error = np.abs(base), np.abs(base - theirs)
    if all(own.keys() >= at.base.keys() for own in at.own):
        rows = [_flat(own, names) for own in at.own]
        before = np.abs(np.mean(rows, axis=0)).max()
        clipped = min(1.0, np.abs(base).max() / before) if before else 1.0  # and its rounding with it
        sizes += clipped * np.mean(np.abs(rows), axis=0)
    for dtype, eps in (("float16", 2.0**-11), ("bfloat16", 2.0**-8)):
        if (error <= 2 * eps * sizes + at.limit).all() and error.max() > eps / 16 * np.abs(base).max():
            return finding("rounded", dtype=dtype)
    return None


def _by_what_the_forward_passes_use(at: StepGradients) -> Finding | None:
    """This says why the gradient differs, but not by how much."""
    kinds = {kind for record in (*at.records, at.record) for kind in record.kinds}
    key = next((key for key in ("batch_norm", "random_forward", "changed_between_micro_batches") if key in kinds), None)
    return finding(key, step=at.step) if key else None


def _uneven_micro_batches(at: StepGradients) -> Finding | None:
    sizes_of_one, sizes = ([len(batch) for batch in record.samples] for record in (at.record, at.records[0]))
    if len(set(sizes_of_one)) <= 1 and len(set(sizes)) <= 1:
        return None
    told = {"sizes_of_one": sizes_of_one, "sizes": sizes}
    return finding("uneven_micro_batches", **{key: ", ".join(map(str, some)) for key, some in told.items()})


def _other_weights(at: StepGradients) -> Finding | None:
    """Only what differs is known: the weights, or the losses."""
    used, wanted = at.used, at.wanted
    if used is None:
        return None
    if wanted is not None and not np.allclose(used, wanted, rtol=at.tolerance):
        return finding("other_weights", used=_numbers(used), wanted=_numbers(wanted))
    if wanted is None and at.is_even(used) and len(set(at.counts)) == 1:
        return finding("other_loss", step=at.step)
    return None


def _numbers(weights: Array) -> str:
    return ", ".join(f"{weight:.3g}" for weight in weights)


# of gradients that differ from rank to rank


def _not_in_the_optimizer(at: StepGradients) -> Finding | None:
    """Some ranks do not update a parameter at all, and nothing else differs."""
    missing = [at.record.before.keys() - record.before.keys() for record in at.records]
    names = {name for of_rank in missing for name in of_rank}
    if not names or at.differing - names:
        return None
    ranks = ranks_named([rank for rank, of_rank in enumerate(missing) if of_rank])
    return finding("not_in_the_optimizer", ranks=ranks, names=names_of(names))


def _on_some_ranks(at: StepGradients) -> Finding | None:
    right = [rank for rank, own in enumerate(at.ranks) if at.equal(at.base, own)]
    if not right:
        return None
    wrong = [rank for rank in range(at.world_size) if rank not in right]
    return finding("result_on_some_ranks", right=ranks_named(right), wrong=ranks_named(wrong))


def _not_averaged(at: StepGradients) -> Finding | None:
    """The ranks' gradients, or those of some parameters, are their own: their mean or their sum would be right."""
    names = at.differing
    mean = {name: np.mean([own[name] for own in at.ranks], axis=0) for name in names}
    times = fitted(mean, [at.base], at.limit)
    is_own = all(
        fitted({name: values for name, values in stepped.items() if name in names}, [own], at.limit_of_own) is not None
        for stepped, own in zip(at.ranks, at.own, strict=True)
    )
    has_right_mean = times is not None and (at.near(times[0], 1) or at.near(times[0], 1 / at.world_size))
    if not (has_right_mean or is_own):
        return None
    if any(at.base[name].any() for name in at.base.keys() - names):
        return None if at.ranks_agree(names) else finding("parameter_not_averaged", names=names_of(names))
    if any(at.ranks_agree({name}) and at.base[name].any() for name in at.base):
        return None
    has_ddp = at.many.ranks[0].has_ddp
    if has_ddp and not any(record.syncs for rank in at.many.ranks for record in rank.steps):
        return finding("ddp_bypassed")
    if any(record.syncs and not record.syncs[-1] for record in at.records):
        return finding("no_sync")
    ddp = " DistributedDataParallel averages only the gradients of the module that it wraps." * has_ddp
    return finding("not_averaged", names=names_of(names), ddp=ddp)


# in this order: first those that leave no more than the rounding of the gradients' dtype
_OF_EQUAL_RANKS = (
    _not_zeroed,
    _by_a_factor,
    _by_weights,
    _some_parameters_by_a_factor,
    _rounded,
    _by_what_the_forward_passes_use,
    _uneven_micro_batches,
    _other_weights,
)
_OF_UNEQUAL_RANKS = (_not_in_the_optimizer, _on_some_ranks, _not_averaged, _by_what_the_forward_passes_use)
