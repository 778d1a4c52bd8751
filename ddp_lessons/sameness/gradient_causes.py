"""Causes of a gradient that is not the one of a single rank, though the same samples entered the model.

Each function says whether the numbers fit its cause. Most use the weights with which the ranks' own gradients enter
the gradient that the optimizer stepped with (`used`), and the one of a single rank (`wanted`).
"""

from __future__ import annotations

import numpy as np

from ddp_lessons.sameness.evidence import Evidence, Finding, first_finding, number_of
from ddp_lessons.sameness.run_records import Array


def gradient_cause(evidence: Evidence) -> Finding | None:
    """The most specific cause that fits."""
    if evidence.ranks_agree():
        return first_finding(_OF_EQUAL_RANKS, evidence)
    return first_finding(_OF_UNEQUAL_RANKS, evidence)


# the ranks stepped with gradients of their own


def _not_averaged(evidence: Evidence) -> Finding | None:
    """Their mean or sum is that of one rank; or no rank's gradient has anything of another's in it."""
    if not (evidence.equal(evidence.mean, evidence.base) or _fits_sum(evidence) or _is_only_its_own(evidence)):
        return None
    some_agree = [name for name in evidence.base if evidence.ranks_agree({name}) and evidence.base[name].any()]
    if some_agree:
        return None
    return _because_of_ddp(evidence) or Finding(
        "not_averaged",
        "Every rank steps with its own gradient: the gradients are not averaged.",
        "average the gradients between backward() and step(): wrap the model in DistributedDataParallel, "
        "or all_reduce each gradient and divide it by world_size.",
    )


def _fits_sum(evidence: Evidence) -> bool:
    total = {name: evidence.world_size * values for name, values in evidence.mean.items()}
    return evidence.equal(total, evidence.base)


def _is_only_its_own(evidence: Evidence) -> bool:
    matrix = [evidence.weights_in(by_name) for by_name in evidence.ranks]
    if any(weights is None for weights in matrix):
        return False
    weights = np.stack([one for one in matrix if one is not None])
    return bool((np.abs(weights - np.diag(np.diag(weights))) <= evidence.tolerance).all() and np.diag(weights).all())


def _because_of_ddp(evidence: Evidence) -> Finding | None:
    if not evidence.comparison.many.ranks[0].has_ddp:
        return None
    syncs = [sync for record in evidence.records for sync in record.syncs]
    if not syncs:
        return Finding(
            "ddp_bypassed",
            "The model is wrapped in DistributedDataParallel, but the forward pass does not go through the wrapper, "
            "so the gradients are not averaged.",
            "call the wrapper, `ddp_model(inputs)`, and not `ddp_model.module(inputs)` or the model inside.",
        )
    if not all(record.syncs and record.syncs[-1] for record in evidence.records):
        return Finding(
            "no_sync",
            "The last micro-batch of the step runs under no_sync(), too, so DDP never averages the gradients.",
            "leave no_sync() for the last micro-batch before step().",
        )
    return None


def _one_rank_differs(evidence: Evidence) -> Finding | None:
    """Some ranks have the right gradient and the others not."""
    right = [rank for rank, one in enumerate(evidence.ranks) if evidence.equal(evidence.base, one)]
    if not right or len(right) == evidence.world_size:
        return None
    wrong = [rank for rank in range(evidence.world_size) if rank not in right]
    return Finding(
        "result_on_some_ranks",
        f"Only rank{'s' * (len(right) > 1)} {_listed(right)} stepped with the right gradient; "
        f"rank{'s' * (len(wrong) > 1)} {_listed(wrong)} did not: the result of the reduction did not reach every rank.",
        "use all_reduce (not reduce), and write the result to p.grad on every rank.",
    )


def _one_parameter(evidence: Evidence) -> Finding | None:
    """Only some parameters are not averaged."""
    names = evidence.differing()
    right = {name for name in evidence.base if name not in names and evidence.base[name].any()}
    if not names or not right or evidence.ranks_agree(names):
        return None
    own = [(evidence.local[0].get(name), evidence.ranks[0].get(name)) for name in names]
    is_mean = evidence.equal(evidence.mean, evidence.base, names)
    is_local = all(mine is not None and used is not None and np.allclose(mine, used) for mine, used in own)
    if not (is_mean or is_local):
        return None
    listed = _listed(sorted(names), "`{}`")
    return Finding(
        "parameter_not_averaged",
        f"The gradient of {listed} is not averaged; the other parameters are.",
        f"include {listed} in the averaging: look at the loop over the parameters, and at what DDP was told to ignore.",
    )


# all ranks stepped with the same gradient


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
    return Finding(
        "factor",
        f"The gradient is {factor:.4g} times that of one rank on every parameter.",
        "look for a division by the number of micro-batches or samples that depends on the number of ranks, "
        "and for clipping at another threshold.",
    )


def _averaged_twice(evidence: Evidence) -> Finding:
    ranks, wanted = evidence.world_size, evidence.wanted
    adds_up = wanted is not None and bool((np.abs(wanted - 1) <= evidence.tolerance).all())
    why = (
        "the ranks' own gradients already add up to it (a loss that is a sum, or is divided by world_size or by the "
        "global batch), and then they are averaged, too"
        if adds_up
        else "it is divided by world_size twice"
    )
    return Finding(
        "averaged_twice",
        f"The gradient is 1/{ranks} of that of one rank on every parameter: {why}.",
        "divide once: use the mean loss over the rank's own samples and average, "
        "or multiply the loss by world_size where DDP averages.",
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


def _one_rank_only(evidence: Evidence) -> Finding | None:
    """One rank's gradient is all there is."""
    if evidence.used is None:
        return None
    others = np.abs(evidence.used) <= evidence.tolerance
    if others.sum() != evidence.world_size - 1:
        return None
    rank = int(np.argmin(others))
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
    why = f"have {', '.join(map(str, counts))} samples" if len(set(counts)) > 1 else "hold different numbers of terms"
    weights = ", ".join(f"{share:.3g}" for share in shares)
    return Finding(
        "mean_of_means",
        f"The ranks {why}, but their mean gradients are averaged with equal weights. "
        f"The weights of one rank's mean are {weights}.",
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


def _other_weights(evidence: Evidence) -> Finding | None:
    used, wanted = evidence.used, evidence.wanted
    if used is None or wanted is None or np.allclose(used, wanted, rtol=evidence.tolerance):
        return None
    return Finding(
        "other_weights",
        f"The ranks' own gradients enter the average with weights {_numbers(used)}; one rank's gradient has them with "
        f"{_numbers(wanted)}.",
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
    listed = _listed(sorted(names), "`{}`")
    if factor is None:
        return None
    return Finding(
        "factor_of_parameter",
        f"The gradient of {listed} is {factor:.4g} times that of one rank; the other parameters agree.",
        f"check how often {listed} is reduced and divided: a shared parameter is listed twice.",
    )


def _batch_norm(evidence: Evidence) -> Finding | None:
    if not evidence.has("batch_norm"):
        return None
    return Finding(
        "batch_norm",
        "The model has batch normalisation in training mode: each rank normalises with the statistics of its own "
        "samples, not of the global batch.",
        "convert it with nn.SyncBatchNorm.convert_sync_batchnorm(model) (on GPUs), or use GroupNorm or LayerNorm.",
    )


def _random_forward(evidence: Evidence) -> Finding | None:
    if not (evidence.has("dropout") or evidence.has("random")):
        return None
    what = "dropout" if evidence.has("dropout") else "random numbers"
    return Finding(
        "random_forward",
        f"The forward pass uses {what}, drawn on each rank: the draws are not those of one rank.",
        'pass random=["dropout"] to compare without dropout; if the draws must agree, seed them by sample.',
    )


def _batch_wide_loss(evidence: Evidence) -> Finding | None:
    """The average is right, but the ranks' own gradients do not add up to the one of a single rank."""
    if evidence.used is None or evidence.wanted is not None or not _is_constant(evidence.used, evidence):
        return None
    if len(set(evidence.counts[1])) > 1:
        return None
    return Finding(
        "batch_wide_loss",
        "The ranks' own gradients are averaged correctly, but they do not add up to the gradient of one rank: the loss "
        "of a sample depends on the other samples of its batch (batch statistics, contrastive pairs, padding).",
        "gather what the loss needs from all ranks, or compute its sums over the global batch.",
    )


def _is_constant(weights: Array, evidence: Evidence) -> bool:
    return bool((np.abs(weights - weights.mean()) <= evidence.tolerance * abs(weights.mean())).all())


def _numbers(weights: Array) -> str:
    return ", ".join(f"{weight:.3g}" for weight in weights)


def _listed(names: object, form: str = "{}") -> str:
    items = [form.format(name) for name in names]  # type: ignore[attr-defined]
    if len(items) > 3:
        return f"{', '.join(items[:3])} and {number_of(len(items) - 3, 'more parameter')}"
    return " and ".join([", ".join(items[:-1]), items[-1]]) if len(items) > 1 else items[0]


_OF_UNEQUAL_RANKS = (_one_rank_differs, _one_parameter, _not_averaged, _batch_norm, _random_forward)
_OF_EQUAL_RANKS = (
    _micro_batches,
    _factor,
    _one_rank_only,
    _mean_of_means,
    _clipped_first,
    _some_parameters_by_a_factor,
    _batch_norm,
    _random_forward,
    _other_weights,
    _batch_wide_loss,
)
