"""How an answer is judged, with an exercise of a few lines: every rank returns the sum over all ranks."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.distributed
from torch import Tensor

from ddp_lessons import check
from ddp_lessons.check import runs
from ddp_lessons.check.differences import NothingDone, Thing, difference, plain
from ddp_lessons.check.exercise import MESSAGES, Budget, Exercise, Mistake, Trial
from ddp_lessons.check.trials import of_every_kind, tensor
from ddp_lessons.train.ring import ring_all_reduce

PROJECT = Path(__file__).parents[2]
dist: Any = torch.distributed
NAN = float("nan")


def total(tensor: Tensor) -> Tensor:
    summed = tensor.clone()
    dist.all_reduce(summed)
    return summed


def mean(tensor: Tensor) -> Tensor:
    return total(tensor).div(dist.get_world_size())


SUM = Exercise(
    "Check `function(tensor)`: every rank returns the sum.",
    solution=total,
    trials=[
        Trial(tensor((6,))),
        Trial(tensor((6,)), "the same shape a second time"),
        Trial(tensor((3,), "int64"), "integers (int64)"),
    ],
    mistakes=[Mistake(mean, "That is the mean. Leave out the division.")],
    hints={"answer": "Rank {rank} does not have the sum. Add up all tensors."},
    world_sizes=(2, 3, 1),
    name="sum",
)
MESSAGES_ONLY = replace(
    SUM,
    solution=ring_all_reduce,
    trials=[Trial(tensor((60,)))],
    budget=Budget(MESSAGES, most=lambda case: 480, too_much="Send each chunk once."),
    mistakes=[],
)


def in_place(tensor: Tensor) -> None:
    dist.all_reduce(tensor)


def by_gathering(tensor: Tensor) -> Tensor:
    parts = [torch.empty_like(tensor) for _ in range(dist.get_world_size())]
    dist.all_gather(parts, tensor)
    return torch.stack(parts).sum(0)


class Adder:
    def __call__(self, tensor: Tensor) -> Tensor:
        return total(tensor)


@pytest.mark.parametrize("answer", [in_place, Adder(), lambda t: total(t)])
def test_right_answers_pass_however_they_are_written(answer: Any) -> None:
    report = SUM(answer)
    assert report.passed, report.text
    assert report.details[0] == "    correct in 3 different trials, with 1, 2 and 3 ranks"


def twice(tensor: Tensor) -> Tensor:
    return 2 * total(tensor)


def in_float(tensor: Tensor) -> Tensor:
    return total(tensor).float()


def only_two(tensor: Tensor) -> Tensor:
    return total(tensor) if dist.get_world_size() < 3 else tensor


seen: list[Tensor] = []


def remembers(tensor: Tensor) -> Tensor:
    seen.append(total(tensor))
    return seen[0]


def needs_several(tensor: Tensor) -> Tensor:
    return total(tensor) if dist.get_world_size() > 1 else tensor + 1


def only_rank_0(tensor: Tensor) -> Tensor:
    return total(tensor) if dist.get_rank() == 0 else tensor


def only_rank_0_returns(tensor: Tensor) -> Tensor | None:
    summed = total(tensor)
    return summed if dist.get_rank() == 0 else None


def raises(tensor: Tensor) -> Tensor:
    return total(tensor)[7]


def never_ends(tensor: Tensor) -> Tensor:
    while True:
        pass


@pytest.mark.parametrize(
    ("answer", "sentence", "detail"),
    [
        (mean, "That is the mean. Leave out the division.", "[0]"),
        (lambda t: by_gathering(t) / dist.get_world_size(), "That is the mean.", "[0]"),  # with other traffic
        (twice, "Rank 0 does not have the sum. Add up all tensors.", "traffic of 2 ranks"),
        (only_rank_0_returns, "Rank 1 returns None and does not change its tensor.", "None"),
        (
            lambda t: total(t).tolist(),
            "Your function returns a list of length 6. Return a tensor.",
            "a list of length 6",
        ),
        (in_float, "but fails for integers (int64): your function returns a tensor of dtype float32", "dtype int64"),
        (only_two, "It works with 2 ranks but not with 3: no rank sends or receives anything", "3 ranks"),
        (remembers, "The first call returns the correct answer, but the next one does not", "2 ranks"),
        (needs_several, "It works with several ranks but not with one: rank 0", "1 rank; rank 0"),
        (only_rank_0, "Hang, no rank can make progress.", "rank 0   waits in all_reduce"),
        (raises, "Both ranks raised IndexError: index 7 is out of bounds", "return total(tensor)[7]"),
    ],
)
def test_wrong_answers_get_a_reason(answer: Any, sentence: str, detail: str) -> None:
    report = SUM(answer)
    assert report.verdict == "not right yet"
    assert sentence in report.mistake, report.text
    assert any(detail in line for line in report.details), report.text
    assert all(len(line) < 250 for line in report.details)


def test_a_loop_that_never_ends_is_shown_where_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runs, "PATIENCE_SECONDS", 2.0)
    report = SUM(never_ends)
    assert "did not return within" in report.mistake
    assert any("rank 0   is at test_judgment.py line" in line for line in report.details), report.text


def unreceived(tensor: Tensor) -> Tensor:
    if dist.get_world_size() > 1:
        dist.isend(torch.ones(1), (dist.get_rank() + 1) % dist.get_world_size(), tag=9)
    return ring_all_reduce(tensor)


def sends_everything_often(tensor: Tensor) -> Tensor:
    for _ in range(3):
        summed = ring_all_reduce(tensor.clone())
    return summed


def through_the_store(tensor: Tensor) -> Tensor:
    store, rank, ranks = dist.distributed_c10d._get_default_store(), dist.get_rank(), dist.get_world_size()
    keys = [f"{seen_so_far()} {other}" for other in range(ranks)]
    store.set(keys[rank], ",".join(str(one) for one in tensor.tolist()))
    parts = [torch.tensor([float(one) for one in store.get(key).decode().split(",")]) for key in keys]
    return torch.stack(parts).sum(0).to(tensor.dtype) if tensor.dtype != torch.int64 else ring_all_reduce(tensor)


_calls: Iterator[int] = iter(range(10**6))


def seen_so_far() -> int:
    return next(_calls)


@pytest.mark.parametrize(
    ("answer", "sentence"),
    [
        (total, "Your function calls the collective all_reduce. Use only messages"),
        (
            sends_everything_often,
            "The ranks communicate too much: 720 bytes sent by the busiest rank, but 480 are enough. Send each",
        ),
        (unreceived, "Your function never waits for its isend"),
        (through_the_store, "The ranks communicate too little"),
    ],
)
def test_traffic_counts(answer: Any, sentence: str) -> None:
    report = MESSAGES_ONLY(answer)
    assert sentence in report.mistake, report.text


def only_dots(tensor: Tensor) -> None: ...


def only_pass(tensor: Tensor) -> None:
    """Say what it shall do."""
    pass  # noqa: PIE790  as a stub may


def not_implemented(tensor: Tensor) -> None:
    raise NotImplementedError("yours")


@pytest.mark.parametrize("stub", [only_dots, only_pass, not_implemented])
def test_a_stub_is_not_started_yet(stub: Any) -> None:
    assert SUM(stub).text == "check.sum: not started yet"


def asks_only(tensor: Tensor) -> None:
    dist.get_rank()


def nothing_with_two(tensor: Tensor) -> Tensor | None:
    return total(tensor) if dist.get_world_size() != 2 else None


def test_a_given_function_whose_parts_are_stubs_is_not_started_yet() -> None:
    silent = replace(SUM, begins_silent=True)
    assert silent(asks_only).verdict == "not started yet"
    assert silent(nothing_with_two).verdict == silent(raises).verdict == "not right yet"


def takes_two(tensor: Tensor, other: Tensor) -> Tensor:
    return tensor


def generator(tensor: Tensor) -> Iterator[Tensor]:
    yield tensor


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        (None, "The check got None instead of a function. Pass the function itself"),
        (takes_two, "The check calls takes_two(tensor) with one argument, but the definition is takes_two(tensor"),
        (generator, "generator is a generator function (it contains yield), so calling it does not run"),
    ],
)
def test_what_cannot_be_called_is_refused_in_one_sentence(given: object, sentence: str) -> None:
    assert sentence in SUM(given).mistake


def test_what_cannot_travel_is_refused_in_one_sentence() -> None:
    lock = threading.Lock()

    def locked(tensor: Tensor) -> Tensor:
        with lock:
            return total(tensor)

    assert "locked uses the variable lock" in SUM(locked).mistake


def test_what_an_answer_prints_is_not_shown(capfd: pytest.CaptureFixture[str]) -> None:
    def flood(tensor: Tensor) -> Tensor:
        for _ in range(20_000):
            print("x" * 100)
        return total(tensor)

    assert SUM(flood).passed
    assert capfd.readouterr() == ("", "")


def test_an_error_in_the_check_itself_is_no_mistake_of_the_learner() -> None:
    report = replace(SUM, together=lambda outcomes: [{"answer": 1 / 0}])(total)
    assert (report.verdict, report.is_a_try) == ("could not judge", False)
    assert report.mistake == "The check itself failed because of a bug in ddp_lessons, not because of your code."


@pytest.mark.parametrize(
    ("most", "verdict", "line"),
    [
        ("2", "passed", "    not tried with 3 ranks: the limit on this machine, set by the instructor, is 2"),
        ("1", "cannot be checked here", ""),
    ],
)
def test_it_keeps_to_the_limit_of_ranks(most: str, verdict: str, line: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DDP_LESSONS_MOST_RANKS", most)
    report = SUM(total)
    assert report.verdict == verdict
    assert not line or line in report.details


@pytest.mark.parametrize(
    ("yours", "expected", "place", "shown"),
    [
        (torch.ones(2), torch.tensor([1.0, 2.0]), "[1]", ("1", "2")),
        (torch.ones(2).double(), torch.ones(2), "answer", ("dtype float64", "dtype float32")),
        ([1, 2], [1, 3], "answer[1]", ("2", "3")),
        (NothingDone(torch.ones(1)), torch.zeros(1), "answer", ("None", "a tensor")),
        (True, 1, "answer", ("the boolean True", "1")),
        (Thing("Mean"), 1.0, "answer", ("an object of type Mean", "1")),
        (torch.tensor([1.0, NAN]), torch.tensor([1.0, 2.0]), "[1]", ("nan", "2")),
        ({"a": 1, "b": torch.ones(1)}, {"a": 1, "b": torch.zeros(1)}, "answer['b'][0]", ("1", "0")),
        ({"a": 2}, {}, "answer['a']", ("2", "missing")),
    ],
)
def test_the_first_difference_is_shown(yours: Any, expected: Any, place: str, shown: tuple[str, str]) -> None:
    found = difference(yours, expected, 1e-5)
    assert found is not None
    assert (found.place, (found.yours, found.expected)) == (place, shown)


@pytest.mark.parametrize(
    ("yours", "expected"),
    [
        (torch.tensor([1.0, 2.000001]), torch.tensor([1.0, 2.0])),
        (NothingDone(torch.ones(1)), torch.ones(1)),
        (torch.tensor(0.5), 0.5),
        (plain(np.float32(0.5)), 0.5),
        (NAN, NAN),
    ],
)
def test_what_is_equal_up_to_rounding_or_its_type_is_right(yours: Any, expected: Any) -> None:
    assert difference(yours, expected, 1e-5) is None


def test_a_right_report_shows_traffic_and_the_next_exercise() -> None:
    assert check.ring_all_reduce(ring_all_reduce).text.split("\n") == [
        "check.ring_all_reduce: passed",
        "    correct in 11 different trials, with 1, 2, 3, 4 and 5 ranks",
        "    traffic of 4 ranks               yours   needed",
        "    bytes sent by the busiest rank     720      720",
        "  Next exercise: `average_gradients`, in lesson 5.",
    ]


AROUND_THE_SHOWN = """
import torch.distributed as dist
from torch import Tensor

from ddp_lessons.check.exercise import Exercise, Mistake
from ddp_lessons.check.trials import of_every_kind


class averages:
    @staticmethod
    def spread(tensor):
        largest, smallest = tensor.clone(), tensor.clone()
        dist.all_reduce(largest, op=dist.ReduceOp.MAX)
        dist.all_reduce(smallest, op=dist.ReduceOp.MIN)
        return largest - smallest


"""


def test_the_exercise_that_contributing_shows_works(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shown = re.findall(r"^```python\n(def the_largest.*?)^```", (PROJECT / "CONTRIBUTING.md").read_text(), re.M | re.S)
    (tmp_path / "shown_exercise.py").write_text(AROUND_THE_SHOWN + shown[0])
    monkeypatch.syspath_prepend(tmp_path)
    import shown_exercise  # type: ignore[import-not-found]

    assert shown_exercise.spread(shown_exercise.averages.spread).passed
    assert shown_exercise.spread(shown_exercise.the_largest).mistake.startswith("That is the largest value of all")


def test_trials_cover_what_tensors_can_be() -> None:
    arguments = [trial.arguments(0, 2)[0] for trial in replace(SUM, trials=of_every_kind()).trials]
    assert {one.dtype for one in arguments} >= {torch.float32, torch.float64, torch.int64}
    assert {one.dim() for one in arguments} == {1, 2}
    assert min(one.numel() for one in arguments) == 1
