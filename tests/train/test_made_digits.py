"""Digits made on the spot are the same everywhere, are as hard as they must be, and lie in memory once."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
from torch import nn

from ddp_lessons import launch
from ddp_lessons.train.digits import Digits, digits
from ddp_lessons.train.evaluation import evaluate
from ddp_lessons.train.loops import train_alone
from ddp_lessons.train.made_digits import make_digits
from ddp_lessons.train.networks import QuickNet
from ddp_lessons.train.sampling import GlobalBatches


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """On a busy machine several threads wait for each other."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="session")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[Digits, Digits, float]:
    """All 70,000, and how many seconds of one processor the first 60,000 took."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DDP_LESSONS_CACHE", os.fspath(tmp_path_factory.mktemp("cache")))
        patch.setenv("DDP_LESSONS_MNIST", "made")
        start = time.process_time()
        train = digits()
        seconds = time.process_time() - start
        return train, digits(train=False), seconds


def test_there_are_as_many_as_in_mnist_and_soon(whole: tuple[Digits, Digits, float]) -> None:
    train, test, seconds = whole
    assert (len(train), len(test)) == (60_000, 10_000)
    assert train.images.shape == (60_000, 1, 28, 28)
    assert (train.images.dtype, train.labels.dtype) == (torch.float32, torch.int64)
    assert seconds < 10


def test_all_classes_are_about_equally_many_and_mixed(whole: tuple[Digits, Digits, float]) -> None:
    for data, least in ((whole[0], 5_500), (whole[1], 850), (whole[0].first(200), 8)):
        assert torch.bincount(data.labels, minlength=10).min() >= least


def test_they_are_as_bright_as_mnist_is(whole: tuple[Digits, Digits, float]) -> None:
    images = whole[0].images
    assert abs(float(images.mean())) < 0.1
    assert 0.7 < float(images.std()) < 1.1


def test_no_two_are_the_same_in_training_or_test(whole: tuple[Digits, Digits, float]) -> None:
    images = torch.cat([data.images.view(-1, 784) for data in whole[:2]])
    marks = images @ torch.rand(784, generator=torch.Generator().manual_seed(1))
    assert len(marks.double().unique()) > 0.99 * len(marks)
    train, test = (make_digits(0, train)[0].flatten(1).float() for train in (True, False))
    assert float(torch.cdist(train, test).min()) > 100


def test_the_first_labels_are_written_down_since_they_are_the_same_on_every_machine() -> None:
    assert make_digits(0)[1][:12].tolist() == [4, 5, 0, 6, 1, 2, 2, 2, 1, 4, 5, 8]
    assert make_digits(0, train=False)[1][:12].tolist() == [4, 5, 8, 5, 0, 9, 3, 1, 4, 3, 4, 7]


def test_they_are_the_same_with_any_number_of_threads_and_in_any_process() -> None:
    code = """import hashlib, sys, torch
from ddp_lessons.train.made_digits import make_digits
for threads in (1, 2, 3):
    torch.set_num_threads(threads)
    print(hashlib.sha256(make_digits(3)[0].numpy().tobytes()).hexdigest())
print('matplotlib' in sys.modules)
"""
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    here = hashlib.sha256(make_digits(3)[0].numpy().tobytes()).hexdigest()
    assert said == [here] * 3 + ["False"]


def test_a_linear_model_finds_them_hard(whole: tuple[Digits, Digits, float]) -> None:
    """After 20 epochs it has 90 %, so it is not the training that is too short here."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Flatten(), nn.Linear(784, 10), nn.LogSoftmax(dim=1))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for epoch in range(4):
        train_alone(model, GlobalBatches(whole[0], 256), optimizer, epoch)
    assert 0.86 < evaluate(model, whole[1]) < 0.93


def test_a_small_convolutional_net_learns_them(whole: tuple[Digits, Digits, float]) -> None:
    torch.manual_seed(0)
    model = QuickNet()
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    train_alone(model, GlobalBatches(whole[0], 128), optimizer, epoch=0)
    assert evaluate(model, whole[1]) > 0.97


@pytest.mark.skipif(not Path("/proc/self/smaps_rollup").exists(), reason="only Linux tells how much memory is shared")
def test_four_ranks_hold_one_copy(whole: tuple[Digits, Digits, float]) -> None:
    def touch(rank: int, world_size: int, data: Digits) -> tuple[float, float]:
        dist.barrier()
        before = proportional_megabytes()
        dist.barrier()
        data.images.sum()
        int(data.labels.sum())
        dist.barrier()
        after = proportional_megabytes()
        dist.barrier()
        return before, after

    data = whole[0]
    of_one = data.images.nbytes / 1e6
    grown = sum(after - before for before, after in launch(touch, 4, data))
    assert grown - of_one < 60, f"four ranks hold {grown:.0f} MB more, and one copy has {of_one:.0f} MB"


def proportional_megabytes() -> float:
    """This process's memory, where what several hold is divided among them."""
    lines = Path("/proc/self/smaps_rollup").read_text().splitlines()
    return sum(int(line.split()[1]) for line in lines if line.startswith("Pss:")) * 1024 / 1e6
