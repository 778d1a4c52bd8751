"""How far two training runs may be apart by rounding alone, step by step.

**Gradients.** A gradient is a sum over the samples, and each term of it has passed dot products over a layer's inputs.
Two orders of adding T numbers differ by about `eps * sqrt(T)` of their scale, where T = samples x largest dimension of
a parameter. Under autocast each result is rounded to the coarser dtype, too: one more `eps` of that dtype. With a
factor of 8 for several layers and for unlucky signs:

    limit = 8 * (coarse eps + eps * sqrt(T)) * (largest element of the gradient)

In float32 with 8 samples and 8 inputs that is 8e-6 of the gradient. The scale is the largest element of all parameters,
because a gradient that is zero in theory (a bias before a normalization) is rounding noise of the others.

**Parameters.** A relative error in the gradient becomes at most the same relative error in the update: an element may
be off by `update * limit / gradient`, and by all of its update where its gradient is noise (Adam divides by it, and
moves the element by a whole learning rate in a random direction). These sum up from step to step.

**Drift.** Parameters that are apart by rounding give gradients that are apart, too: a relative distance d of the
parameters adds `100 * d` to the gradient's limit.

**Sketches.** Of large models only sums of elements are known, so a parameter's limit is a share of its update.
"""

from __future__ import annotations

import numpy as np

from ddp_lessons.sameness.run_records import Array, ByName, StepRecord

FACTOR = 8.0
DRIFT_FACTOR = 100.0
TINY = 1e-300
NOISE_SHARE = 0.5  # an element of which so much of the update may be rounding does not count for the drift


class Limits:
    """The allowed difference of each element. Give it step after step of the baseline and of the other run."""

    def __init__(self) -> None:
        self._parameters: ByName = {}  # grows from step to step
        self._noise: dict[str, Array] = {}
        self._drift = 0.0

    def relative(self, record: StepRecord, samples: int) -> float:
        """Of a gradient, without the drift."""
        terms = max(samples, 1) * max(record.fan_in, 1)
        return float(FACTOR * (record.precision + record.eps * terms**0.5))

    def gradient(self, record: StepRecord, samples: int, *gradients: ByName) -> float:
        """One number for all elements, as their scale is one."""
        return (self.relative(record, samples) + DRIFT_FACTOR * self._drift) * largest(*gradients) + TINY

    def parameter(self, name: str, eps: float, values: Array) -> Array:
        """Of a parameter, as it is now."""
        return self._parameters.get(name, np.zeros(1)) + 4 * eps * np.abs(values) + TINY

    def buffer(self, record: StepRecord, samples: int, values: Array) -> float:
        scale = float(np.abs(values).max(initial=0.0))
        return (self.relative(record, samples) + DRIFT_FACTOR * self._drift) * scale + TINY

    def note_step(
        self, gradient_limit: float, one: dict[str, ByName], many: dict[str, ByName], in_sketches: bool = False
    ) -> None:
        """After a step in which the gradients of both agreed: how far may the parameters be apart now?"""
        largest_gradient = largest(one["gradients"], many["gradients"])
        distance = scale = 0.0
        for name in one["before"].keys() & many["before"].keys() & one["after"].keys() & many["after"].keys():
            before, after = one["before"][name], one["after"][name]
            other = many["after"][name]
            if before.shape != other.shape:
                continue
            nothing = np.zeros_like(before)
            gradients = one["gradients"].get(name, nothing), many["gradients"].get(name, nothing)
            size = np.maximum(np.abs(gradients[0]), np.abs(gradients[1]))
            update = np.abs(after - before) + np.abs(other - many["before"][name])
            if in_sketches:
                share = np.full(before.shape, _share_in_sketches(gradient_limit / max(largest_gradient, TINY)))
                update = np.full(before.shape, float(np.sqrt(np.square(update).mean())))
            else:
                share = np.minimum(gradient_limit / np.maximum(size, TINY), 1.0)
            self._parameters[name] = self._parameters.get(name, nothing) + share * update
            noise = self._noise.get(name, np.zeros(before.shape, bool)) | (share > NOISE_SHARE)
            self._noise[name] = noise
            distance += float(np.square(after - other)[~noise].sum())
            scale += float(np.square(after).sum())
        if scale and np.isfinite(distance):
            self._drift = max(self._drift, (distance / scale) ** 0.5)


def _share_in_sketches(relative: float) -> float:
    """Of an update, how much may be noise in the sum of many elements.

    About 10 * relative of the elements have a gradient that rounding hides; each may be off by twice its update. In a
    sum with random signs that adds up to the root of their share. A factor of 4 covers the largest of 512 such sums.
    """
    return float(min(1.0, 4 * 2 * (10 * relative) ** 0.5))


def largest(*many: ByName) -> float:
    """The largest element of all that is finite."""
    most = 0.0
    for by_name in many:
        for values in by_name.values():
            finite = np.abs(values[np.isfinite(values)])
            most = max(most, float(finite.max(initial=0.0)))
    return most
