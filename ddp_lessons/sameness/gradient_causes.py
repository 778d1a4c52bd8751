"""Causes of a gradient that is not the one of a single rank, though the same samples entered the model.

Each function says whether the numbers fit its cause. Most use the weights with which the ranks' own gradients enter
the gradient that the optimizer stepped with (`used`), and the one of a single rank (`wanted`).
"""

from __future__ import annotations

import numpy as np

from ddp_lessons.run.diagnosis.wording import ranks_named
from ddp_lessons.sameness.evidence import Evidence, Finding, first_finding
from ddp_lessons.sameness.rounding_limits import largest
from ddp_lessons.sameness.run_records import Array
from ddp_lessons.sameness.unequal_gradients import batch_norm, names_of, random_forward, unequal_gradients_cause


def gradient_cause(evidence: Evidence) -> Finding | None:
    """The cause that leaves the smallest rest of the difference; of those that leave none, the most specific."""
    if evidence.ranks_agree():
        return first_finding(_OF_EQUAL_RANKS, evidence)
    return unequal_gradients_cause(evidence)


def _factor(evidence: Evidence) -> Finding | None:
    factor, ranks = evidence.factor, evidence.world_size
    if factor is None:
        return None
    if evidence.near(factor, ranks):
        return Finding(
            "sum_not_mean",
            f"The gradient is {ranks} times that of one rank on every parameter: "
            "the ranks' gradients are summed, not averaged.",
            "divide by world_size after all_reduce, or use a mean loss over the global batch.",
        )
    if evidence.near(factor, 1 / ranks):
        return _averaged_twice(evidence)
    if evidence.clipped is not None and 0 < factor < 1:
        return _smaller_than_clipped(evidence, factor, evidence.clipped)
    return Finding(
        "factor",
        f"The gradient is {factor:.4g} times that of one rank on every parameter.",
        "look for a division by the number of micro-batches or samples that depends on the number of ranks, "
        "and for clipping at another threshold.",
    )


def _smaller_than_clipped(evidence: Evidence, factor: float, clipped: float) -> Finding:
    """One rank clips to the threshold, so the smaller gradient of several ranks is as it was before clipping."""
    if evidence.near(factor * clipped, 1 / evidence.world_size):
        return _averaged_twice(evidence, clipped)
    return Finding(
        "factor",
        f"The gradient is {factor:.4g} times that of one rank on every parameter. The gradients were clipped before "
        "they were compared, so the true factor is smaller.",
        f"look for a division too many. Usually it is DDP's division by world_size: {_SCALE}.",
    )


_SCALE = "multiply the loss by world_size if it is already divided by the number of samples or tokens of all ranks"


def _averaged_twice(evidence: Evidence, clipped: float = 1.0) -> Finding:
    ranks, wanted = evidence.world_size, evidence.wanted
    adds_up = wanted is not None and bool((np.abs(wanted / clipped - 1) <= evidence.tolerance).all())
    why = (
        "the ranks' own gradients already add up to it (a loss that is a sum, or is divided by world_size or by the "
        "global batch), and then they are averaged, too"
        if adds_up
        else "it is divided by world_size twice"
    )
    when = f"Before clipping, which left {clipped:.4g} of one rank's gradient, the" if clipped < 1 else "The"
    return Finding(
        "averaged_twice",
        f"{when} gradient is 1/{ranks} of that of one rank on every parameter: {why}.",
        f"divide once. DDP divides by world_size: {_SCALE}. Otherwise use the mean loss over the rank's own samples.",
    )


def _micro_batches(evidence: Evidence) -> Finding | None:
    """The factor is that between the numbers of forward passes."""
    factor = evidence.factor
    passes = len(evidence.record.samples), len(evidence.records[0].samples)
    if factor is None or not all(passes) or passes[0] == passes[1]:
        return None
    if not evidence.near(factor, passes[1] / passes[0]):
        return None
    return Finding(
        "micro_batches",
        f"The gradient is {factor:.4g} times that of one rank on every parameter, as is the number of micro-batches "
        f"({passes[1]} on each rank, {passes[0]} on one rank): their losses are summed.",
        "divide the loss of each micro-batch by the number of micro-batches that this rank has in the step.",
    )


def _rounded(evidence: Evidence) -> Finding | None:
    """Each element is off by a rounding of its own size, and not more."""
    base, theirs = (
        np.concatenate([by_name[name] for name in sorted(evidence.base.keys() & evidence.ranks[0].keys())])
        for by_name in (evidence.base, evidence.ranks[0])
    )
    sizes = np.abs(base) + _mean_size(evidence, base)
    error = np.abs(base - theirs)
    for dtype, eps in (("float16", 2.0**-11), ("bfloat16", 2.0**-8)):
        if (error <= 2 * eps * sizes + evidence.limit).all() and error.max() > eps / 16 * np.abs(base).max():
            return Finding(
                "rounded",
                f"Each element of the gradient is off by about as much as {dtype} rounds: the gradients are rounded on "
                "the way.",
                "communicate in the dtype of the gradients: look for a compressing communication hook or a cast.",
            )
    return None


def _mean_size(evidence: Evidence, base: Array) -> Array:
    """Of the elements of the ranks' own gradients."""
    names = sorted(evidence.base.keys() & evidence.ranks[0].keys())
    if not all(name in by_name for name in names for by_name in evidence.local):
        return np.zeros_like(base)
    rows = [np.concatenate([by_name[name] for name in names]) for by_name in evidence.local]
    before = float(np.abs(np.mean(rows, axis=0)).max(initial=0.0))
    clipped = min(1.0, float(np.abs(base).max(initial=0.0)) / before) if before else 1.0  # and its rounding with it
    return np.asarray(clipped * np.mean(np.abs(rows), axis=0))


def _not_zeroed(evidence: Evidence) -> Finding | None:
    """The gradient of the step before is still in it."""
    if evidence.step == 0 or evidence.comparison.many.at(evidence.step - 1)[0].optimizer != evidence.record.optimizer:
        return None
    before = evidence.comparison.many.values("gradients", evidence.step - 1)[0]
    new = {name: values - before.get(name, 0.0) for name, values in evidence.ranks[0].items()}
    if not evidence.equal(new, evidence.base):
        return None
    return Finding(
        "not_zeroed",
        f"The gradient of step {evidence.step} still contains the gradient of step {evidence.step - 1}.",
        "call optimizer.zero_grad() before backward() on every rank.",
    )


def _no_gradient_of_its_own(evidence: Evidence) -> Finding | None:
    """Samples entered the model of a rank, but its backward passes gave zeros."""
    silent = [rank for rank, one in enumerate(evidence.local) if one and not largest(one)]
    if not silent or len(silent) == evidence.world_size or not all(evidence.local):
        return None
    return Finding(
        "rank_left_out",
        f"On {ranks_named(silent)} the backward pass gives a gradient of zeros, which enters the average.",
        "look for a loss that is multiplied by 0, or skipped, on that rank.",
    )


def _one_rank_only(evidence: Evidence) -> Finding | None:
    """One rank's gradient is all there is."""
    if evidence.used is None:
        return None
    others = np.abs(evidence.used) <= evidence.tolerance
    rank = int(np.argmin(others))
    if not others.any() or others.all():
        return None
    if others.sum() < evidence.world_size - 1 or evidence.near(evidence.used[rank], 1 / evidence.world_size):
        left_out = ranks_named([int(one) for one in np.flatnonzero(others)])
        return Finding(
            "rank_left_out",
            f"The gradient of {left_out} does not enter the average.",
            "look for a branch that zeroes, skips or forgets the gradient on that rank before all_reduce.",
        )
    return Finding(
        "gradient_of_one_rank",
        f"All ranks step with the gradient of rank {rank}: the gradients of the other ranks are lost.",
        "average with all_reduce: broadcast copies one rank's gradient over those of the others.",
    )


def _mean_of_means(evidence: Evidence) -> Finding | None:
    """All ranks weigh the same, but have different numbers of samples."""
    used, wanted = evidence.used, evidence.wanted
    if used is None or wanted is None or not _is_constant(used, evidence) or _is_constant(wanted, evidence):
        return None
    shares = wanted / wanted.sum()
    counts = evidence.counts[1]
    why = (
        f"have {', '.join(map(str, counts[:-1]))} and {counts[-1]} samples"
        if len(set(counts)) > 1
        else "average over different numbers of terms"
    )
    weights = ", ".join(f"{share:.3g}" for share in shares)
    return Finding(
        "mean_of_means",
        f"The ranks {why}, but their mean gradients are averaged with equal weights. "
        f"The correct weights are {weights}.",
        "sum the losses, divide by the number of samples (or tokens) of the global batch, "
        "and multiply by world_size where DDP averages.",
    )


def _clipped_first(evidence: Evidence) -> Finding | None:
    """Each rank's own gradient has the same norm once it is weighted, or is as it was."""
    used, wanted = evidence.used, evidence.wanted
    if used is None or wanted is None or not (used > 0).all():
        return None
    norms = np.array([_norm(by_name) for by_name in evidence.local])
    scaled = used * evidence.world_size
    clipped = scaled < 1 - evidence.tolerance
    threshold = scaled[clipped] * norms[clipped]
    if not clipped.any() or np.ptp(threshold) > 10 * evidence.tolerance * threshold.max():
        return None
    if (~clipped).any() and not (np.abs(scaled[~clipped] - 1) <= evidence.tolerance).all():
        return None
    return Finding(
        "clipped_before_averaging",
        f"Each rank clips its own gradient to a norm of {threshold.max():.3g} before the gradients are averaged.",
        "average first, then call clip_grad_norm_: all ranks then clip the same gradient by the same factor.",
    )


def _norm(by_name: dict[str, Array]) -> float:
    return float(np.sqrt(sum(np.square(values).sum() for values in by_name.values())))


def _changed_between_micro_batches(evidence: Evidence) -> Finding | None:
    if not any("changed_gradient" in record.kinds for record in evidence.records):
        return None
    return Finding(
        "changed_between_micro_batches",
        f"The gradients are changed between two micro-batches of step {evidence.step}: they are clipped, averaged or "
        "scaled before all of them are summed.",
        "clip, average and scale once per step, after the backward() of the last micro-batch.",
    )


def _uneven_micro_batches(evidence: Evidence) -> Finding | None:
    sizes = [[len(batch) for batch in record.samples] for record in (evidence.record, evidence.records[0])]
    if all(len(set(one)) <= 1 for one in sizes):
        return None
    one, rank = (", ".join(map(str, some)) for some in sizes)
    return Finding(
        "uneven_micro_batches",
        f"The micro-batches of a step have different sizes (on one rank {one} samples, on rank 0 {rank}), so a mean of "
        "their means depends on how the batch is cut.",
        "sum the losses of the micro-batches and divide by the number of samples of the whole step.",
    )


def _other_weights(evidence: Evidence) -> Finding | None:
    used, wanted = evidence.used, evidence.wanted
    if used is None or wanted is None or np.allclose(used, wanted, rtol=evidence.tolerance):
        return None
    return Finding(
        "other_weights",
        f"The ranks' own gradients enter the average with weights {_numbers(used)}; to match the gradient of one "
        f"rank, they need {_numbers(wanted)}.",
        "weight each rank by its number of samples, and by nothing else.",
    )


def _some_parameters_by_a_factor(evidence: Evidence) -> Finding | None:
    """Only some parameters are wrong, the same on all ranks."""
    names = evidence.differing()
    right = {name for name in evidence.base if name not in names and evidence.base[name].any()}
    if not names or not right:
        return None
    base = {name: evidence.base[name] for name in names if name in evidence.base}
    theirs = {name: evidence.ranks[0][name] for name in names if name in evidence.ranks[0]}
    factor = evidence.factor_between(base, theirs) if base and base.keys() == theirs.keys() else None
    listed = names_of(sorted(names))
    if factor is None:
        return None
    return Finding(
        "factor_of_parameter",
        f"The gradient of {listed} is {factor:.4g} times that of one rank; the other parameters agree.",
        f"check how often {listed} is reduced and divided: a shared parameter is listed twice.",
    )


def _other_loss(evidence: Evidence) -> Finding | None:
    """The average is right, but the ranks' own gradients do not add up to the one of a single rank."""
    if evidence.used is None or evidence.wanted is not None or not _is_constant(evidence.used, evidence):
        return None
    if len(set(evidence.counts[1])) > 1:
        return None
    return Finding(
        "other_loss",
        "The averaging is right, but the ranks' own gradients do not add up to the gradient of one rank: the ranks "
        "compute a different loss. Usual reasons: labels that are not sharded like the inputs, micro-batches with "
        "different numbers of tokens, or a loss that depends on random numbers, world_size or the whole batch.",
        f"print the loss of each sample of step {evidence.step} on one rank and on several, and compare.",
    )


def _is_constant(weights: Array, evidence: Evidence) -> bool:
    return bool((np.abs(weights - weights.mean()) <= evidence.tolerance * abs(weights.mean())).all())


def _numbers(weights: Array) -> str:
    return ", ".join(f"{weight:.3g}" for weight in weights)


_OF_EQUAL_RANKS = (
    # they leave no more than the rounding of the gradients' dtype
    _not_zeroed,
    _micro_batches,
    _factor,
    _no_gradient_of_its_own,
    _one_rank_only,
    _mean_of_means,
    _clipped_first,
    _some_parameters_by_a_factor,
    # it leaves the rounding of a coarser dtype, in which a small difference of any kind would hide
    _rounded,
    # they say why the gradient differs, but not by how much
    batch_norm,
    random_forward,
    _changed_between_micro_batches,
    _uneven_micro_batches,
    # they say what differs
    _other_weights,
    _other_loss,
)
