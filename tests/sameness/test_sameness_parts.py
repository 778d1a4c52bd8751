"""`same_as_one` and its command: what they watch, compare, report and refuse."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from broken_trainings import TRAINS
from nights import nightly
from tiny_trainings import BATCH, Job, batches, by_hand, data, loss_of, net, shards, training
from torch import Tensor, nn
from torch.nn.modules import module as global_hooks
from torch.optim import optimizer as optimizer_hooks

from ddp_lessons import WorkerFailed, same_as_one
from ddp_lessons.sameness.rank_watch import Watcher, plain_name
from ddp_lessons.sameness.rounding_limits import Limits
from ddp_lessons.sameness.run_records import CannotRead, RankRecord, Run, read_record
from ddp_lessons.sameness.sameness_command import copy_of_folder
from ddp_lessons.sameness.sameness_report import NOT_SHARED, judged, report_of
from ddp_lessons.sameness.snapshots import SUMS, sketch

PROJECT = Path(__file__).parent.parent.parent
SCRIPT = """
import sys
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("gloo")
rank, world_size = dist.get_rank(), dist.get_world_size()
torch.manual_seed(0)
model = DistributedDataParallel(nn.Linear(3, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1 * (world_size if "--scale" in sys.argv else 1))
inputs = torch.arange(36.0).view(12, 3).sin()
for batch in torch.arange(12).split(4):
    optimizer.zero_grad()
    model(inputs[batch[rank::world_size]]).square().mean().backward()
    optimizer.step()
if "--fail" in sys.argv:
    raise ValueError("as asked")
dist.destroy_process_group()
"""

RESUMED = """
import os
if os.path.exists("last.pt"):
    model.load_state_dict(torch.load("last.pt"))
"""
SAVED = 'torch.save(model.state_dict(), "last.pt") if rank == 0 else None'


def trained() -> RankRecord:
    """One rank, in this process."""
    watcher = Watcher(steps=2)
    with watcher:
        model = net()
        optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
        for inputs, targets in shards(0, 1):
            optimizer.zero_grad()
            loss_of(model, inputs, targets).backward()
            optimizer.step()
    return watcher.record()


def test_the_hooks_go_when_the_training_ends_or_fails() -> None:
    kept: list[Any] = [
        global_hooks._global_forward_pre_hooks,
        global_hooks._global_forward_hooks,
        global_hooks._global_module_registration_hooks,
        optimizer_hooks._global_optimizer_pre_hooks,
        optimizer_hooks._global_optimizer_post_hooks,
    ]
    before = [dict(hooks) for hooks in kept]
    model = net()
    with contextlib.suppress(ValueError), Watcher(steps=2):
        model(torch.ones(2, 4)).sum().backward()
        assert [dict(hooks) for hooks in kept] != before
        raise ValueError("in the middle")
    assert [dict(hooks) for hooks in kept] == before
    assert not any(parameter._backward_hooks for parameter in model.parameters())


def test_watching_changes_nothing_in_a_training() -> None:
    model = net()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
    for inputs, targets in list(shards(0, 1))[:2]:
        optimizer.zero_grad()
        loss_of(model, inputs, targets).backward()
        optimizer.step()
    watched = trained().steps[1].after
    for name, parameter in model.named_parameters():
        np.testing.assert_array_equal(watched[name].values, parameter.detach().numpy())


@pytest.mark.parametrize(
    ("wrapped", "plain"),
    [
        ("module._orig_mod.head.bias", "head.bias"),
        ("_fsdp_wrapped_module.body._checkpoint_wrapped_module.weight", "body.weight"),
    ],
)
def test_a_parameter_has_one_name_in_all_wrappers(wrapped: str, plain: str) -> None:
    assert plain_name(wrapped) == plain


def test_a_sketch_is_linear_and_keeps_the_distance() -> None:
    first, second = torch.randn(2, 300, 70, generator=torch.Generator().manual_seed(0)).numpy()
    whole = sketch(first + second, (300, 70), None)
    np.testing.assert_allclose(whole, sketch(first, (300, 70), None) + sketch(second, (300, 70), None), atol=1e-4)
    assert len(whole) == SUMS
    assert np.linalg.norm(whole) == pytest.approx(np.linalg.norm(first + second), rel=0.15)


def test_rounding_stays_below_the_limit_and_a_wrong_sample_does_not() -> None:
    """A mean of 4,096 float32 gradients in two orders, and with one sample twice."""
    record = trained().steps[0]
    terms = torch.randn(4096, generator=torch.Generator().manual_seed(0)) + 0.1
    in_order = {"w": terms.mean().numpy().reshape(1).astype(float)}
    by_ranks = {"w": torch.stack([part.mean() for part in terms.chunk(4)]).mean().numpy().reshape(1).astype(float)}
    doubled = {"w": torch.cat([terms, terms.max().view(1)]).mean().numpy().reshape(1).astype(float)}
    limit = Limits().gradient(record, 4096, in_order, by_ranks)
    assert abs(in_order["w"] - by_ranks["w"]) < limit / 10
    assert abs(in_order["w"] - doubled["w"]) > limit


@pytest.mark.no_second_try
@pytest.mark.parametrize("content", ['{"class": "array", "dtype": "O"}', "[1"])
def test_a_file_of_a_stranger_is_refused(tmp_path: Path, content: str) -> None:
    (tmp_path / "rank-0.json").write_text(content)
    with pytest.raises(CannotRead, match=r"rank-0\.json is not a rank's record"):
        read_record(tmp_path / "rank-0.json")


def test_the_report_of_the_same_training() -> None:
    report = same_as_one(training(), ranks=(1, 2))
    assert report.text.startswith("The same training on 1 and 2 ranks: 3 steps, gradients within ")
    assert (report.same, report.cause, report.step) == (True, "", None)
    assert len(report.gradients["2 ranks"]) == 3
    assert all(number < report.limit for number in report.gradients["2 ranks"])


def test_that_the_ranks_share_no_work_is_said_of_several_ranks_only() -> None:
    one = Run((trained(),))
    assert NOT_SHARED not in report_of([one, one]).lines
    assert NOT_SHARED in report_of([one, Run((trained(), trained()))]).lines


def test_the_report_names_step_parameter_cause_and_what_to_do() -> None:
    report = same_as_one(TRAINS["summed"], ranks=(2,))
    assert (report.same, report.cause, report.world_size, report.step) == (False, "sum_not_mean", 2, 0)
    first, where, cause, advice = report.lines
    assert first == "Not the same training: on 2 ranks, the gradients differ at step 0."
    assert where.startswith("  rank 0   step 0, gradient of `2.weight`: off by ")
    assert cause == (
        "Cause: The gradient of every parameter is 2 times that of one rank: "
        "the ranks' gradients are summed, not averaged."
    )
    assert advice == "Next: divide by world_size after all_reduce, or use a mean loss over the global batch."
    assert "ddp-wrong" in report._repr_html_()
    assert "gradients, 2 ranks" in str(report.picture)
    assert "the first difference is at step 0" in report.picture.svg


def test_the_report_counts_the_samples_of_each_rank() -> None:
    report = same_as_one(TRAINS["no_sampler"], ranks=(1, 2))
    assert report.lines[0] == "Not the same training: on 2 ranks, different samples enter the model in step 0."
    assert "  rank 1   6 samples, 6 of them among the 12 of one rank" in report.lines
    assert "Every rank gets the same 6 samples" in report.text


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("mean_of_unequal_means", "The ranks have 5 and 4 samples, but"),
        ("mean_of_unequal_means", "The correct weights are 0.556, 0.444."),
        ("rank_1_skips_a_step", "Rank 1 skipped an optimizer step: before step 1, there were 2 forward passes"),
        ("head_outside_of_ddp", "its own gradient of `2.bias` and `2.weight`: it is not averaged. Distributed"),
        ("stops_averaging", "all_reduce each gradient (and divide it by world_size if each rank's loss is a mean)."),
        ("skips_a_bad_batch", "The gradient of rank 1 is zero after its backward pass, but counts in the average."),
        ("forgets_its_gradient", "The gradient of rank 1 is left out of the average."),
        ("other_optimizer", "The optimizer's class is Adam on rank 0, but AdamW in the run on one rank."),
        ("only_rank_0_steps", "rank 0 takes 3, rank 1 takes 0; a single rank takes 3."),
        ("seed_depends_on_the_ranks", "The initial weights of ranks 0 and 1 differ from those of one rank, although"),
    ],
)
def test_the_report_says_what_the_numbers_show(name: str, told: str) -> None:
    assert told in same_as_one(TRAINS[name], ranks=(1, 2)).text


def sum_loss(job: Job, inputs: Tensor, targets: Tensor) -> Tensor:
    """Divided by the number of all samples; DDP divides by world_size, too."""
    return loss_of(job.model, inputs, targets, reduction="sum") / BATCH


def loss_divided_twice_more(job: Job, inputs: Tensor, targets: Tensor) -> Tensor:
    return loss_of(job.model, inputs, targets) / job.world_size**2


@pytest.mark.parametrize(
    ("loss", "cause", "told"),
    [
        (
            sum_loss,
            "averaged_twice",
            "scaled one rank's gradient by 0.8, the gradient of every parameter is 1/2 of",
        ),
        (loss_divided_twice_more, "factor", "clipped before they were compared, so the true factor is smaller."),
    ],
)
def test_a_division_too_many_is_seen_through_clipping(loss: Any, cause: str, told: str) -> None:
    model = net()
    loss_of(model, *next(batches())).backward()
    norm = nn.utils.clip_grad_norm_(model.parameters(), 1e9).item()
    clip = lambda job: nn.utils.clip_grad_norm_(job.parameters, 0.8 * norm)  # noqa: E731
    report = same_as_one(training(loss=loss, before_step=clip), ranks=(2,))
    assert report.cause == cause
    assert told in report.text
    assert "multiply the loss by world_size if it is already divided by the number of samples or tokens" in report.text


def entered(*rows: int) -> RankRecord:
    """One step of a rank with these samples."""
    watcher = Watcher(steps=1)
    with watcher:
        model = net()
        optimizer = torch.optim.SGD(model.parameters())
        loss_of(model, *(one[list(rows)] for one in data())).backward()  # type: ignore[arg-type]
        optimizer.step()
    return watcher.record()


def test_what_cannot_run_in_float64_is_told_before_what_to_do() -> None:
    def run(size: int, in_float64: bool) -> Run:
        if in_float64:
            raise RuntimeError("as asked")
        return Run(tuple(entered(rank, 2) for rank in range(size)))

    report = judged(run, (1, 2), (), False)
    assert report.same is False
    assert [line.split()[0] for line in report.lines[-3:]] == ["Cause:", "The", "Next:"]


def penalty_alone(job: Job, inputs: Tensor, targets: Tensor) -> Tensor:
    """The gradients are not even averaged."""
    return 0 * loss_of(job.model, inputs, targets) + torch.stack([one.square().sum() for one in job.parameters]).sum()


@pytest.mark.parametrize(
    ("train", "told"),
    [
        (training(loss=lambda job, inputs, targets: 0 * loss_of(job.model, inputs, targets)), "every gradient is zero"),
        (by_hand(lambda job: None, loss=penalty_alone), "the gradients do not depend on the samples"),
    ],
)
def test_gradients_that_agree_in_any_case_tell_nothing(train: Any, told: str) -> None:
    report = same_as_one(train, ranks=(1, 2))
    assert report.same is None
    assert report.lines[0].startswith(f"Could not tell whether it is the same training: {told}")


def test_a_function_without_an_optimizer_cannot_be_told() -> None:
    def trains_nothing(rank: int, world_size: int) -> None:
        net()(torch.ones(2, 4))

    report = same_as_one(trains_nothing, ranks=(1, 2))
    assert report.same is None
    assert report.lines == (
        "Could not tell whether it is the same training: no optimizer from torch.optim took a step on 1 rank, so there "
        "is nothing to compare.",
        "Next: call step() on an optimizer from torch.optim; updates that you make by hand are not recorded.",
    )


def test_a_function_that_takes_no_rank_is_refused_by_the_name_of_what_was_called() -> None:
    def train() -> None: ...

    with pytest.raises(
        TypeError, match=r"^same_as_one calls train\(rank, world_size\), but it is defined as train\(\)"
    ):
        same_as_one(train)


def test_of_more_steps_than_were_compared_no_more_is_claimed() -> None:
    report = same_as_one(training(), ranks=(3,), steps=2)
    assert report.lines[0].startswith("The same training on 1 and 3 ranks: the first 2 of 3 steps, gradients within ")
    assert report.lines[1:3] == (
        "In later steps, only samples and optimizer settings were compared.",
        "To compare more steps in full, raise `steps` (`--steps`).",
    )


def test_a_function_that_fails_fails_as_in_launch() -> None:
    def fails(rank: int, world_size: int) -> None:
        raise ValueError("as asked")

    with pytest.raises(WorkerFailed, match="rank 0 of 1 raised ValueError: as asked"):
        same_as_one(fails)


@pytest.mark.parametrize(
    ("asked", "refusal"),
    [
        ({"ranks": (1,)}, "nothing to compare"),
        ({"random": ["noise"]}, "random= accepts 'dropout' and 'augmentation', not 'noise'"),
        ({"steps": 0}, "steps must be the number of optimizer steps to compare, at least 1, not 0"),
        ({"ranks": 2}, r"ranks must list the numbers of ranks to compare, such as ranks=\(1, 2\), not 2"),
        ({"dtype": "float64"}, "dtype must be a floating-point dtype such as torch.float64, not 'float64'"),
    ],
)
def test_what_cannot_be_asked_is_refused(asked: dict[str, object], refusal: str) -> None:
    with pytest.raises((TypeError, ValueError), match=refusal):
        same_as_one(training(), **asked)  # type: ignore[arg-type]


def command(*asked: str, folder: Path = PROJECT) -> subprocess.CompletedProcess[str]:
    words = [sys.executable, "-m", "ddp_lessons", "same-as-one", *asked]
    return subprocess.run(words, cwd=folder, capture_output=True, text=True, check=False)


@pytest.fixture
def script(tmp_path: Path) -> str:
    (tmp_path / "train.py").write_text(SCRIPT, encoding="utf-8")
    return str(tmp_path / "train.py")


@nightly
@pytest.mark.no_second_try
def test_a_script_that_is_not_the_same_ends_with_1(script: str) -> None:
    with open(script, "a", encoding="utf-8") as file:
        file.write("assert torch.get_default_dtype() == torch.float32\n")
    ended = command("--ranks", "2", script, "--", "--scale")
    assert (ended.returncode, ended.stderr) == (1, "")
    assert ended.stdout.startswith("Not the same training: on 2 ranks, the weights differ after step 0.")
    assert "Cause: The learning rate at step 0 is 0.2 on rank 0, 2 times that of one rank (0.1)." in ended.stdout


@pytest.mark.no_second_try
def test_no_run_goes_on_from_what_another_has_saved(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(SCRIPT.replace("optimizer =", RESUMED + "optimizer =") + SAVED, encoding="utf-8")
    ended = command("train.py", folder=tmp_path)
    assert ended.returncode == 0, ended.stdout
    assert ended.stdout.startswith("The same training on 1 and 2 ranks: 3 steps, gradients within ")
    assert [path.name for path in tmp_path.iterdir()] == ["train.py"]


def test_of_a_folder_what_a_script_may_change_is_copied_and_the_rest_is_linked(tmp_path: Path) -> None:
    folder = tmp_path / "there"
    (folder / "runs" / "first").mkdir(parents=True)
    (folder / ".git").mkdir()
    (folder / "images").mkdir()
    for number in range(1001):
        (folder / "images" / str(number)).touch()
    (folder / "runs" / "first" / "last.pt").write_text("as it was")
    (folder / "gone").symlink_to(tmp_path / "nowhere")
    (folder / "temporary").mkdir()
    copy = copy_of_folder(folder, folder / "temporary" / "copy")
    (copy / "runs" / "first" / "last.pt").write_text("another")
    assert (folder / "runs" / "first" / "last.pt").read_text() == "as it was"
    assert {path.name for path in copy.iterdir() if path.is_symlink()} == {".git", "images", "gone", "temporary"}


@nightly
def test_of_a_script_that_fails_nothing_is_told_and_its_last_lines_are_shown(script: str) -> None:
    ended = command(script, "--", "--fail")
    assert ended.returncode == 2
    assert "Could not tell whether it is the same training: on 1 rank, the script failed" in ended.stdout
    assert "ValueError: as asked" in ended.stderr
    assert (
        f"Next: get the script to run on its own first: torchrun --standalone --nproc-per-node=1 {script} --fail"
        in (ended.stdout)
    )


def test_a_script_that_takes_too_long_is_ended_and_explain_is_named(script: str) -> None:
    ended = command(script, "--timeout", "0.5")
    assert ended.returncode == 2
    assert "on 1 rank, the script did not end within 0.5 seconds" in ended.stdout
    assert f"see where each rank waits: python -m ddp_lessons explain --nproc-per-node 1 {script}" in ended.stdout


@pytest.mark.parametrize(
    ("asked", "refusal"),
    [
        (["train.py", "--epochs", "3"], "--epochs 3 belongs after two dashes: SCRIPT -- --epochs 3"),
        (["train.py", "--ranks", "1"], "--ranks needs the numbers of ranks to compare with one rank"),
        (["nowhere.py"], "there is no script nowhere.py"),
    ],
)
def test_a_command_that_cannot_work_is_refused(asked: list[str], refusal: str) -> None:
    ended = command(*asked)
    assert ended.returncode == 2
    assert refusal in ended.stderr
