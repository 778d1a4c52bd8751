"""The exercise of a stream that is divided over all ranks and all workers of their DataLoaders."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

from torch import Tensor
from torch.utils.data import IterableDataset

from ddp_lessons.check.judging.exercise import Case, Difference, Exercise, named
from ddp_lessons.check.judging.exercise_trials import with_lateness
from ddp_lessons.check.judging.report import Report, not_right, not_started
from ddp_lessons.check.judging.unwritten_functions import is_untouched, mentions
from ddp_lessons.check.trainings.stream_mistakes import IN_INIT, StreamShares, why_not_once
from ddp_lessons.check.trainings.streams import READ_AHEAD, Passes, StreamTrial, rows_of
from ddp_lessons.check.trials.sample_shares import examine_in_turns

_NO_GROUP = (
    "get_rank() raises an error without a process group. Next: if dist.is_initialized() is False, use rank 0 and "
    "world size 1."
)
_ONE_BY_ONE = "Next: iterate over the source once, and yield only the samples of this part."


def shard_stream(cls: Callable[[Any], Any]) -> Report:
    """Check a class: `cls(source)` on every rank, an IterableDataset that a DataLoader reads with 0 to 3 workers.

    `source` is any iterable of samples that can be gone through again; it has no length and may never end. Over all
    workers of all ranks, __iter__ yields every sample exactly once, whether or not the parts divide the samples, and
    the same ones in every pass. Which part gets which sample is up to you.

    It opens the source once per worker and pass, and yields while it reads. Without a process group there is one rank.
    No communication is needed.
    """
    if report := _not_begun(_ShardStream.name, cls):
        return report
    exercise = _ShardStream()
    exercise.asks_in_init = inspect.isclass(cls) and mentions(cls.__init__, {"get_worker_info"})
    return examine_in_turns(exercise, cls, Passes)


def _not_begun(name: str, cls: Any) -> Report | None:
    if cls is None:
        return not_right(name, f"It got None instead of a class. Next: call check.{name}(ShardedStream).")
    if isinstance(cls, IterableDataset):
        kind = type(cls).__name__
        return not_right(name, f"It needs the class, not an instance. Next: call check.{name}({kind}).")
    written = getattr(cls, "__iter__", IterableDataset.__iter__)
    if isinstance(cls, type) and (written is IterableDataset.__iter__ or is_untouched(written)):
        return not_started(name)
    return None


class _ShardStream(Exercise):
    name = "shard_stream"
    parameters = ("source",)
    thing, copy = "stream", ""
    world_sizes = (2, 3, 1)
    messages_only = False
    keeps_input = True
    returns_answer = False
    asks_in_init = False
    measured = "bytes sent by the busiest rank"
    yardstick = "needed"
    trials = with_lateness(
        [
            StreamTrial((), workers=3, largest_world=2),
            StreamTrial((), workers=2, smallest_world=3),
            StreamTrial((), workers=1, trait="the next stream"),
            StreamTrial((), trait="num_workers=0"),
            StreamTrial((), samples=13, trait="13 samples"),
            StreamTrial((), samples=1, trait="a single sample"),
            StreamTrial((), samples=None, trait="an endless source"),
            StreamTrial((), samples=7, workers=2, grouped=False, trait="a single process", largest_world=2),
        ]
    )

    def difference(self, case: Case, rank: int) -> Difference | None:
        if kind := _wrong_kind(case, rank):
            return kind
        assert isinstance(case.trial, StreamTrial)
        if case.trial.samples is None or any(_wrong_kind(case, other) for other in range(case.world_size)):
            return None
        shares = StreamShares(case, range(case.world_size) if case.trial.grouped else [rank])
        if mistake := why_not_once(shares, self.asks_in_init):
            return Difference("samples", shares.told(), f"{shares.samples}, once each", mistake)
        return _wrong_pass(case, rank)

    def why_failed(self, message: str) -> str:
        known = [
            (READ_AHEAD, f"It reads the whole source before it yields a sample. {_ONE_BY_ONE}"),
            ("has no len()", f"The length of a stream is not known. {_ONE_BY_ONE}"),
            ("not subscriptable", f"A stream has no [index]. {_ONE_BY_ONE}"),
            ("process group has not been init", _NO_GROUP),
            ("'NoneType' object has no attribute", self._why_none()),
            ("iter() returned non-iterator", "__iter__ returns no iterator. Next: yield the samples in __iter__."),
        ]
        return next((sentence for sign, sentence in known if sign in message), "")

    def _why_none(self) -> str:
        if self.asks_in_init:
            return IN_INIT
        return "get_worker_info() is None with num_workers=0. Next: treat None as worker 0 of 1."

    def too_much(self, case: Case) -> str:
        return "Every worker can compute its part. Next: leave out the communication." if self.carried(case) else ""

    def carried(self, case: Case) -> int:
        return max(case.traffic.brought)

    def textbook(self, case: Case) -> int:
        return 0


def _wrong_kind(case: Case, rank: int) -> Difference | None:
    answer = case.outcomes[rank].answer
    if not isinstance(answer, list):
        mistake = f"cls(source) is {named(answer)}. Next: inherit from torch.utils.data.IterableDataset."
        return Difference("cls(source)", named(answer), "an IterableDataset", mistake)
    for one in answer:
        if not isinstance(one, Tensor):
            mistake = f"It yields {named(one[0])}. Next: yield each sample of the source as it is."
            return Difference("yields", named(one[0]), "a sample", mistake)
    return None


def _wrong_pass(case: Case, rank: int) -> Difference | None:
    """Is the second pass like the first, and is the source opened once in each?"""
    assert isinstance(case.trial, StreamTrial)
    first, *others = rows_of(case, rank)
    opened = max((row[2] for row in first.tolist()), default=1)
    if opened > 1:
        mistake = f"It opens the source {opened} times for one pass. {_ONE_BY_ONE}"
        return Difference("source opened", f"{opened} times", "once", mistake)
    before, now = (rows[:, 0].tolist() for rows in (first, others[-1] if others else first))
    if before == now:
        return None
    if not now:
        mistake = "The second pass is empty, because one iterator serves both. Next: call iter(source) in __iter__."
    else:
        mistake = "The second pass differs from the first. Next: yield the samples in the order of the source."
    return Difference("second pass", _start(now), _start(before), mistake)


def _start(places: Sequence[int]) -> str:
    return f"samples {', '.join(map(str, places[:4]))}, ..." if places else "none"
