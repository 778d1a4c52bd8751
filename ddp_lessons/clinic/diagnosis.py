"""`check.diagnosis`: are the rank, line and rule correct? Each gets its own sentence."""

from __future__ import annotations

from collections.abc import Collection

from ddp_lessons.check.report import Report, not_right
from ddp_lessons.clinic.clinic_cases import RULES, Case, case_of

_RIGHT = "right"
_ANY_LINE = "Begin with the line in which most ranks wait or fail. Which rank is not there, and where is it instead?"
_ANY_RULE = "It would mean: {}. Which file of the case shows that?"


def diagnosis(number: int, rank: int | None = None, line: int | None = None, rule: str = "") -> Report:
    """Check your diagnosis of one of the clinic's cases.

    Args:
        number: the number of the case, as in `clinic.case(1)`.
        rank: the rank that caused the failure.
        line: the line of its train.py that must change, or where the rank was.
        rule: what the rank did: one of the names that are listed if you leave it out.

    Raises:
        ValueError: there is no case with this number.
    """
    one, name = case_of(number), f"diagnosis({number})"
    if rank is None and line is None and not rule:
        return Report(name, False, "which rank, line and rule?", "", _rules(one))
    if rule and rule not in RULES:
        said = f"There is no rule {rule!r}. Choose one of these names."
        return Report(name, False, "which rule?", said, _rules(one))
    ranks, length = one.world_size, len(one.program)
    of_rule = one.other_rules.get(rule) or _ANY_RULE.format(RULES.get(rule))
    found = {
        f"rank={rank}": _said(rank, [one.rank], range(ranks), f"the job has ranks 0 to {ranks - 1}", one.other_ranks),
        f"line={line}": _said(
            line,
            one.lines,
            range(1, length + 1),
            f"train.py has lines 1 to {length}",
            one.hints.get(line or 0, _ANY_LINE),
        ),
        f"rule={rule!r}": _said(rule or None, [one.rule], RULES, "", of_rule),
    }
    if all(said == _RIGHT for said in found.values()):
        return Report(name, True, "passed", one.why, _repair(one))
    return not_right(name, "", [line for what, said in found.items() for line in f"    {what}: {said}".split("\n")])


def _said(
    answer: int | str | None, right: Collection[int | str], possible: Collection[int | str], limits: str, hint: str
) -> str:
    if answer is None:
        return "not given yet"
    if answer not in possible:
        return limits
    return _RIGHT if answer in right else f"not this one\n      {hint}"


def _rules(one: Case) -> tuple[str, ...]:
    width = max(map(len, RULES)) + 2
    return (*(f"    {name!r:{width}}   {what}" for name, what in RULES.items()), f"  {one.how_to_answer}")


def _repair(one: Case) -> tuple[str, ...]:
    lines: list[str] = []
    for place, new in one.repair.items():
        lines += [f"  Repair of line {place}:", *(f"    {text}" for text in new.split("\n"))]
    return tuple(lines)
