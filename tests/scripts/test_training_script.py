"""The training script: killed and resumed, on one rank and on two, and the same text as lesson 9 writes."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import nbformat
import pytest
import torch
from nights import nightly
from processes import PROJECT, Program
from torch import nn
from torchruns import SECONDS, ranks_of, torchrun

from ddp_lessons import Results, launch
from ddp_lessons.train.mnist import mnist_folder
from scripts import training

pytestmark = nightly

LESSON = PROJECT / "notebooks" / "09_training_script.ipynb"
PAGE = PROJECT / "docs" / "instructor" / "lessons" / "09_training_script.md"
EPOCHS = 12


def train(rank: int, world_size: int, arguments: Sequence[str]) -> nn.Module:
    return training.main(["--data", mnist_folder(), "--workers", "0", *arguments])


def launched(ranks: int, *arguments: str) -> Results[nn.Module]:
    return launch(train, ranks, arguments, join=False, quiet=True)


def furthest(one: nn.Module, other: nn.Module) -> float:
    pairs = zip(one.state_dict().values(), other.state_dict().values(), strict=True)
    return max(float((a - b).abs().max()) for a, b in pairs)


def started(path: Path) -> Program:
    quick = ("--samples", "1280", "--workers", "1", "--epochs", str(EPOCHS), "--accumulate", "2")
    return torchrun("training", "--data", mnist_folder(), *quick, "--checkpoint", str(path))


def epochs_told(said: str) -> list[int]:
    return [int(number) for number in re.findall(r"epoch (\d+): loss", said)]


def correct_told(said: Sequence[str]) -> int:
    return int(re.findall(r"(\d+) of 1280 test images correct", "".join(said))[-1])


def test_killed_and_started_again_it_ends_with_the_weights_of_a_run_in_one_go(tmp_path: Path) -> None:
    """With dropout, augmentation in another process, gradient accumulation and a schedule."""
    with started(tmp_path / "whole.pt") as program:
        assert epochs_told(program.finish(SECONDS)) == list(range(1, EPOCHS + 1))
    with started(tmp_path / "killed.pt") as program:
        program.wait_until_said("epoch 2:", seconds=SECONDS)
        ranks_of(program, "training")[1].kill()
        assert "exit status 1" in program.finish(SECONDS)
    done = torch.load(tmp_path / "killed.pt", weights_only=True)["epoch"]
    assert 2 <= done < EPOCHS
    with started(tmp_path / "killed.pt") as program:
        assert epochs_told(program.finish(SECONDS)) == list(range(done + 1, EPOCHS + 1))
    whole, resumed = (torch.load(tmp_path / name, weights_only=True) for name in ("whole.pt", "killed.pt"))
    assert list(whole) == list(resumed) == ["epoch", "model", "optimizer", "scheduler"]
    assert all(torch.equal(whole["model"][name], resumed["model"][name]) for name in whole["model"])
    assert not list(tmp_path.glob("*.new"))


@pytest.mark.parametrize("more", [(), ("--accumulate", "2")], ids=["", "accumulated"])
def test_one_rank_and_two_end_with_the_same_weights_where_nothing_is_random(more: tuple[str, ...]) -> None:
    plain = ("--samples", "1000", "--epochs", "2", "--plain", *more)
    (one,), (two, other) = launched(1, *plain), launched(2, *plain)
    assert furthest(two, other) == 0
    assert furthest(one, two) < 1e-5
    assert furthest(one, training.network(training.parse([]))) > 1e-2  # it has learned something


def test_one_rank_and_two_are_as_accurate_with_augmentation_dropout_and_bfloat16() -> None:
    usual = ("--samples", "1280", "--epochs", "4", "--bf16")
    one, two = (correct_told(launched(ranks, *usual).lines[0]) for ranks in (1, 2))
    assert min(one, two) > 640
    assert abs(one - two) < 128


def test_each_test_image_is_counted_once_also_where_the_ranks_cannot_have_equally_many() -> None:
    assert "of 65 test images" in launched(3, "--samples", "65", "--batch-size", "6", "--epochs", "1").lines[0][0]


@pytest.mark.parametrize("asked", [("--batch-size", "6", "--accumulate", "2"), ("--samples", "32")])
def test_a_batch_that_cannot_be_divided_or_filled_is_refused(asked: tuple[str, ...]) -> None:
    refusal = "--batch-size must be a multiple of ranks x --accumulate, and at most --samples"
    with pytest.raises(Exception, match=refusal):
        launched(2, *asked)


def train_by(rank: int, world_size: int, step: str, arguments: Sequence[str]) -> nn.Module:
    names: dict[str, Any] = {}
    exec(step, names)
    training.train_step = names["my_step"]
    return train(rank, world_size, arguments)


def test_the_answer_on_the_instructors_page_takes_the_same_steps_with_as_few_calls() -> None:
    answer = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)[-1]
    plain = ("--samples", "1000", "--epochs", "2", "--plain", "--accumulate", "2", "--workers", "0")
    results = launch(train_by, 2, answer, plain, join=False, quiet=True)
    assert furthest(results[0], launched(2, *plain)[0]) < 1e-6
    assert sum(event.operation == "all_reduce" for event in results.events.of(0)) == 2 * 15 + 2


def test_the_lesson_writes_the_script() -> None:
    read: Any = nbformat.read
    sources = [cell.source for cell in read(LESSON, as_version=4).cells if cell.cell_type == "code"]
    written = [source.partition("\n")[2] for source in sources if re.match(r"%%writefile (-a )?training\.py\n", source)]
    assert "".join(f"{part}\n" for part in written) == Path(training.__file__).read_text(encoding="utf-8")
