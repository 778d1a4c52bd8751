"""`check.diagnosis` says of rank, line and rule whether each is right, and of what is not, where to look."""

from __future__ import annotations

import re
from typing import Any

import pytest

from ddp_lessons import check, clinic
from ddp_lessons.clinic.clinic_cases import CASES, RULES, Case

EACH = pytest.mark.parametrize("one", CASES.values(), ids=lambda one: f"case {one.number}")


@pytest.mark.no_second_try
@EACH
def test_the_right_diagnosis_passes_and_shows_why_and_the_repair(one: Case) -> None:
    for line in one.lines:
        report = check.diagnosis(one.number, rank=one.rank, line=line, rule=one.rule)
        assert report.passed
        assert one.why in report.text
        assert all(new.split("\n")[0].strip() in report.text for new in one.repair.values())


@pytest.mark.no_second_try
@EACH
def test_each_wrong_part_gets_its_own_sentence_and_the_others_are_right(one: Case) -> None:
    right = {"rank": one.rank, "line": one.lines[0], "rule": one.rule}
    wrong: list[tuple[str, object, str]] = [
        ("rank", rank, f"rank={rank}: not this one\n      {one.other_ranks}\n")
        for rank in set(range(one.world_size)) - {one.rank}
    ]
    wrong += [
        ("line", line, one.hints.get(line, "Start with the line at which most ranks wait or fail."))
        for line in set(range(1, len(one.program) + 1)) - set(one.lines)
    ]
    wrong += [
        ("rule", rule, one.other_rules.get(rule, f"This rule says that {RULES[rule]}."))
        for rule in set(RULES) - {one.rule}
    ]
    for name, value, sentence in wrong:
        report = check.diagnosis(one.number, **right | {name: value})
        assert (report.verdict, report.text.count(": right")) == ("not right yet", 2)
        assert sentence in report.text


@EACH
def test_a_sentence_about_a_wrong_answer_does_not_tell_the_right_one(one: Case) -> None:
    for said in (one.other_ranks, *one.hints.values(), *one.other_rules.values()):
        assert one.rule not in said
        assert not set(map(int, re.findall(r"line (\d+)", said))) & set(one.lines)
    assert not re.search(rf"\brank {one.rank}\b", one.other_ranks)


@EACH
def test_hints_and_repairs_are_about_lines_that_there_are(one: Case) -> None:
    assert set(one.hints) | set(one.lines) | set(one.repair) <= set(range(1, len(one.program) + 1))
    assert not set(one.hints) & set(one.lines)
    assert set(one.other_rules) <= set(RULES) - {one.rule}
    assert all(one.program[line - 1].strip() for line in {*one.hints, *one.lines})


def test_the_cases_have_different_rules() -> None:
    assert list(CASES) == [1, 2, 3, 4, 5, 6]
    assert len({one.rule for one in CASES.values()}) == len(CASES)


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ({}, ""),
        ({"rank": 0, "line": 23, "rule": "deadlock"}, "There is no rule 'deadlock'."),
    ],
)
def test_without_a_rule_that_there_is_the_rules_are_listed_and_it_is_no_try(answer: dict[str, Any], said: str) -> None:
    report = check.diagnosis(2, **answer)
    assert not report.is_a_try
    assert said in report.text
    assert all(name in report.text and what in report.text for name, what in RULES.items())


@pytest.mark.parametrize(
    ("answer", "lines"),
    [
        ({"rank": 2}, ("rank=2: right", "line=None: not given yet", "rule='': not given yet")),
        ({"rank": 3}, ("rank=3: the job has ranks 0 to 2", "line=None: not given yet", "rule='': not given yet")),
        ({"line": 0}, ("rank=None: not given yet", "line=0: train.py has lines 1 to 30", "rule='': not given yet")),
        ({"line": "11"}, ("rank=None: not given yet", "line=11: train.py has lines 1 to 30", "rule='': not given yet")),
    ],
)
def test_parts_may_be_given_one_after_the_other_within_their_limits(answer: dict[str, Any], lines: list[str]) -> None:
    assert check.diagnosis(1, **answer).details == tuple(f"    {line}" for line in lines)


@pytest.mark.parametrize("number", [0, 7, "1"])
def test_a_case_that_there_is_not_is_refused(number: int) -> None:
    for ask in (check.diagnosis, clinic.case):
        with pytest.raises(ValueError, match=f"no case {number!r}: choose a number from 1 to 6"):
            ask(number)
