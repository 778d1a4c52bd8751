"""What check.replicas_agree says of lists of fingerprints: of real models, and of letters."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from ddp_lessons import Results, check, launch
from ddp_lessons.train.gradients import average_gradients
from ddp_lessons.train.replicas import fingerprint


def lists(*ranks: str) -> list[list[str]]:
    """Each letter is a fingerprint: a digit of it, as it has to be, where there is none for the letter."""
    return [list(rank.translate(str.maketrans("xyz", "123"))) for rank in ranks]


def steps(rank: int, world_size: int, averages: bool, same_start: bool) -> list[str]:
    torch.manual_seed(0 if same_start else rank)
    model = nn.Linear(3, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    found = [fingerprint(model)]
    for step in range(3):
        optimizer.zero_grad()
        model(torch.full((4, 3), float(rank + step))).square().mean().backward()
        if averages:
            average_gradients(model)
        optimizer.step()
        found.append(fingerprint(model))
    return found


def test_averaged_models_agree_and_others_differ_from_their_first_step_on() -> None:
    report = check.replicas_agree(launch(steps, 3, True, True))
    assert report.passed
    assert report.text == "check.replicas_agree: they agree\n    3 ranks agree at all 4 steps"
    alone = check.replicas_agree(launch(steps, 3, False, True))
    assert not alone.passed
    beginning = "From step 1 on, all 3 ranks differ from each other. Before that, the replicas were equal"
    assert alone.mistake.startswith(beginning)


def test_averaging_does_not_bring_models_together_that_began_apart() -> None:
    report = check.replicas_agree(launch(steps, 2, True, False))
    assert (
        report.mistake
        == "From step 0 on, rank 1 differs from rank 0. Check that all ranks start with the same initial weights."
    )


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        (lists("abcd", "abcd", "abxy"), "From step 2 on, rank 2 differs from ranks 0 and 1."),
        (lists("abcd", "axyz", "axyz"), "From step 1 on, rank 0 differs from ranks 1 and 2."),
        (lists("ab", "ab", "ay", "ay"), "At step 1, ranks 2 and 3 differ from ranks 0 and 1."),
        (lists("ab", "ab", "ay", "az"), "At step 1, ranks 2 and 3 differ from ranks 0 and 1, and not all in the same"),
        (lists("abcd", "axcd"), "At step 1, rank 1 differs from rank 0."),
        (lists("abcde", "axyde"), "From step 1 to step 2, rank 1 differs from rank 0."),
        (lists("abcde", "axcye"), "At step 1, rank 1 differs from rank 0."),
        (
            lists("a", "b"),
            "At step 0, rank 1 differs from rank 0. Check that all ranks start with the same initial weights.",
        ),
        (
            lists("abc", "ab"),
            "Rank 1 has 2 fingerprints and rank 0 has 3. The ranks agree until then. Give every rank the "
            "same number of steps.",
        ),
        (lists("abc", "ax"), "At step 1, rank 1 differs from rank 0."),
    ],
)
def test_it_says_from_which_step_on_who_differs_from_whom(given: list[list[str]], sentence: str) -> None:
    report = check.replicas_agree(given)
    assert not report.passed
    assert report.mistake.startswith(sentence)
    assert report.text.startswith(f"check.replicas_agree: they differ\n  {sentence}")


def test_the_last_equal_step_and_the_first_other_one_stand_below_each_other() -> None:
    lines = check.replicas_agree(lists("abc", "abc", "axc")).text.split("\n")
    assert [line.split() for line in lines[-3:]] == [
        ["step", "rank", "0", "rank", "1", "rank", "2"],
        ["0", "a", "a", "a"],
        ["1", "b", "b", "1"],
    ]


@pytest.mark.parametrize(
    ("given", "line"),
    [
        (lists("abc", "abc"), "2 ranks agree at all 3 steps"),
        (lists("a", "a"), "2 ranks agree at the only step"),
        (lists("ab"), "one rank alone agrees with itself at all 2 steps"),
        (lists("aaa", "aaa"), "but the weights are the same at all steps, so no step has changed them"),
    ],
)
def test_agreement_is_said_with_what_is_remarkable_in_it(given: list[list[str]], line: str) -> None:
    report = check.replicas_agree(given)
    assert report.passed
    assert report.text.split("\n")[-1] == f"    {line}"


def test_results_and_exceptions_with_results_are_welcome() -> None:
    results = Results((["a"], ["a"]), ([], []), 1.0)
    failure = RuntimeError("a rank failed")
    failure.results = results  # type: ignore[attr-defined]
    assert check.replicas_agree(results).passed
    assert check.replicas_agree(failure).passed


@pytest.mark.parametrize(
    ("given", "found"),
    [
        (3, "this is 3"),
        ("abc", "this is 'abc'"),
        ([], "this is []"),
        (lists, "this is something of type function"),
        ([lists], "rank 0 returned something of type function"),
        ([None, ["a"]], "rank 0 returned None"),
        ([["a"], "a"], "rank 1 returned 'a'"),
        ([["a"], []], "rank 1 returned []"),
        ([["a"], ["a", 0.5]], "the list of rank 1 holds 0.5"),
        ([["a"], [torch.zeros(3, 40)]], "the list of rank 1 holds something of type Tensor"),
    ],
)
def test_what_is_no_list_of_fingerprints_is_refused_with_what_was_found(given: object, found: str) -> None:
    with pytest.raises(TypeError) as refused:
        check.replicas_agree(given)
    wanted = "every rank has to return a list with one fingerprint(model) for each step"
    assert str(refused.value) == f"{wanted}, and {found}"
