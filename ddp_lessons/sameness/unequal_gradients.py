"""Causes of gradients that are not the same on all ranks, and of forward passes that differ from rank to rank."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from ddp_lessons.run.diagnosis.wording import ranks_named
from ddp_lessons.sameness.evidence import Evidence, Finding, first_finding, number_of
from ddp_lessons.sameness.run_records import StepRecord


def unequal_gradients_cause(evidence: Evidence) -> Finding | None:
    """The ranks stepped with gradients of their own."""
    causes = (_not_in_the_optimizer, _one_rank_differs, _one_parameter, _not_averaged, batch_norm, random_forward)
    return first_finding(causes, evidence)


def _not_in_the_optimizer(evidence: Evidence) -> Finding | None:
    """Some ranks do not update a parameter at all, and nothing else differs."""
    missing = [evidence.record.before.keys() - record.before.keys() for record in evidence.records]
    names = {name for of_rank in missing for name in of_rank}
    if not names or evidence.differing() - names:
        return None
    ranks = ranks_named([rank for rank, of_rank in enumerate(missing) if of_rank])
    listed = names_of(sorted(names))
    return Finding(
        "not_in_the_optimizer",
        f"On {ranks} the optimizer does not have {listed}.",
        "give the optimizer the same parameters on every rank, such as model.parameters().",
    )


def _one_rank_differs(evidence: Evidence) -> Finding | None:
    """Some ranks have the right gradient and the others not."""
    right = [rank for rank, one in enumerate(evidence.ranks) if evidence.equal(evidence.base, one)]
    if not right or len(right) == evidence.world_size:
        return None
    wrong = [rank for rank in range(evidence.world_size) if rank not in right]
    return Finding(
        "result_on_some_ranks",
        f"Only {ranks_named(right)} stepped with the right gradient; {ranks_named(wrong)} stepped with another one.",
        "give every rank the result: use all_reduce (not reduce), and write it to p.grad on every rank.",
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
    listed = names_of(sorted(names))
    advice = f"include {listed} in the averaging: look at the loop over the parameters."
    if evidence.comparison.many.ranks[0].has_ddp:
        advice = (
            f"unfreeze {listed} before DistributedDataParallel wraps the model: it ignores parameters that are frozen "
            "at that time."
        )
    return Finding(
        "parameter_not_averaged", f"The gradient of {listed} is not averaged; the other parameters are.", advice
    )


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
        "or all_reduce each gradient (and divide it by world_size if each rank's loss is a mean).",
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
    records = _records_with_samples(evidence)
    syncs = [sync for record in records for sync in record.syncs]
    if not syncs:
        return Finding(
            "ddp_bypassed",
            "The model is wrapped in DistributedDataParallel, but the forward pass does not go through the wrapper, "
            "so the gradients are not averaged.",
            "call the wrapper, `ddp_model(inputs)`, and not `ddp_model.module(inputs)` or the model inside.",
        )
    if not all(record.syncs and record.syncs[-1] for record in records):
        return Finding(
            "no_sync",
            "The last micro-batch of the step runs under no_sync(), too, so DDP never averages the gradients.",
            "leave no_sync() for the last micro-batch before step().",
        )
    listed = names_of(sorted(evidence.differing()))
    return Finding(
        "not_averaged",
        f"The gradient of {listed} is not averaged: DistributedDataParallel averages only the parameters of the module "
        "that it wraps.",
        f"wrap the module that holds {listed} in DistributedDataParallel, too, or put it into the one that is wrapped.",
    )


def _records_with_samples(evidence: Evidence) -> tuple[StepRecord, ...]:
    """Of this step; with several optimizers that step in turn, the forward passes are before the first one's step."""
    many = evidence.comparison.many
    steps = (many.at(step) for step in range(evidence.step, -1, -1))
    return next((records for records in steps if any(record.samples for record in records)), evidence.records)


def batch_norm(evidence: Evidence) -> Finding | None:
    if not evidence.has("batch_norm"):
        return None
    return Finding(
        "batch_norm",
        "The model has batch normalization in training mode: each rank normalizes with the statistics of its own "
        "samples, not of the global batch.",
        "convert it with nn.SyncBatchNorm.convert_sync_batchnorm(model) (on GPUs), or use GroupNorm or LayerNorm.",
    )


def random_forward(evidence: Evidence) -> Finding | None:
    if not (evidence.has("dropout") or evidence.has("random")):
        return None
    what = "random numbers"
    advice = 'draw them from a generator that is seeded by the sample; if it is dropout, pass random=["dropout"].'
    if evidence.has("dropout"):
        what = "dropout"
        advice = 'pass random=["dropout"] to compare without dropout; if the draws must agree, seed them by sample.'
    return Finding(
        "random_forward",
        f"The forward pass uses {what}, drawn separately on each rank: the draws differ from those of one rank.",
        advice,
    )


def names_of(names: Iterable[str]) -> str:
    items = [f"`{name}`" for name in names]
    if len(items) > 3:
        return f"{', '.join(items[:3])} and {number_of(len(items) - 3, 'more parameter')}"
    return " and ".join([", ".join(items[:-1]), items[-1]]) if len(items) > 1 else items[0]
