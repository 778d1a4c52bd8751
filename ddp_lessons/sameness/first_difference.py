"""Where do two training runs diverge? They are compared step by step; the first difference counts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

from ddp_lessons.run.diagnosis.wording import count
from ddp_lessons.sameness.rounding_limits import Limits, largest
from ddp_lessons.sameness.run_records import Array, ByName, Run

# in the order in which they are compared within a step
BEFORE, GRADIENTS, AFTER, BUFFERS, STEPS, SAMPLES = "before", "gradients", "after", "buffers", "steps", "samples"


class CannotCompare(ValueError):
    """The two runs have nothing in common that could be compared: why, and what to do."""

    def __init__(self, reason: str, advice: str) -> None:
        super().__init__(reason)
        self.advice = advice


@dataclass(frozen=True)
class Difference:
    """The first value that is not the same: `size` is its largest difference, by more than the `limit`."""

    what: str  # BEFORE, GRADIENTS, AFTER, BUFFERS, STEPS or SAMPLES
    step: int
    rank: int
    parameter: str = ""
    size: float = 0.0
    limit: float = 0.0
    scale: float = 0.0  # the largest element of it on one rank


@dataclass
class Comparison:
    """Two runs, one next to the other."""

    one: Run
    many: Run
    difference: Difference | None = None
    other_samples_at: int | None = None  # the first step for which other samples entered the model
    gradients: list[float] = field(default_factory=list)  # by step, the largest difference of the scale
    parameters: list[float] = field(default_factory=list)
    limits: Limits = field(default_factory=Limits)
    gradient_limit: float = 0.0  # at the first difference
    gradient_share: float = 0.0  # the largest allowed difference of the scale, of all steps


def compare(one: Run, many: Run) -> Comparison:
    """Compare a run on several ranks with that on one."""
    found = Comparison(one, many)
    if without := [run.world_size for run in (one, many) if not max(run.steps)]:
        raise CannotCompare(
            f"no optimizer from torch.optim took a step on {count(without[0], 'rank')}, so there is nothing to compare",
            "call step() on an optimizer from torch.optim; updates that you make by hand are not recorded.",
        )
    steps, watched = {*one.steps, *many.steps}, min(one.watched, many.watched)
    have_others = (step for step in range(max(steps)) if _have_other_samples(one, many, step))
    found.other_samples_at = next(have_others, None)
    for step in range(watched):
        _look_at(found, step)
    if found.difference is None:
        found.difference = _other_settings(found, range(watched, min(steps)))  # of later steps they are kept
    if found.difference is None and len(steps) > 1:
        odd = next(rank for rank, number in enumerate(many.steps) if number != one.steps[0])
        found.difference = Difference(STEPS, min(steps), odd)
    if found.difference is None and (found.other_samples_at or 0) >= watched:
        found.difference = Difference(SAMPLES, found.other_samples_at or 0, 0)
    return found


def _have_other_samples(one: Run, many: Run, step: int) -> bool:
    whole, parts = one.samples(step)[0], sum(many.samples(step), Counter())
    if one.ranks[0].numbers_only:
        return whole.total() != parts.total()
    return whole != parts and bool(one.all_samples) and bool(many.all_samples)


def _look_at(found: Comparison, step: int) -> None:
    """Compare one step; after the first difference, only note how far the runs are apart."""
    one, many, limits = found.one, found.many, found.limits
    base = {what: one.values(what, step)[0] for what in (BEFORE, GRADIENTS, AFTER, BUFFERS)}
    ranks = {what: many.values(what, step) for what in (BEFORE, GRADIENTS, AFTER, BUFFERS)}
    _require_the_same_parameters(base[BEFORE], ranks[BEFORE])
    if one.ranks[0].numbers_only:  # the inputs are random: then the ranks can only be compared with each other
        base = {what: by_rank[0] for what, by_rank in ranks.items()} | ({BEFORE: base[BEFORE]} if step == 0 else {})
    found.gradients.append(_distance(base[GRADIENTS], ranks[GRADIENTS]))
    found.parameters.append(_distance(base[AFTER], ranks[AFTER]))
    if found.difference is not None:
        return
    record, samples = one.at(step)[0], one.samples(step)[0].total()
    limit = limits.gradient(record, samples, base[GRADIENTS], *ranks[GRADIENTS])
    found.gradient_limit = limit
    found.gradient_share = max(found.gradient_share, limit / (largest(base[GRADIENTS], *ranks[GRADIENTS]) or 1.0))
    found.difference = _first(found, step, BEFORE, base, ranks) or _first(found, step, GRADIENTS, base, ranks)
    if found.difference is None:
        first = {what: by_rank[0] for what, by_rank in ranks.items()}
        in_sketches = any(piece.is_sketch for piece in record.before.values())
        limits.note_step(limit, base, first, in_sketches)
        found.difference = _first(found, step, AFTER, base, ranks) or _first(found, step, BUFFERS, base, ranks)
        if found.difference is None and in_sketches:
            found.difference = _other_settings(found, [step])


def _first(
    found: Comparison, step: int, what: str, base: dict[str, ByName], ranks: dict[str, list[ByName]]
) -> Difference | None:
    """Of all ranks and parameters that differ in this, the one that is farthest beyond its limit."""
    worst: tuple[float, Difference | None] = 1.0, None
    for rank, by_name in enumerate(ranks[what]):
        for name in sorted(base[what].keys() | by_name.keys()):
            mine, theirs = base[what].get(name), by_name.get(name)
            if what == GRADIENTS and (mine is None or theirs is None):  # a gradient that is not there counts as zeros
                mine, theirs = (
                    np.zeros_like(mine if theirs is None else theirs) if one is None else one for one in (mine, theirs)
                )
            if mine is None or theirs is None or mine.shape != theirs.shape or not mine.size:
                continue
            distances = apart(mine, theirs)
            allowed = np.broadcast_to(_allowed(found, step, what, name, mine), distances.shape)
            at = int(np.argmax(distances / allowed))
            if distances[at] / allowed[at] > worst[0]:
                scale = float(np.abs(mine).max())
                difference = Difference(what, step, rank, name, float(distances.max()), float(allowed[at]), scale)
                worst = distances[at] / allowed[at], difference
    return worst[1]


def _other_settings(found: Comparison, steps: Iterable[int]) -> Difference | None:
    """Of the optimizers: a small one, such as the weight decay, does not show in the sketches of one step."""
    for step in steps:
        base = found.one.at(step)[0].settings
        for rank, record in enumerate(found.many.at(step)):
            if any(not np.isclose(base[name], record.settings[name]) for name in base.keys() & record.settings.keys()):
                return Difference(AFTER, step, rank)
    return None


def _allowed(found: Comparison, step: int, what: str, name: str, values: Array) -> Array | float:
    record, samples = found.one.at(step)[0], found.one.samples(step)[0].total()
    if what == GRADIENTS:
        return found.gradient_limit
    if what == BUFFERS:
        return found.limits.buffer(record, samples, values)
    return found.limits.parameter(name, record.eps, values)


def apart(mine: Array, theirs: Array) -> Array:
    """Element by element; where only one of the two is no number, that is infinitely far."""
    with np.errstate(invalid="ignore"):
        distance: Array = np.abs(mine - theirs)
    distance[(mine == theirs) | (np.isnan(mine) & np.isnan(theirs))] = 0.0
    distance[np.isnan(distance)] = np.inf
    return distance


def _distance(base: ByName, ranks: list[ByName]) -> float:
    """The largest difference of any rank, as a part of the largest element."""
    most = max(
        (
            float(apart(base[name], by_name[name]).max(initial=0.0))
            for by_name in ranks
            for name in base.keys() & by_name.keys()
            if base[name].shape == by_name[name].shape
        ),
        default=0.0,
    )
    return most / (largest(base, *ranks) or 1.0)


def _require_the_same_parameters(base: ByName, ranks: list[ByName]) -> None:
    """Each parameter of one rank must be on some rank, with this name and shape."""
    theirs = {(name, values.shape) for by_name in ranks for name, values in by_name.items()}
    missing = sorted(name for name, values in base.items() if (name, values.shape) not in theirs)
    if not missing:
        return
    names = sorted({name for name, _ in theirs})
    raise CannotCompare(
        f"{len(missing)} of {len(base)} parameters on one rank (such as {missing[0]}) have no counterpart of the "
        f"same name and shape on {count(len(ranks), 'rank')}, whose parameters are "
        f"{', '.join(names[:3])}{', ...' * (len(names) > 3)}",
        "give the model the same parameters for every number of ranks.",
    )
