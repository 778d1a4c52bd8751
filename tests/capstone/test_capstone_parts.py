"""Broken solutions fail in the right part, with the right message; what is measured once more."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path

import psutil
import pytest
import torch
from broken_scripts import BROKEN
from judged import judged
from nights import by_day

from ddp_lessons.capstone.capstone_parts import throughput, wrong_number_tested
from ddp_lessons.capstone.capstone_trials import NotJudged, Trials
from ddp_lessons.capstone.checkpoint_content import holds_only_weights
from ddp_lessons.capstone.script_runs import Outcome

# of a part that is judged quickly
QUICK = ("an exception on the second rank",)


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


def ended(status: int, printed: str = "", steps: Sequence[float] = ()) -> Outcome:
    """A run in which rank 0 made these steps."""
    outcome = Outcome(Path(), status, 1.0, 10.0, printed)
    outcome.__dict__["noted"] = {0: {"steps": [(step, step) for step in steps]}}
    return outcome


class Measured(Trials):
    """Steps per second of two ranks, one measurement after the other; of each plain program it is 1."""

    speeds: tuple[float, ...]
    number = 0

    def run_alone(self) -> list[Outcome]:
        return [ended(0, steps=range(10))] * 2

    def run_reference(self, name: str) -> Outcome:
        self.number += 1
        return ended(0, steps=[step / self.speeds[self.number - 1] for step in range(10)])


def measured(*speeds: float) -> Measured:
    trials = Measured(Path("my_train.py"), Path(), random.Random(0))
    trials.speeds, trials.reference_result = speeds, {}
    return trials


def test_a_throughput_just_below_the_limit_is_measured_once_more() -> None:
    assert throughput(measured(0.95, 0.9, 0.94, 1.05)).passed is True


def test_a_throughput_far_below_the_limit_is_not() -> None:
    assert throughput(measured(0.8, 0.7, 0.8, 1.05)).passed is False


@pytest.mark.parametrize(("load", "is_told"), [(0.5, False), (500.0, True)])
def test_of_a_busy_machine_a_low_throughput_says_so(
    load: float, is_told: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(psutil, "getloadavg", lambda: (load, 0.0, 0.0))
    assert (
        any("The machine is busy (load 500.0 on " in line for line in throughput(measured(0.5, 0.5, 0.5)).lines)
        is is_told
    )


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
    assert "all_reduce the sums of the ranks" in advice
    assert wrong_number_tested(300, 2)[0][0].endswith("some samples are left out.")
