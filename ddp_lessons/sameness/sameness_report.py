"""What `same_as_one` says: the same training or not, where the runs part, why, and what to do."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ddp_lessons.run.diagnosis.wording import listed, number_of_ranks
from ddp_lessons.run.output.cards import Kind, framed, in_words, lines_of_text, mark
from ddp_lessons.run.output.terminal_text import message_on_terminal
from ddp_lessons.sameness.evidence import Evidence, Finding
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
from ddp_lessons.sameness.gradient_causes import gradient_cause
from ddp_lessons.sameness.rounding_limits import largest
from ddp_lessons.sameness.run_records import Run
from ddp_lessons.sameness.sample_causes import SAMPLE_KEYS, sample_cause
from ddp_lessons.sameness.update_causes import buffers_cause, steps_cause, update_cause, weights_cause

UNKNOWN = "unknown"
_WITHOUT_FIT = ("batch_norm", "random_forward", "other_loss")  # their gradients fit no sum of the ranks' own
_WHAT = {BEFORE: "the weights", GRADIENTS: "the gradients", AFTER: "the weights", BUFFERS: "the buffers"}


@dataclass(frozen=True, repr=False)
class SamenessReport:
    """The outcome of `same_as_one`. It shows itself as the last line of a cell.

    `same` is None where it could not tell. `cause` is a short key, "" if nothing differs and "unknown" if none fits.
    """

    same: bool | None
    lines: tuple[str, ...]
    cause: str = ""
    world_size: int = 0  # where the difference was found; with the next three, it says where the runs part
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
        """The distance from the run on one rank, step by step; of the gradients and of the parameters.

        None where nothing could be compared.
        """
        if not self.gradients:
            return None
        from ddp_lessons.show.charts.distances import distance

        curves = {f"gradients, {name}": numbers for name, numbers in self.gradients.items()}
        curves |= {f"weights, {name}": numbers for name, numbers in self.parameters.items()}
        title = "Distance from the training on one rank"
        if self.step is not None:
            title += f": the first difference is at step {self.step}"
        return distance(curves, limit=self.limit, title=title, what="values, relative")

    def _repr_html_(self) -> str:
        first, *rest = self.lines
        return framed(
            f"<p>{mark(self._kind)}<strong>{in_words(first)}</strong></p>{''.join(lines_of_text(rest))}", self._kind
        )

    def __repr__(self) -> str:
        """On a terminal in color; `text` is plain everywhere."""
        return message_on_terminal(self.text, self._kind)


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
    where = f"step {report.step} on {number_of_ranks(report.world_size)}"
    return replace(again, lines=(*again.lines, _ROUNDING.format(where=where)))


_NO_FLOAT64 = "In float64 it can't be run, so a ReLU or max pooling that rounding sends the other way is not ruled out."
_ROUNDING = (
    "This is in float64. As it is, the training parts at {where} within float32 rounding, which sends a ReLU or max "
    "pooling the other way."
)


def report_of(runs: Sequence[Run], random: Sequence[str] = ()) -> SamenessReport:
    """Compare the first run, on one rank, with each of the others."""
    one, *others = runs
    compared: list[Comparison] = []
    try:
        compared += [compare(one, many) for many in others]
    except CannotCompare as reason:
        return could_not_tell(str(reason), reason.advice)
    curves: dict[str, Any] = {
        "gradients": {number_of_ranks(each.many.world_size): each.gradients for each in compared if each.gradients},
        "parameters": {number_of_ranks(each.many.world_size): each.parameters for each in compared if each.parameters},
        "limit": max([each.gradient_share for each in compared] + [1e-16]),
    }
    first = next((each for each in compared if each.difference is not None), None)
    if first is None or first.difference is None:
        if nothing := next((told for each in compared if (told := _shows_nothing(each))), None):
            return could_not_tell(*nothing)
        return SamenessReport(True, tuple(_same(one, compared, random)), **curves)
    difference, finding = first.difference, find_cause(first, first.difference)
    return SamenessReport(
        False,
        tuple(_not_same(first, difference, finding, compared)),
        finding.key,
        first.many.world_size,
        difference.step,
        difference.rank,
        difference.parameter,
        **curves,
    )


def find_cause(comparison: Comparison, difference: Difference) -> Finding:
    return _cause(comparison, difference) or Finding(
        UNKNOWN,
        "The numbers fit none of the causes that this comparison knows.",
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


def could_not_tell(reason: str, advice: str) -> SamenessReport:
    return SamenessReport(None, (f"Could not tell whether it is the same training: {reason}.", f"Next: {advice}"))


def _shows_nothing(comparison: Comparison) -> tuple[str, str] | None:
    """Why gradients that agree say nothing of how the data is shared, and what to do."""
    evidence = [Evidence(comparison, Difference(GRADIENTS, step, 0)) for step in range(len(comparison.gradients))]
    if not any(largest(at.base, *at.ranks) for at in evidence):
        return "every gradient is zero", "look for a loss that does not depend on the parameters, or a detach()."
    samples = [comparison.many.samples(at.step) for at in evidence]
    are_others = [any(part != parts[0] for part in parts) for parts in samples]
    if not any(are_others):
        return None
    if not all(at.local[0] and at.local_agree() for at, other in zip(evidence, are_others, strict=True) if other):
        return None
    return (
        "the gradients do not depend on the samples, so a wrong split of the data would not show",
        "compare with the loss that you train with, and with data that differs from sample to sample.",
    )


def _same(one: Run, compared: Sequence[Comparison], random: Sequence[str]) -> list[str]:
    sizes = listed([1, *(each.many.world_size for each in compared)])
    within = max((number for each in compared for number in each.gradients), default=0.0)
    steps, watched = one.steps[0], min(each.many.watched for each in compared)
    compared_steps = _number(steps, "step") if watched >= steps else f"the first {watched} of {steps:,} steps"
    lines = [f"The same training on {sizes} ranks: {compared_steps}, gradients within {within:.0e}."]
    if watched < steps:
        lines.append("In later steps only samples and optimizer settings were compared.")
        lines.append("To compare more steps in full, raise `steps` (`--steps`).")
    if "dropout" in random:
        lines.append("Dropout was switched off for the comparison.")
    if "augmentation" in random:
        lines.append("The inputs are random: samples were only counted, and the ranks compared with each other.")
    if any(_is_processed_by_all(each) for each in compared):
        lines.append("Every rank processes every sample, so the ranks share no work.")
    elif any(each.other_samples_at is not None for each in compared):
        lines.append("The inputs are split or arranged differently than on one rank, but the gradients agree.")
    return lines


def _is_processed_by_all(comparison: Comparison) -> bool:
    whole = comparison.one.samples(0)[0]
    return bool(whole) and all(part == whole for part in comparison.many.samples(0))


def _not_same(first: Comparison, difference: Difference, finding: Finding, compared: Sequence[Comparison]) -> list[str]:
    ranks = number_of_ranks(first.many.world_size)
    lines = [f"Not the same training: on {ranks} {_headline(first, difference, finding)}"]
    if difference.parameter:
        where = f"rank {difference.rank}   step {difference.step}, {_thing(difference)}"
        lines.append(
            f"  {where}: off by {difference.size:.2g} (limit {difference.limit:.0e}, largest {difference.scale:.2g})"
        )
    if finding.key in SAMPLE_KEYS:
        lines += [f"  rank {rank}   {told}" for rank, told in _samples_by_rank(first, difference)]
    others = [each.many.world_size for each in compared if each.difference is not None and each is not first]
    same = [each.many.world_size for each in compared if each.difference is None]
    if others:
        lines.append(f"On {_ranks(others)} it is not the same, either.")
    if same:
        lines.append(f"On {_ranks(same)} it is the same.")
    return [*lines, f"Cause: {finding.because}", f"Next: {finding.advice}"]


def _ranks(sizes: Sequence[int]) -> str:
    return number_of_ranks(sizes[0]) if len(sizes) == 1 else f"{listed(sizes)} ranks"


def _headline(comparison: Comparison, difference: Difference, finding: Finding) -> str:
    step = difference.step
    if difference.what == STEPS:
        told = f"{_counted(comparison.many.steps)}; one rank: {comparison.one.steps[0]}"
        return f"the number of optimizer steps differs ({told})."
    if difference.what == BEFORE and step == 0:
        return "the initial weights differ."
    if difference.what == AFTER and not difference.parameter:
        return f"the settings of the optimizer differ at step {step}."
    at = comparison.other_samples_at
    if difference.what == SAMPLES or (difference.what == GRADIENTS and at is not None and finding.key in SAMPLE_KEYS):
        return f"different samples enter the model in step {step if at is None else at}."
    when = {BEFORE: "before", GRADIENTS: "at", AFTER: "after", BUFFERS: "after"}[difference.what]
    return f"{_WHAT[difference.what]} differ {when} step {step}."


def _thing(difference: Difference) -> str:
    of = "gradient of " if difference.what == GRADIENTS else "buffer " if difference.what == BUFFERS else ""
    return f"{of}`{difference.parameter}`"


def _samples_by_rank(comparison: Comparison, difference: Difference) -> list[tuple[int, str]]:
    at = comparison.other_samples_at
    if at is None or at > difference.step or difference.what not in (GRADIENTS, SAMPLES, STEPS):
        return []
    whole, parts = comparison.one.samples(at)[0], comparison.many.samples(at)
    among = f"of them among the {whole.total()} of one rank"
    told = [f"{_number(part.total(), 'sample')}, {(part & whole).total()} {among}" for part in parts]
    return list(enumerate(told))


def _counted(steps: Sequence[int]) -> str:
    return str(steps[0]) if len(set(steps)) == 1 else ", ".join(f"rank {rank}: {one}" for rank, one in enumerate(steps))


def _number(number: int, word: str) -> str:
    return f"{number:,} {word}{'s' * (number != 1)}"
