"""check.job_script against its bank, and against Slurm's own idea of which directives are read."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from job_script_answers import DIRECT, HEAD, RIGHT, RUN, WRONG
from nights import by_day

from ddp_lessons import check
from ddp_lessons.check.clusters.job_script_exercise import TO_BE_REPAIRED
from ddp_lessons.check.trials import rehearsal
from ddp_lessons.train.machines import job_script

SCRIPTS = Path(__file__).parents[2] / "scripts" / "slurm"


@pytest.mark.parametrize("name", by_day(RIGHT, 6))
def test_right_scripts_pass(name: str) -> None:
    report = check.job_script(RIGHT[name])
    assert report.passed, report.text
    assert [line.split() for line in report.details[2:]] == [["gpu1", "1", "4"], ["gpu2", "1", "4"]]


@pytest.mark.parametrize("name", DIRECT)
def test_right_scripts_without_torchrun_pass(name: str) -> None:
    report = check.job_script(DIRECT[name])
    assert report.passed, report.text
    assert [line.split() for line in report.details[2:]] == [["gpu1", "0", "4"], ["gpu2", "0", "4"]]


def test_the_package_s_own_passes() -> None:
    assert check.job_script(job_script).passed


def test_the_project_s_script_passes_where_it_asks_for_the_gpus() -> None:
    ours = (SCRIPTS / "two_machines.sbatch").read_text(encoding="utf-8")
    with_gpus = ours.replace("##SBATCH --gpus-per-node=2", "#SBATCH --gpus-per-node=4")
    report = check.job_script(with_gpus, "many_machines.py")
    assert report.passed, report.text


@pytest.mark.parametrize("name", by_day(WRONG, 4))
def test_wrong_scripts_are_refused_by_name(name: str) -> None:
    script, sentence = WRONG[name]
    report = check.job_script(script)
    assert not report.passed
    assert sentence in report.mistake, report.text
    assert report.mistake.endswith(".")
    assert all(len(line) < 250 for line in report.text.split("\n"))


def test_the_script_to_be_repaired_is_not_started_and_has_four_mistakes() -> None:
    assert check.job_script(TO_BE_REPAIRED).text == "check.job_script: not started yet"
    report = check.job_script(TO_BE_REPAIRED.replace("task=16", "task=8"))
    assert "  3 more mistakes." in report.details
    assert report.text.split("\n")[1].startswith("  No torchrun runs on the second node")


def test_one_repair_after_the_other_leaves_one_mistake_less() -> None:
    left = []
    script = TO_BE_REPAIRED
    for old, new in [
        ("torchrun --nnodes", "srun torchrun --nnodes"),
        ("ntasks-per-node=4", "ntasks-per-node=1"),
        ("--nproc-per-node=1", "--nproc-per-node=4"),
        ("digits.py", "--rdzv-backend=c10d --rdzv-endpoint=$(hostname):29400 digits.py"),
    ]:
        script = script.replace(old, new)
        report = check.job_script(script)
        more = next((line for line in report.details if " more mistake" in line), "  0 more")
        left.append(0 if report.passed else int(more.split()[0]) + 1)
    assert left == [3, 2, 1, 0]


def test_a_script_that_does_not_end_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rehearsal, "PATIENCE_SECONDS", 0.5)
    monkeypatch.setattr(rehearsal, "slowness", lambda processes: 3.0)  # the sentence says how long it really was
    mistake = check.job_script(f"{HEAD}sleep 54321\n{RUN}").mistake
    assert "The script does not end within 1.5 seconds. Look for a command that never ends" in mistake
    assert not any("sleep 54321" in process for process in commands_of_all_processes())


def commands_of_all_processes() -> list[str]:
    shown = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True)
    return shown.stdout.splitlines()


def test_the_environment_of_the_notebook_stays_what_it_is() -> None:
    before = dict(os.environ)
    check.job_script(RIGHT["variables in place of options"])
    assert dict(os.environ) == before


def test_without_bash_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: None)
    assert check.job_script(job_script).mistake.startswith(
        "The check runs job scripts with bash, but this machine has no bash"
    )


def test_something_that_is_no_text_is_refused() -> None:
    assert check.job_script(3).mistake == "The check got an object of type int. Pass the text of the script."
