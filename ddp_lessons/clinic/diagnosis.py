"""`check.diagnosis`: is it the right rank, line and rule? Each gets its own sentence."""

from __future__ import annotations

from collections.abc import Iterator

from ddp_lessons.check.report import Report, not_right
from ddp_lessons.clinic.clinic_cases import RULES, Case, case_of, folder_of, how_to_answer

_RIGHT = "right"


def diagnosis(number: int, rank: int | None = None, line: int | None = None, rule: str = "") -> Report:
    """Judge the diagnosis of a case of the clinic.

    Args:
        number: of the case, as in `clinic.case(1)`.
        rank: the rank that caused the failure.
        line: the line of its train.py that must change, or where the rank was.
        rule: what the rank did, as one of the names that are listed when it is left out.

    Raises:
        ValueError: there is no case with this number.
    """
    one, name = case_of(number), f"diagnosis({number})"
    if rank is None and line is None and not rule:
        return Report(name, False, "which rank, line and rule?", "", tuple(_rules(number)))
    if rule and rule not in RULES:
        said = f"There is no rule {rule!r}. Choose one of these names."
        return Report(name, False, "which rule?", said, tuple(_rules(number)))
    found = {
        f"rank={rank}": _of_rank(one, rank),
        f"line={line}": _of_line(one, number, line),
        f"rule={rule!r}": _of_rule(one, rule),
    }
    if all(said == _RIGHT for said in found.values()):
        repair = [f"  Repair of line {place}:" for place in one.repair]
        texts = [[f"    {text}" for text in new.split("\n")] for new in one.repair.values()]
        lines = [text for pair in zip(repair, texts, strict=True) for text in (pair[0], *pair[1])]
        return Report(name, True, "passed", one.why, tuple(lines))
    return not_right(name, "", [line for what, said in found.items() for line in f"    {what}: {said}".split("\n")])


def _rules(number: int) -> Iterator[str]:
    width = max(map(len, RULES)) + 2
    yield from (f"    {name!r:{width}}   {what}" for name, what in RULES.items())
    yield f"  {how_to_answer(number)}"


def _of_rank(one: Case, rank: int | None) -> str:
    if rank is None:
        return "not given yet"
    if isinstance(rank, bool) or not isinstance(rank, int) or not 0 <= rank < one.world_size:
        return f"the job has ranks 0 to {one.world_size - 1}"
    return _RIGHT if rank == one.rank else f"not this one\n      {one.other_ranks}"


def _of_line(one: Case, number: int, line: int | None) -> str:
    if line is None:
        return "not given yet"
    length = len((folder_of(number) / "train.py.txt").read_text(encoding="utf-8").splitlines())
    if isinstance(line, bool) or not isinstance(line, int) or not 1 <= line <= length:
        return f"train.py has lines 1 to {length}"
    if line in one.lines:
        return _RIGHT
    start = "Begin with the line in which most ranks wait or fail. Which rank is not there, and where is it instead?"
    return f"not this one\n      {one.hints.get(line, start)}"


def _of_rule(one: Case, rule: str) -> str:
    if not rule:
        return "not given yet"
    if rule == one.rule:
        return _RIGHT
    start = f"It would mean: {RULES[rule]}. Which file of the case shows that?"
    return f"not this one\n      {one.other_rules.get(rule, start)}"
