"""What all checks have in common: stubs, things that cannot be called, and how a report shows itself."""

from __future__ import annotations

import functools
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest
import torch
import torch.distributed as dist
from banks import Check, assert_refuses, assert_reports_the_same, name_of
from ddp_answers import Sums
from exchange_answers import Exchanger, both_receive_into_what_they_send, irecv_then_send, rank_0_sends_first
from nights import by_day, nightly
from swap_answers import in_place
from torch import Tensor

from ddp_lessons import check
from ddp_lessons.check import Report
from ddp_lessons.check.judging import examination
from ddp_lessons.check.judging.exercise import Case, Exercise
from ddp_lessons.check.messages.message_exercises import _Exchange
from ddp_lessons.check.trainings import restart_exercise
from ddp_lessons.check.trainings.gradient_exercise import AverageGradients
from ddp_lessons.check.trainings.wrapper_exercise import _MyDDP
from ddp_lessons.run.launcher import hang_watch
from ddp_lessons.run.output.progress_line import LaunchCount
from ddp_lessons.run.output.transcript import Transcript
from ddp_lessons.train.restarts import train_restartably
from ddp_lessons.train.ring import all_reduce_through_rank_0, ring_all_reduce

CHECKS: list[Check] = [
    check.pass_the_token,
    check.exchange,
    check.broadcast_by_hand,
    check.all_gather_by_hand,
    check.global_mean,
    check.ring_all_reduce,
    check.swap,
    check.mean_loss,
    check.average_gradients,
    check.share_best,
    check.sum_of_half,
]
# their stubs take other arguments: their own tests try them
TRAINING_CHECKS = {"data_partitioner", "evaluate", "my_ddp", "save_checkpoint", "train_loop", "weighted_average"}
EVERY_CHECK = pytest.mark.parametrize("one_check", by_day(CHECKS, 4), ids=name_of)


def only_dots(tensor: Tensor) -> None: ...


def dots_and_a_docstring(tensor: Tensor) -> None:
    """Say what it shall do."""
    # your code


def only_a_docstring(tensor: Tensor) -> None:
    """Say what it shall do."""


def only_pass(tensor: Tensor) -> None:
    pass


def returns_none(tensor: Tensor) -> None:
    """Say what it shall do."""
    return None  # noqa: RET501  as a stub may


def not_implemented(tensor: Tensor) -> None:
    """Say what it shall do."""
    raise NotImplementedError


def not_implemented_with_words(tensor: Tensor) -> None:
    raise NotImplementedError("your code")


def prepared(tensor: Tensor) -> None:
    rank, world_size = dist.get_rank(), dist.get_world_size()
    received = torch.zeros(rank + world_size)  # noqa: F841
    # your code


def not_implemented_behind_preparations(tensor: Tensor) -> None:
    rank = dist.get_rank()
    raise NotImplementedError(f"rank {rank} has nothing to do yet")


def only_dots_for_two(score: float, tensor: Tensor) -> None: ...


def prepared_for_two(score: float, tensor: Tensor) -> None:
    prepared(tensor)


class Stub:
    def __call__(self, tensor: Tensor) -> None: ...

    def method(self, tensor: Tensor) -> None:
        """Say what it shall do."""


def stub_with_more(tensor: Tensor, more: int) -> None: ...


STUBS: list[Callable[..., object]] = [
    only_dots,
    dots_and_a_docstring,
    only_a_docstring,
    only_pass,
    returns_none,
    not_implemented,
    not_implemented_with_words,
    prepared,
    not_implemented_behind_preparations,
    Stub(),
    Stub().method,
    lambda tensor: None,
    functools.partial(stub_with_more, more=1),
]


@pytest.mark.parametrize("stub", STUBS, ids=name_of)
def test_a_stub_is_not_started_yet(stub: Callable[..., object]) -> None:
    report = check.exchange(stub)
    assert not report.passed
    assert report.text == repr(report) == "check.exchange: not started yet"


@EVERY_CHECK
def test_every_check_knows_a_stub(one_check: Check) -> None:
    stubs: list[Callable[..., object]] = [only_dots, prepared]
    if one_check is check.share_best:
        stubs = [only_dots_for_two, prepared_for_two]
    if one_check is check.average_gradients:
        stubs = [only_dots]  # what runs and does nothing is the mistake of this exercise
    for stub in stubs:
        report = one_check(stub)
        assert report.text == f"check.{one_check.__name__}: not started yet"


def takes_two(tensor: Tensor, rank: int) -> Tensor:
    return tensor + rank


def takes_none() -> None:
    print("hello")


async def asynchronous(tensor: Tensor) -> Tensor:
    return tensor


def generator(tensor: Tensor) -> object:
    yield tensor


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        (None, "It got None instead of a function. Write check.exchange(exchange), without calling exchange"),
        (torch.ones(3), "The check got a Tensor. Pass a function that every rank can call"),
        (3, "The check got an int. Pass a function that every rank can call"),
        (
            takes_two,
            "The check calls takes_two(tensor) with one argument, but the definition is takes_two(tensor: 'Tensor'",
        ),
        (takes_none, "The check calls takes_none(tensor) with one argument, but the definition is takes_none()"),
        (asynchronous, "asynchronous is a coroutine (async def)"),
        (generator, "generator is a generator function (it contains yield), so calling it does not run"),
    ],
)
def test_what_cannot_be_called_is_refused_in_one_sentence(given: object, sentence: str) -> None:
    report = check.exchange(given)  # type: ignore[arg-type]
    assert not report.passed
    assert sentence in report.mistake


def test_what_cannot_travel_is_refused_in_one_sentence() -> None:
    lock = threading.Lock()

    def locked(tensor: Tensor) -> Tensor:
        with lock:
            return irecv_then_send(tensor)

    report = check.exchange(locked)
    assert not report.passed
    assert "locked uses the variable lock" in report.mistake


@pytest.mark.parametrize("answer", [lambda t: irecv_then_send(t), functools.partial(rank_0_sends_first), Exchanger()])
def test_anything_that_can_be_called_may_be_right(answer: Callable[[Tensor], object]) -> None:
    assert check.exchange(answer).passed


def test_a_function_that_prints_prints_nothing_here(capfd: pytest.CaptureFixture[str]) -> None:
    def talkative(tensor: Tensor) -> Tensor:
        print("I am rank", dist.get_rank())
        return irecv_then_send(tensor)

    assert check.exchange(talkative).passed
    assert capfd.readouterr() == ("", "")


def test_a_right_answer_may_print_megabytes() -> None:
    def flood(tensor: Tensor) -> Tensor:
        for _ in range(40_000):
            print("x" * 100)
        return irecv_then_send(tensor)

    assert check.exchange(flood).passed


@pytest.mark.parametrize("message", by_day(["y" * 5_000_000, "line\n" * 1_000_000], 1), ids=["one line", "many lines"])
def test_an_error_of_megabytes_does_not_fill_the_screen(message: str) -> None:
    def fails(tensor: Tensor) -> Tensor:
        raise ValueError(message)

    text = check.exchange(fails).text
    assert "ValueError" in text
    assert len(text) < 2_000


def fails_to_expect(exercise: Exercise, case: Case, rank: int) -> object:
    return 1 / 0


def leaves_gradients(model: torch.nn.Module) -> None:
    dist.barrier()


def with_first_trial(exercise: type[Exercise], **changes: object) -> list[Any]:
    return [replace(exercise.trials[0], **changes), *exercise.trials[1:]]  # type: ignore[arg-type]


# the check, a right answer, and what is broken in the check
FAILING_CHECKS = {
    "inputs": (check.exchange, irecv_then_send, _Exchange, {"trials": with_first_trial(_Exchange, dtype="float1")}),
    "inputs that torch refuses": (
        check.average_gradients,
        leaves_gradients,
        AverageGradients,
        {"trials": with_first_trial(AverageGradients, shape=(4, None))},
    ),
    "expected values": (check.exchange, irecv_then_send, _Exchange, {"expected": fails_to_expect}),
    "a training run around the learner's class": (
        check.my_ddp,
        Sums,
        _MyDDP,
        {"trials": with_first_trial(_MyDDP, dtype="float1")},
    ),
    "what looks like a known mistake": (
        check.my_ddp,
        Sums,
        _MyDDP,
        {"trials": with_first_trial(_MyDDP, backwards=(None,))},
    ),
}


@pytest.mark.parametrize(("one_check", "answer", "exercise", "broken"), FAILING_CHECKS.values(), ids=FAILING_CHECKS)
def test_an_error_in_the_check_itself_is_no_mistake_of_the_learner(
    one_check: Check, answer: object, exercise: type[Exercise], broken: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in broken.items():
        monkeypatch.setattr(exercise, name, value)
    report = one_check(answer)
    assert (report.verdict, report.passed, report.is_a_try) == ("could not judge", False, False)
    assert report.mistake == "The check itself failed. This is a defect of ddp_lessons, not a mistake in your code."
    assert report.details[0] == "    Traceback (most recent call last):"
    assert "Error: " in report.details[-2]


class UsedWithoutARank:
    def __init__(self, data: Any, sizes: Any, seed: int = 1) -> None:
        self.data = data

    def use(self) -> Any:
        return self.data


def multiplies_what_does_not_fit(tensor: Tensor) -> Tensor:
    return torch.ones(2) @ torch.ones(len(tensor) + 3)


LEARNERS_ERRORS = [
    (check.exchange, multiplies_what_does_not_fit, "raised RuntimeError"),  # by torch, in the learner's line
    (check.data_partitioner, UsedWithoutARank, "use() takes 1 positional argument but 2 were given"),  # in our line
]


@pytest.mark.parametrize(("one_check", "answer", "sentence"), LEARNERS_ERRORS)
def test_an_error_of_what_the_learner_wrote_is_refused_as_such(one_check: Check, answer: Any, sentence: str) -> None:
    assert assert_refuses(one_check, answer, sentence).verdict == "not right yet"


@nightly
def test_a_report_of_a_right_answer_shows_its_traffic_beside_the_textbooks() -> None:
    assert check.ring_all_reduce(ring_all_reduce).text.split("\n") == [
        "check.ring_all_reduce: passed",
        "    right for 11 different tensors, with 1, 2, 3, 4, 5 and 8 ranks",
        "    traffic of 4 ranks               yours   textbook",
        "    bytes sent by the busiest rank     720        720",
        "    in multiples of the tensor        1.50       1.50",
        "  Next exercise: `average_gradients`, in lesson 5.",
    ]


def test_a_report_of_a_wrong_answer_shows_the_first_difference_and_the_mistake() -> None:
    lines = check.exchange(both_receive_into_what_they_send).text.split("\n")
    assert lines[0] == "check.exchange: not right yet"
    assert lines[1].startswith("  Rank 1 receives into the tensor that it has not sent yet")
    assert lines[2] == "    2 ranks; rank 0 was given a tensor of shape [120], float32"
    assert lines[3].split() == ["yours", "expected"]
    assert lines[4].split()[0] == "[0]"
    assert lines[5].split() == ["traffic", "of", "2", "ranks", "yours", "textbook"]


@nightly
def test_a_function_that_never_began_is_not_told_to_look_for_a_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    class ArrivesLate:
        def __reduce__(self) -> tuple[Callable[[float], None], tuple[float]]:
            return time.sleep, (60.0,)

    late = ArrivesLate()
    monkeypatch.setattr(examination, "PATIENCE_SECONDS", 1.0)
    monkeypatch.setattr(hang_watch, "SECONDS_TO_LOAD", 1.0)
    report = check.exchange(lambda tensor: (late, tensor)[1])
    assert "The time was over before your function began: this machine is busy." in report.mistake
    assert "loop" not in report.text


def test_a_report_of_too_much_traffic_shows_both_in_multiples_of_the_tensor() -> None:
    report = check.ring_all_reduce(all_reduce_through_rank_0)
    assert "Too much is communicated: rank 0 sends 2.00 times the size of the tensor" in report.mistake
    assert report.text.split("\n")[-1].split() == "in multiples of the tensor 2.00 1.33".split()


@pytest.mark.parametrize("answer", by_day([both_receive_into_what_they_send, irecv_then_send], 1), ids=name_of)
def test_the_same_answer_gives_the_same_report(answer: Callable[[Tensor], object]) -> None:
    assert_reports_the_same(check.exchange, answer, 4)


@nightly
@pytest.mark.parametrize(
    ("one_check", "answer"), by_day([(check.swap, in_place), (check.restartable, train_restartably)], 1), ids=name_of
)
def test_as_many_launches_are_made_as_are_announced(
    one_check: Callable[[Any], Report], answer: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []

    class Noted(LaunchCount):
        def finish(self, transcripts: Sequence[Transcript]) -> None:
            said.append(self.words().partition(",")[0])
            super().finish(transcripts)

    for module in (examination, restart_exercise):
        monkeypatch.setattr(module, "LaunchCount", Noted)
    assert one_check(answer).passed
    assert said == [f"launch {number} of {len(said)}" for number in range(1, len(said) + 1)]
    assert len(said) > 4


def test_a_report_is_plain_data() -> None:
    report = Report("exchange", False, "not right yet", "Something.", ("    a detail",))
    assert report.text == "check.exchange: not right yet\n  Something.\n    a detail"
    assert report == Report("exchange", False, "not right yet", "Something.", ("    a detail",))


def test_the_front_door_shows_the_exercises() -> None:
    others = {"Report", "progress", "reading"}
    others |= {"choose_backend", "job_script", "rank_sampler", "training_script", "ranks_of", "restartable"}
    others |= {"capstone", "diagnosis", "shard", "sharded_mean", "shard_stream", "stage_of", "token_mean_loss"}
    assert {one.__name__ for one in CHECKS} | TRAINING_CHECKS | others == set(check.__all__)
    assert all(callable(getattr(check, name)) for name in check.__all__)
