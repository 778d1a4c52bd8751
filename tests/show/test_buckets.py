"""Buckets of different sizes: counted beside torch's own count, overlap beside times that are known."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest
import torch
from nights import nightly
from recorded import call, record
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from ddp_lessons import Results, show, tell
from ddp_lessons.record.event import Event
from ddp_lessons.record.rank_record import Told
from ddp_lessons.show.trainings.bucket_sizes import last_backward
from ddp_lessons.train.gradients import in_buckets
from ddp_lessons.train.small_ddp import SmallDDP

Wrap = Callable[[nn.Module], nn.Module]
LAYERS, WIDTH = 4, 256  # a quarter of a megabyte of gradients in each layer


class SlowLinear(nn.Linear):
    def forward(self, input: Tensor) -> Tensor:
        output = super().forward(input)
        output.register_hook(lambda gradient: time.sleep(0.02))
        return output


def model() -> nn.Module:
    return nn.Sequential(*[SlowLinear(WIDTH, WIDTH, bias=False) for _ in range(LAYERS)])


def train(wrapped: nn.Module, steps: int) -> None:
    for _ in range(steps):
        output = wrapped(torch.ones(1, WIDTH)).sum()
        tell("backward")
        output.backward()
        tell()


def with_small_ddp(rank: int, world_size: int, megabytes: float) -> None:
    train(SmallDDP(model(), int(megabytes * 2**20)), 2)


def times(*calls: tuple[float, float], begin: float = 0.0, end: float = 100.0) -> Results[None]:
    """Two ranks with these calls, in milliseconds, in one backward()."""
    own: list[Event] = [call("all_reduce", *both, group_ranks=(0, 1), issued=both[0]) for both in calls]
    told = (Told(begin / 1e3, "backward", {}), Told(end / 1e3, "", {}))
    return Results((None, None), ([], []), 1.0, record([own, own]), (told, told))


@pytest.mark.parametrize(
    ("calls", "travelling", "hidden"),
    [
        ([(50, 60)], 10, 0),
        ([(10, 20), (50, 60)], 20, 10),
        ([(10, 70), (50, 80)], 70, 40),
        ([(10, 30), (20, 50), (40, 60)], 50, 30),
        ([(10, 15), (10, 90), (95, 100)], 85, 80),
        ([], 0, 0),
    ],
)
def test_what_is_hidden(calls: Sequence[tuple[float, float]], travelling: float, hidden: float) -> None:
    last = last_backward(times(*calls))
    assert last is not None
    assert (last.calls, last.bytes, last.seconds) == (len(calls), 16 * len(calls), 0.1)
    assert [last.travelling, last.hidden] == pytest.approx([2e-3 * travelling, 2e-3 * hidden])


def test_hidden_time_is_what_counting_moments_gives() -> None:
    random = np.random.default_rng(0)
    moments = np.arange(0, 100, 0.25) + 0.125
    for _ in range(50):
        begins = random.integers(0, 80, size=random.integers(1, 6))
        calls = [(float(begin), float(begin + random.integers(1, 20))) for begin in begins]
        last = last_backward(times(*calls))
        assert last is not None
        on_the_way = np.any([(begin < moments) & (moments < end) for begin, end in calls], axis=0)
        assert last.travelling == pytest.approx(2 * on_the_way.sum() * 0.25e-3)
        assert last.hidden == pytest.approx(2 * (on_the_way & (moments < max(begins))).sum() * 0.25e-3)


def test_only_the_last_backward_counts() -> None:
    last = last_backward(times((1, 2), (10, 20), (25, 26), begin=9, end=24))
    assert last is not None
    assert [last.calls, last.seconds] == pytest.approx([1, 0.015])


@nightly
def test_small_ddp_counts_as_its_buckets_do_and_says_so_in_the_same_words_each_time() -> None:
    explorer = show.explore_buckets(with_small_ddp, sizes=[0.25, 0.5, 25])
    texts = []
    for size in (0.25, 25, 25):
        explorer.set(megabytes=size)
        explorer.run()
        buckets = len(list(in_buckets(model().parameters(), int(size * 2**20))))
        calls = f"{buckets} call{'s' * (buckets > 1)}"
        assert f": {calls}, the last backward() took" in explorer.picture.document["title"]
        assert f"The last backward(), buckets of {size} MB: {calls} of all_reduce, 1.05 MB." in explorer.picture.text
        assert explorer.picture.alt.startswith(f"Buckets of {size} MB: in the last backward(), ")
        assert ("Nothing is hidden" in explorer.picture.alt) == (buckets == 1)
        assert ("Tried before: 0.25 MB: 4 calls, " in explorer.picture.alt) == (size != 0.25)
        texts.append(explorer.picture.text)
    assert texts[1] == texts[2]


@nightly
def test_overlap_is_seen_where_layers_take_their_time_and_ddp_counts_as_torch_does(tmp_path: Path) -> None:
    def with_ddp(rank: int, world_size: int, megabytes: float) -> None:
        wrapped = DistributedDataParallel(model(), bucket_cap_mb=megabytes)
        train(wrapped, 3)
        Path(tmp_path / str(rank)).write_text(wrapped._get_ddp_logging_data()["rebuilt_bucket_sizes"])

    explorer = show.explore_buckets({"SmallDDP": with_small_ddp, "DDP": with_ddp}, sizes=[0.25, 0.3])
    assert explorer.picture.alt.startswith("SmallDDP, buckets of 0.25 MB:")
    hidden = int(explorer.picture.alt.split(" % of the time on the way is hidden")[0].split()[-1])
    assert 0 < hidden <= 100
    explorer.set(function="DDP", megabytes=0.3)
    explorer.run()
    buckets = len((tmp_path / "0").read_text().split(","))
    assert f"The last backward(), DDP, buckets of 0.3 MB: {buckets} calls" in explorer.picture.text
    assert buckets == 2


@nightly
def test_a_failure_is_shown_and_the_next_run_is_right() -> None:
    def fail_if_large(rank: int, world_size: int, megabytes: float) -> None:
        if megabytes > 1:
            raise MemoryError("too large for me")
        with_small_ddp(rank, world_size, megabytes)

    explorer = show.explore_buckets(fail_if_large, size=25)
    assert "MemoryError: too large for me" in explorer.picture.text
    explorer.set(megabytes=1)
    explorer.run()
    assert "1 call of all_reduce" in explorer.picture.text
    assert explorer.failure == ""


def test_who_tells_no_backward_is_told_so_and_sees_the_timeline() -> None:
    def silent(rank: int, world_size: int, megabytes: float) -> None:
        torch.distributed.barrier()

    explorer = show.explore_buckets(silent)
    assert "2 ranks, 1 collective" in explorer.picture.text
    assert 'No rank told where a backward() begins, tell("backward")' in explorer.picture.alt


def test_nonsense_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one function and one size"):
        show.explore_buckets({})
    with pytest.raises(ValueError, match="size=3 is none of the sizes"):
        show.explore_buckets(with_small_ddp, size=3)
    with pytest.raises(ValueError, match="at least one function and one size"):
        show.explore_buckets(with_small_ddp, sizes=[])
