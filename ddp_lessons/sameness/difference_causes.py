"""Why two runs part: the most specific cause that the numbers fit. Where none fits, that is said."""

from __future__ import annotations

from ddp_lessons.sameness.evidence import Evidence, Finding
from ddp_lessons.sameness.first_difference import AFTER, BEFORE, BUFFERS, GRADIENTS, STEPS, Comparison, Difference
from ddp_lessons.sameness.gradient_causes import gradient_cause
from ddp_lessons.sameness.sample_causes import sample_cause
from ddp_lessons.sameness.update_causes import buffers_cause, steps_cause, update_cause, weights_cause

UNKNOWN = "unknown"
_WITHOUT_FIT = ("batch_norm", "random_forward", "batch_wide_loss")  # their gradients fit no sum of the ranks' own


def find_cause(comparison: Comparison, difference: Difference) -> Finding:
    return _cause(comparison, difference) or Finding(
        UNKNOWN,
        "No cause that this comparison knows fits the numbers.",
        f"print what you compute for step {difference.step} on one rank and on rank {difference.rank}, and look for "
        "the first value that differs.",
    )


def _cause(comparison: Comparison, difference: Difference) -> Finding | None:
    evidence, step = Evidence(comparison, difference), difference.step
    samples = sample_cause(comparison)
    if comparison.other_samples_at is not None and comparison.other_samples_at > step:
        samples = None
    if difference.what == BEFORE:
        return weights_cause(evidence)
    if difference.what == AFTER:
        return update_cause(evidence)
    if difference.what == BUFFERS:
        return buffers_cause(evidence)
    if difference.what == STEPS:
        is_uneven = len(set(comparison.many.steps)) > 1
        return steps_cause(evidence) if is_uneven else samples or steps_cause(evidence)
    if difference.what != GRADIENTS:
        return samples
    if samples is not None and samples.key != "other_inputs":
        return samples
    found = gradient_cause(evidence)
    if samples is not None and found is not None and found.key in _WITHOUT_FIT:
        return samples
    return found or samples  # inputs may be laid out in another way: a gradient that fits says more
