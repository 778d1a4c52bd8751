"""Causes of parameters, buffers or numbers of steps that differ though every gradient agreed."""

from __future__ import annotations

import numpy as np

from ddp_lessons.run.diagnosis.wording import ranks_named
from ddp_lessons.sameness.evidence import Evidence, Finding, first_finding
from ddp_lessons.sameness.first_difference import BEFORE, apart


def weights_cause(evidence: Evidence) -> Finding | None:
    """Of parameters that differ before a step."""
    return first_finding((_initial_weights,) if evidence.step == 0 else (_changed_between_steps,), evidence)


def update_cause(evidence: Evidence) -> Finding | None:
    """Of parameters that differ after a step with the same gradient."""
    return first_finding((_learning_rate, _other_settings, _optimizer_state, _update_factor), evidence)


def steps_cause(evidence: Evidence) -> Finding | None:
    return first_finding((_steps_on_some_ranks, _number_of_steps), evidence)


def buffers_cause(evidence: Evidence) -> Finding | None:
    return Finding(
        "buffers",
        f"The buffer `{evidence.difference.parameter}` is updated from each rank's own samples and not synchronized.",
        "all_reduce the statistics in forward() and divide by world_size, before they enter the buffer.",
    )


def _initial_weights(evidence: Evidence) -> Finding | None:
    base, ranks = evidence.parameters(BEFORE)
    first = ranks[0]
    agree = all(not apart(one[name], first[name]).any() for one in ranks[1:] for name in one.keys() & first.keys())
    if agree:
        return Finding(
            "initial_weights",
            "All ranks begin with equal weights, but not with those of one rank: the seed or the draws before the "
            "model is created depend on the number of ranks.",
            "call torch.manual_seed(0) directly before the model is created.",
        )
    wrong = [
        rank
        for rank, one in enumerate(ranks)
        if any(apart(one[name], base[name]).any() for name in one.keys() & base.keys())
    ]
    return Finding(
        "initial_weights",
        f"The ranks begin with different initial weights (those of rank {wrong[0] if wrong else 0} are not those of "
        "one rank).",
        "call torch.manual_seed(0) on every rank before the model is created, or broadcast the weights of rank 0.",
    )


def _changed_between_steps(evidence: Evidence) -> Finding | None:
    base, ranks = evidence.parameters(BEFORE)
    name, limit = evidence.difference.parameter, evidence.difference.limit
    wrong = [rank for rank, one in enumerate(ranks) if name in one and (apart(one[name], base[name]) > limit).any()]
    those = f"those of {ranks_named(wrong)}" if wrong and len(wrong) < len(ranks) else "those of every rank"
    return Finding(
        "changed_between_steps",
        f"After step {evidence.step - 1} the parameters agreed; before step {evidence.step}, {those} are not "
        "the ones of one rank. Something other than the optimizer changed them.",
        "look for code between step() and the next step() that writes to the parameters: averaging or broadcasting "
        "them, loading a state or an EMA, weight decay or clamping by hand.",
    )


def _learning_rate(evidence: Evidence) -> Finding | None:
    for rank, record in enumerate(evidence.records):
        for name in sorted(evidence.record.settings):
            mine, theirs = evidence.record.settings[name], record.settings.get(name, 0.0)
            if name.startswith("lr") and not np.isclose(mine, theirs, rtol=1e-9):
                times = f", {theirs / mine:.4g} times" if mine else ""
                return Finding(
                    "learning_rate",
                    f"The learning rate at step {evidence.step} is {theirs:.4g} on rank {rank}{times} that of one "
                    f"rank ({mine:.4g}).",
                    "use the same learning rate and schedule: scale it only if the global batch grows, "
                    "and step the scheduler once per optimizer step on every rank.",
                )
    return None


def _other_settings(evidence: Evidence) -> Finding | None:
    for rank, record in enumerate(evidence.records):
        if record.optimizer != evidence.record.optimizer:
            base, its = (each.optimizer.rsplit(" ", 1)[0] for each in (evidence.record, record))
            if not its.startswith("ZeroRedundancy") and base != its:
                return Finding(
                    "optimizer_settings",
                    f"Rank {rank} uses {its}, but the run on one rank uses {base}.",
                    "use the same optimizer for every number of ranks.",
                )
        for name, mine in sorted(evidence.record.settings.items()):
            if name in record.settings and not np.isclose(mine, record.settings[name], rtol=1e-9):
                return Finding(
                    "optimizer_settings",
                    f"The optimizer's {name} is {record.settings[name]:.4g} on rank {rank} and {mine:.4g} on one rank.",
                    f"use the same {name} for every number of ranks.",
                )
    return None


def _optimizer_state(evidence: Evidence) -> Finding | None:
    mine = evidence.record.state
    if any("ZeroRedundancy" in record.optimizer for record in evidence.records):
        return None
    for rank, record in enumerate(evidence.records):
        if not np.isclose(record.state, mine, rtol=max(1e-2, 100 * evidence.relative)):
            state = "has no state" if record.state == 0 else "holds another state"
            return Finding(
                "optimizer_state",
                f"The gradient and the settings agree, but the optimizer of rank {rank} {state} before step "
                f"{evidence.step} (momentum, moments).",
                "restore optimizer.state_dict() on every rank along with the weights.",
            )
    return None


def _update_factor(evidence: Evidence) -> Finding | None:
    """The update has a factor that gradient and learning rate do not explain."""
    base, ranks = evidence.updates()
    rank = evidence.difference.rank
    names = base.keys() & ranks[rank].keys()
    square = sum(float(np.square(base[name]).sum()) for name in names)
    if not square:
        return None
    factor = sum(float((base[name] * ranks[rank][name]).sum()) for name in names) / square
    rest = max(float(apart(factor * base[name], ranks[rank][name]).max(initial=0.0)) for name in names)
    if rest > 1e-3 * max(float(np.abs(base[name]).max(initial=0.0)) for name in names):
        return None
    how = "does not change the parameters" if abs(factor) < 1e-3 else f"is {factor:.4g} times that of one rank"
    return Finding(
        "update_factor",
        f"The gradients and settings agree, but the update of rank {rank} {how}.",
        "look for a second update of the parameters, a skipped one, or one by hand next to optimizer.step().",
    )


def _steps_on_some_ranks(evidence: Evidence) -> Finding | None:
    steps = evidence.comparison.many.steps
    if len(set(steps)) == 1:
        return None
    told = ", ".join(f"rank {rank} makes {number}" for rank, number in enumerate(steps))
    return Finding(
        "number_of_steps",
        f"The ranks make different numbers of optimizer steps: {told}.",
        "call optimizer.step() on every rank, and give every rank the same number of batches.",
    )


def _number_of_steps(evidence: Evidence) -> Finding | None:
    one, many = evidence.comparison.one.steps[0], evidence.comparison.many.steps[0]
    return Finding(
        "number_of_steps",
        f"Every rank makes {many} optimizer steps, but the run on one rank makes {one}.",
        "use the same global batch and the same treatment of the last batch (drop_last) for every number of ranks.",
    )
