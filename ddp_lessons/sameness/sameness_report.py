"""What `same_as_one` says: the same training or not, where the runs diverge, why, and what to do."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ddp_lessons.run.diagnosis.wording import count, listed
from ddp_lessons.run.output.cards import Kind, framed, in_words, lines_of_text, mark
from ddp_lessons.run.output.terminal_text import message_on_terminal
from ddp_lessons.sameness.causes import cause_of
from ddp_lessons.sameness.first_difference import (
    AFTER,
    BEFORE,
    BUFFERS,
    GRADIENTS,
    SAMPLES,
    STEPS,
    CannotCompare,
    Comparison,
    Difference,
    compare,
)
from ddp_lessons.sameness.gradient_causes import StepGradients
from ddp_lessons.sameness.rounding_limits import largest
from ddp_lessons.sameness.run_records import Run


@dataclass(frozen=True, repr=False)
class SamenessReport:
    """The outcome of `same_as_one`. It displays itself as the last line of a cell.

    `same` is None if it could not tell. `cause` is a short key: "" if nothing differs, "unknown" if no known cause
    fits.
    """

    same: bool | None
    lines: tuple[str, ...]
    cause: str = ""
    world_size: int = 0  # where the difference was found; with the next three, it says where the runs diverge
    step: int | None = None
    rank: int | None = None
    parameter: str = ""
    gradients: dict[str, list[float]] = field(default_factory=dict)  # by run, the relative distance at each step
    parameters: dict[str, list[float]] = field(default_factory=dict)
    limit: float = 1e-6  # of the gradients' distance

    @property
    def text(self) -> str:
        return "\n".join(self.lines)

    @property
    def _kind(self) -> Kind:
        return "open" if self.same is None else "passed" if self.same else "wrong"

    @property
    def picture(self) -> Any:
        """The distance of the gradients and of the parameters from the run on one rank, step by step.

        None where nothing could be compared.
        """
        title = "Distance from the training on one rank"
        return self.drawn(title if self.step is None else f"{title}: the first difference is at step {self.step}")

    def drawn(self, title: str) -> Any:
        if not self.gradients:
            return None
        from ddp_lessons.show.charts.distances import distance

        curves = {f"gradients, {name}": numbers for name, numbers in self.gradients.items()}
        curves |= {f"weights, {name}": numbers for name, numbers in self.parameters.items()}
        return distance(curves, limit=float(f"{self.limit:.0e}"), title=title, what="values, relative")

    def _repr_html_(self) -> str:
        first, *rest = self.lines
        return framed(
            f"<p>{mark(self._kind)}<strong>{in_words(first)}</strong></p>{''.join(lines_of_text(rest))}", self._kind
        )

    def __repr__(self) -> str:
        """On a terminal in color; `text` is plain everywhere."""
        return message_on_terminal(self.text, self._kind)


NOT_SHARED = "Every rank processes every sample, so the ranks share no work."
_NO_FLOAT64 = "The runs fail in float64, so the cause may be rounding alone, which can flip a ReLU or max pooling."
_ROUNDING = (
    "This holds in float64. In float32, the runs diverge at step {step} on {ranks}, because rounding flips a ReLU or "
    "max pooling."
)


def judged(
    run: Callable[[int, bool], Run], sizes: Sequence[int], random: Sequence[str], is_in_float64: bool
) -> SamenessReport:
    """`run` gives the training on so many ranks, in float64 or as it is.

    A ReLU or max pooling turns the smallest difference into a large one, so what differs is looked at in float64, too.
    """
    report = report_of([run(size, is_in_float64) for size in sizes], random)
    if report.same is not False or is_in_float64 or not report.parameter:
        return report
    try:
        again = report_of([run(size, True) for size in sizes], random)
    except RuntimeError:
        return replace(report, lines=(*report.lines[:-1], _NO_FLOAT64, report.lines[-1]))
    if not again.same:
        return report
    rounding = _ROUNDING.format(step=report.step, ranks=count(report.world_size, "rank"))
    return replace(again, lines=(*again.lines, rounding))


def report_of(runs: Sequence[Run], random: Sequence[str] = ()) -> SamenessReport:
    """Compare the first run, on one rank, with each of the others."""
    one, *others = runs
    try:
        compared = [compare(one, many) for many in others]
    except CannotCompare as reason:
        return could_not_tell(str(reason), reason.advice)
    first = next((each for each in compared if each.difference is not None), None)
    if first is None or first.difference is None:
        if nothing := next((told for each in compared if (told := _shows_nothing(each))), None):
            return could_not_tell(*nothing)
        report = SamenessReport(True, _same(one, compared, random))
    else:
        report = _not_same(first, first.difference, compared)
    names = [count(each.many.world_size, "rank") for each in compared]
    return replace(
        report,
        gradients={name: each.gradients for name, each in zip(names, compared, strict=True) if each.gradients},
        parameters={name: each.parameters for name, each in zip(names, compared, strict=True) if each.parameters},
        limit=max([each.gradient_share for each in compared] + [1e-16]),
    )


def could_not_tell(reason: str, advice: str) -> SamenessReport:
    return SamenessReport(None, (f"Could not tell whether it is the same training: {reason}.", f"Next: {advice}"))


def _shows_nothing(comparison: Comparison) -> tuple[str, str] | None:
    """Why gradients that agree say nothing of how the data is shared, and what to do."""
    gradients = [StepGradients(comparison, step) for step in range(len(comparison.gradients))]
    if not any(largest(at.base, *at.ranks) for at in gradients):
        return "every gradient is zero", "look for a loss that does not depend on the parameters, or a detach()."
    samples = [comparison.many.samples(at.step) for at in gradients]
    of_other_samples = [
        at for at, parts in zip(gradients, samples, strict=True) if any(part != parts[0] for part in parts)
    ]
    if not of_other_samples or not all(at.own_agree() for at in of_other_samples):
        return None
    return (
        "the gradients do not depend on the samples, so a wrong split of the data would not show",
        "compare with the loss that you train with, and with samples that differ from each other.",
    )


def _same(one: Run, compared: Sequence[Comparison], random: Sequence[str]) -> tuple[str, ...]:
    sizes = listed([1, *(each.many.world_size for each in compared)])
    within = max((number for each in compared for number in each.gradients), default=0.0)
    steps, watched = one.steps[0], min(each.many.watched for each in compared)
    in_full = count(steps, "step") if watched >= steps else f"the first {watched} of {steps:,} steps"
    whole = one.samples(0)[0]
    at_first = [each.many.samples(0) for each in compared if each.many.world_size > 1]
    is_by_all = bool(whole) and any(all(part == whole for part in parts) for parts in at_first)
    is_split_otherwise = not is_by_all and any(each.other_samples_at is not None for each in compared)
    notes = {
        "In later steps, only samples and optimizer settings were compared.": watched < steps,
        "To compare more steps in full, raise `steps` (`--steps`).": watched < steps,
        "Dropout was switched off for the comparison.": "dropout" in random,
        "The inputs are random, so samples were only counted, and the ranks were compared with each other.": (
            "augmentation" in random
        ),
        NOT_SHARED: is_by_all,
        "The inputs are split or arranged differently from one rank's, but the gradients agree.": is_split_otherwise,
    }
    first = f"The same training on {sizes} ranks: {in_full}, gradients within {within:.0e}."
    return first, *(note for note, holds in notes.items() if holds)


def _not_same(first: Comparison, difference: Difference, compared: Sequence[Comparison]) -> SamenessReport:
    cause, is_of_samples = cause_of(first, difference)
    ranks = first.many.world_size
    lines = [f"Not the same training: on {count(ranks, 'rank')}, {_headline(first, difference, is_of_samples)}"]
    if difference.parameter:
        of = {GRADIENTS: "gradient of ", BUFFERS: "buffer "}.get(difference.what, "")
        lines.append(
            f"  rank {difference.rank}   step {difference.step}, {of}`{difference.parameter}`: off by "
            f"{difference.size:.2g} (limit {difference.limit:.0e}, largest value {difference.scale:.2g})"
        )
    if is_of_samples and first.other_samples_at is not None:
        whole, parts = first.one.samples(first.other_samples_at)[0], first.many.samples(first.other_samples_at)
        for rank, part in enumerate(parts):
            told = f"{count(part.total(), 'sample')}, {(part & whole).total()} of them"
            lines.append(f"  rank {rank}   {told} among the {whole.total()} of one rank")
    for is_same, told in ((False, "not the same, either"), (True, "the same")):
        sizes = [
            each.many.world_size for each in compared if each is not first and (each.difference is None) == is_same
        ]
        if sizes:
            named = count(sizes[0], "rank") if len(sizes) == 1 else f"{listed(sizes)} ranks"
            lines.append(f"On {named}, it is {told}.")
    lines += [f"Cause: {cause.because}", f"Next: {cause.advice}"]
    where = (ranks, difference.step, difference.rank, difference.parameter)
    return SamenessReport(False, tuple(lines), cause.key, *where)


def _headline(comparison: Comparison, difference: Difference, is_of_samples: bool) -> str:
    step, what = difference.step, difference.what
    if what == STEPS:
        steps = comparison.many.steps
        told = steps[0] if len(set(steps)) == 1 else ", ".join(f"rank {rank}: {one}" for rank, one in enumerate(steps))
        return f"the number of optimizer steps differs ({told}; one rank: {comparison.one.steps[0]})."
    if what == BEFORE and step == 0:
        return "the initial weights differ."
    if what == AFTER and not difference.parameter:
        return f"the optimizer settings differ at step {step}."
    if what == SAMPLES or is_of_samples:
        at = comparison.other_samples_at
        return f"different samples enter the model in step {step if at is None else at}."
    where = {BEFORE: "weights differ before", GRADIENTS: "gradients differ at", AFTER: "weights differ after"}
    return f"the {where.get(what, 'buffers differ after')} step {step}."
