"""Why two training runs diverge: the cause of the first difference.

Parameters, buffers, settings and numbers of steps are judged here; they differ though every gradient agreed.
"""

from __future__ import annotations

import numpy as np

from ddp_lessons.run.diagnosis.wording import ranks_named
from ddp_lessons.sameness.cause_table import Finding, finding
from ddp_lessons.sameness.first_difference import (
    AFTER,
    BEFORE,
    BUFFERS,
    GRADIENTS,
    SAMPLES,
    STEPS,
    Comparison,
    Difference,
    apart,
)
from ddp_lessons.sameness.gradient_causes import fitted, gradient_cause
from ddp_lessons.sameness.rounding_limits import largest
from ddp_lessons.sameness.sample_causes import sample_cause

UNKNOWN = "unknown"
_WITHOUT_FIT = ("batch_norm", "random_forward", "other_loss")  # their gradients fit no sum of the ranks' own


def cause_of(comparison: Comparison, difference: Difference) -> tuple[Finding, bool]:
    """The cause, and whether it lies in the samples."""
    what, step, at = difference.what, difference.step, comparison.other_samples_at
    steps = comparison.many.steps
    are_samples_asked = what in (GRADIENTS, SAMPLES) or (what == STEPS and len(set(steps)) == 1)
    samples = sample_cause(comparison) if are_samples_asked and at is not None and at <= step else None
    found: Finding | None = None
    if what == BEFORE:
        found = _weights_cause(comparison, difference)
    elif what == GRADIENTS:
        found = gradient_cause(comparison, step)
    elif what == AFTER:
        found = _update_cause(comparison, difference)
    elif what == BUFFERS:
        found = finding("buffers", name=difference.parameter)
    elif what == STEPS:
        found = finding("number_of_steps", one=comparison.one.steps[0], many=_steps(steps))
    # inputs may be laid out in another way: a gradient that fits says more
    if samples and not (samples.key == "other_inputs" and found and found.key not in _WITHOUT_FIT):
        return samples, True
    return found or finding(UNKNOWN, step=step, rank=difference.rank), False


def _steps(steps: tuple[int, ...]) -> str:
    if len(set(steps)) == 1:
        return f"each of {len(steps)} ranks takes {steps[0]}"
    return ", ".join(f"rank {rank} takes {number}" for rank, number in enumerate(steps))


def _weights_cause(comparison: Comparison, difference: Difference) -> Finding:
    """Of parameters that differ before a step: at the beginning, or after a step that left them equal."""
    step, name = difference.step, difference.parameter
    base, ranks = comparison.one.values(BEFORE, step)[0], comparison.many.values(BEFORE, step)
    limit = difference.limit
    wrong = [rank for rank, own in enumerate(ranks) if name in own and (apart(own[name], base[name]) > limit).any()]
    if step:
        return finding("changed_between_steps", before=step - 1, step=step, ranks=ranks_named(wrong))
    do_agree = all(not apart(own[key], ranks[0][key]).any() for own in ranks for key in own.keys() & ranks[0].keys())
    why = ", although all ranks agree: the seed, or the number of random draws before, depends on the number of ranks"
    return finding("initial_weights", ranks=ranks_named(wrong), agree=why * do_agree)


def _update_cause(comparison: Comparison, difference: Difference) -> Finding | None:
    """Of parameters that differ after a step with the same gradient, or of settings that differ."""
    step = difference.step
    mine, records = comparison.one.at(step)[0], comparison.many.at(step)
    is_sharded = any("ZeroRedundancy" in record.optimizer for record in records)  # each rank has a part of the state
    for rank, record in enumerate(records):
        wanted_class, its_class = (each.optimizer.split()[0] for each in (mine, record))
        if its_class != wanted_class and not is_sharded:
            return finding("optimizer_settings", name="class", rank=rank, mine=wanted_class, theirs=its_class)
        for name in sorted(mine.settings, key=lambda name: (not name.startswith("lr"), name)):
            wanted, used = mine.settings[name], record.settings.get(name, mine.settings[name])
            if not np.isclose(wanted, used, rtol=1e-9):
                key = "learning_rate" if name.startswith("lr") else "optimizer_settings"
                times = f", {used / wanted:.4g} times" if wanted else ", not"
                facts = {"mine": f"{wanted:.4g}", "theirs": f"{used:.4g}", "times": times}
                return finding(key, step=step, rank=rank, name=name, **facts)
    relative = comparison.limits.relative(mine, comparison.one.samples(step)[0].total())
    for rank, record in enumerate(records):
        if not is_sharded and not np.isclose(record.state, mine.state, rtol=max(1e-2, 100 * relative)):
            return finding("optimizer_state", rank=rank, step=step)
    return _update_factor(comparison, difference)


def _update_factor(comparison: Comparison, difference: Difference) -> Finding | None:
    """The update has a factor that gradient and learning rate do not explain."""
    base, theirs = (
        {name: after[name] - before[name] for name in before.keys() & after.keys()}
        for before, after in (
            [run.values(what, difference.step)[rank] for what in (BEFORE, AFTER)]
            for run, rank in ((comparison.one, 0), (comparison.many, difference.rank))
        )
    )
    factor = fitted(theirs, [base], 1e-3 * largest(base))
    if factor is None:
        return None
    return finding("update_factor", rank=difference.rank, factor=f"{round(factor[0], 4):.4g}")
