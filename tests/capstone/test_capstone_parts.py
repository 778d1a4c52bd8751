"""Broken solutions fail in the right part, with the right message."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
import torch
from broken_scripts import BROKEN
from judged import judged
from nights import by_day

from ddp_lessons.capstone.capstone_parts import wrong_number_tested
from ddp_lessons.capstone.capstone_trials import NotJudged, Trials
from ddp_lessons.capstone.checkpoint_content import holds_only_weights
from ddp_lessons.capstone.script_runs import Outcome

# of three of the four parts, each found quickly
QUICK = ("an exception on the second rank", "results of rank 0 only", "no checkpoint")


@pytest.mark.no_second_try
@pytest.mark.parametrize("name", by_day(BROKEN, lambda name: name in QUICK))
def test_a_broken_script_fails_in_the_right_part(name: str, tmp_path: Path) -> None:
    broken = BROKEN[name]
    part = judged(broken.source, broken.part, tmp_path, (2,), broken.limit)
    assert (part.name, part.passed) == (broken.part, False)
    assert broken.said in part.said, part
    assert broken.advice in part.advice, part
    assert part.advice.endswith((".", "`."))
    assert all(any(words in line for line in part.lines) for words in broken.lines), part


def ended(status: int, printed: str) -> Outcome:
    return Outcome(Path(), status, 1.0, 10.0, printed)


def test_a_file_that_another_rank_renamed_points_to_rank_0(tmp_path: Path) -> None:
    trials, told = Trials(tmp_path / "my_train.py", tmp_path, random.Random(0)), []
    for name in ("reference", "watched-2"):
        file = tmp_path / name
        error = f"FileNotFoundError: [Errno 2] No such file or directory: '{file}.pt.new' -> '{file}.pt'"
        with pytest.raises(NotJudged) as reason:
            trials.require_end(ended(1, error), 2)
        told.append((str(reason.value), reason.value.advice))
    assert told[0] == told[1]
    assert told[0][0].endswith("No such file or directory: 'FILE.pt.new' -> 'FILE.pt'")
    assert told[0][1] == (
        "several ranks write this file: let only rank 0 save (`if rank == 0:`). If that is not it, run `python -m "
        "ddp_lessons explain --nproc-per-node 2 my_train.py --epochs 3 --checkpoint FILE.pt --out FILE.json`."
    )


def test_a_checkpoint_that_is_missing_is_no_matter_of_two_writers(tmp_path: Path) -> None:
    error = f"FileNotFoundError: [Errno 2] No such file or directory: '{tmp_path}/reference.pt'"
    with pytest.raises(NotJudged) as reason:
        Trials(tmp_path / "my_train.py", tmp_path, random.Random(0)).require_end(ended(1, error), 2)
    assert reason.value.advice.startswith("run `")


def test_a_checkpoint_of_weights_alone_is_recognized(tmp_path: Path) -> None:
    net = torch.nn.Linear(3, 2)
    optimizer = torch.optim.SGD(net.parameters(), momentum=0.9)
    net(torch.ones(3)).sum().backward()
    optimizer.step()
    file = tmp_path / "reference.pt"
    torch.save({"epoch": 1, "model": net.state_dict()}, file)
    assert holds_only_weights(file, 8)
    torch.save({"epoch": 1, "model": net.state_dict(), "optimizer": optimizer.state_dict()}, file)
    assert not holds_only_weights(file, 8)
    file.write_text("weights in a format of the learner's own")
    assert not holds_only_weights(file, 8)


def test_the_share_of_one_rank_needs_a_sum_over_ranks() -> None:
    ((said, advice),) = wrong_number_tested(151, 2)
    assert said == "on 2 ranks, `tested` is 151 instead of 301: it is the share of one rank."
    assert "sums and counts on each rank, all_reduce them" in advice
    assert wrong_number_tested(300, 2)[0][0].endswith("some samples are left out.")
