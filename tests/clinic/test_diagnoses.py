"""`check.diagnosis` says of rank, line and rule whether each is right, and of what is not, where to look."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from ddp_lessons import check, clinic
from ddp_lessons.clinic import diagnosis
from ddp_lessons.clinic.clinic_cases import CASES, RULES, Case, folder_of

NUMBERS = pytest.mark.parametrize("number", range(1, len(CASES) + 1))


def text_of(number: int) -> list[str]:
    return (folder_of(number) / "train.py.txt").read_text(encoding="utf-8").splitlines()


@pytest.mark.no_second_try
@NUMBERS
def test_the_right_diagnosis_passes_and_shows_why_and_the_repair(number: int) -> None:
    one = CASES[number - 1]
    for line in one.lines:
        report = check.diagnosis(number, rank=one.rank, line=line, rule=one.rule)
        assert report.passed
        assert one.why in report.text
        assert all(new.split("\n")[0].strip() in report.text for new in one.repair.values())


@pytest.mark.no_second_try
@NUMBERS
def test_each_wrong_part_gets_its_own_sentence_and_the_others_are_right(number: int) -> None:
    one = CASES[number - 1]
    for rank in set(range(one.world_size)) - {one.rank}:
        wrong_rank = check.diagnosis(number, rank=rank, line=one.lines[0], rule=one.rule)
        assert f"rank={rank}: not this one\n      {one.other_ranks}\n" in wrong_rank.text
        assert wrong_rank.text.count(": right") == 2
    for line in set(range(1, len(text_of(number)) + 1)) - set(one.lines):
        wrong_line = check.diagnosis(number, rank=one.rank, line=line, rule=one.rule)
        assert not wrong_line.passed
        assert one.hints.get(line, "Begin with the line in which most ranks wait or fail.") in wrong_line.text
    for rule in set(RULES) - {one.rule}:
        wrong_rule = check.diagnosis(number, rank=one.rank, line=one.lines[0], rule=rule)
        assert one.other_rules.get(rule, f"It would mean: {RULES[rule]}.") in wrong_rule.text
        assert wrong_rule.verdict == "not right yet"


@NUMBERS
def test_a_sentence_about_a_wrong_answer_does_not_tell_the_right_one(number: int) -> None:
    one = CASES[number - 1]
    for said in (one.other_ranks, *one.hints.values(), *one.other_rules.values()):
        assert one.rule not in said
        assert not set(map(int, re.findall(r"line (\d+)", said))) & set(one.lines)
    assert not re.search(rf"\brank {one.rank}\b", one.other_ranks)


@NUMBERS
def test_hints_and_repairs_are_about_lines_that_there_are(number: int) -> None:
    one, length = CASES[number - 1], len(text_of(number))
    assert set(one.hints) | set(one.lines) | set(one.repair) <= set(range(1, length + 1))
    assert not set(one.hints) & set(one.lines)
    assert set(one.other_rules) <= set(RULES) - {one.rule}
    assert all(text_of(number)[line - 1].strip() for line in {*one.hints, *one.lines})


def test_without_an_answer_the_rules_are_listed() -> None:
    report = check.diagnosis(1)
    assert not report.is_a_try
    assert all(name in report.text and what in report.text for name, what in RULES.items())


def test_a_rule_that_there_is_not_is_answered_with_the_list_and_is_no_try() -> None:
    report = check.diagnosis(2, rank=0, line=23, rule="deadlock")
    assert not report.is_a_try
    assert "There is no rule 'deadlock'." in report.text
    assert all(name in report.text for name in RULES)


def test_parts_may_be_given_one_after_the_other() -> None:
    assert check.diagnosis(2, rank=0).details == (
        "    rank=0: right",
        "    line=None: not given yet",
        "    rule='': not given yet",
    )


@pytest.mark.parametrize("rank", [-1, 3, "0", True])
def test_a_rank_that_there_is_not_is_said(rank: int) -> None:
    assert "the job has ranks 0 to 2" in check.diagnosis(1, rank=rank).text


@pytest.mark.parametrize("line", [0, 31, "11", True])
def test_a_line_that_there_is_not_is_said(line: int) -> None:
    assert "train.py has lines 1 to 30" in check.diagnosis(1, line=line).text


@pytest.mark.parametrize("number", [0, 7, True, "1"])
def test_a_case_that_there_is_not_is_refused(number: int) -> None:
    for ask in (check.diagnosis, clinic.case):
        with pytest.raises(ValueError, match=f"no case {number!r}: choose a number from 1 to 6"):
            ask(number)


def test_another_case_would_be_judged_by_its_own_rank(monkeypatch: pytest.MonkeyPatch) -> None:
    def other(number: int) -> Case:
        return replace(CASES[number - 1], rank=1)

    monkeypatch.setattr(diagnosis, "case_of", other)
    assert not check.diagnosis(1, rank=2, line=11, rule="uneven steps").passed
    assert check.diagnosis(1, rank=1, line=11, rule="uneven steps").passed
