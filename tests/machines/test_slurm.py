"""The job scripts, submitted to a real Slurm: a controller and two machines with networks of their own."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from nights import nightly
from places import here, places_of

from ddp_lessons.check import rehearsal
from ddp_lessons.machines import SlurmOnMachines

pytestmark = nightly

SCRIPTS = Path(__file__).parents[2] / "scripts" / "slurm"


@pytest.fixture(scope="module")
def slurm() -> Iterator[SlurmOnMachines]:
    with here(SlurmOnMachines(2)) as cluster:
        yield cluster


def test_srun_reaches_both_machines(slurm: SlurmOnMachines) -> None:
    assert sorted(slurm.run("srun --nodes=2 --ntasks-per-node=1 hostname").split()) == ["machine0", "machine1"]


@pytest.fixture
def folder_with_scripts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the job scripts find `scripts/`, and where their --output leaves its file."""
    (tmp_path / "scripts").symlink_to(SCRIPTS.parent)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("option", ["--output=hello_%j.out", "-o hello_%j.out", "--job-name=x -o hello_%j.out"])
def test_what_a_job_prints_lands_in_a_file_with_its_number(
    option: str, slurm: SlurmOnMachines, folder_with_scripts: Path
) -> None:
    script = folder_with_scripts / "hello.sbatch"
    script.write_text(f"#!/bin/bash\n#SBATCH {option}\necho job $SLURM_JOB_ID\n")
    (line,) = slurm.sbatch(script, timeout_seconds=30).lines()
    assert (folder_with_scripts / f"hello_{line.split()[1]}.out").read_text() == f"{line}\n"


def test_a_job_whose_script_names_no_file_leaves_none(slurm: SlurmOnMachines, folder_with_scripts: Path) -> None:
    script = folder_with_scripts / "hello.sbatch"
    script.write_text("#!/bin/bash\necho hello\n")
    assert slurm.sbatch(script, timeout_seconds=30).lines() == ["hello"]
    assert not [*folder_with_scripts.glob("*.out")]


def test_a_job_on_one_machine_trains_and_says_so(slurm: SlurmOnMachines, folder_with_scripts: Path) -> None:
    few = f"--epochs 1 --samples 256 --checkpoint {folder_with_scripts}/one.pt"
    attempt = slurm.sbatch(SCRIPTS / "one_machine.sbatch", few, timeout_seconds=90)
    assert attempt.statuses == (0,), attempt
    assert places_of(attempt) == [("0", "2", "machine0"), ("1", "2", "machine0")]
    assert attempt.has("recognizes")


def test_a_job_on_two_machines_trains_on_both(slurm: SlurmOnMachines, folder_with_scripts: Path) -> None:
    few = f"--epochs 1 --samples 256 --checkpoint {folder_with_scripts}/two.pt"
    attempt = slurm.sbatch(SCRIPTS / "two_machines.sbatch", few, timeout_seconds=120)
    assert attempt.statuses == (0,), attempt
    places = places_of(attempt)
    assert [(rank, size) for rank, size, _ in places] == [(str(rank), "4") for rank in range(4)]
    assert sorted(machine for _, _, machine in places) == ["machine0", "machine0", "machine1", "machine1"]
    assert attempt.has("recognizes")


def test_a_job_that_takes_too_long_is_cancelled_and_the_next_one_runs(slurm: SlurmOnMachines, tmp_path: Path) -> None:
    script = tmp_path / "sleep.sbatch"
    script.write_text("#!/bin/bash\necho begins\nsrun sleep 100\n")
    attempt = slurm.sbatch(script, timeout_seconds=8)  # Slurm may take three seconds to begin a job
    assert attempt.statuses == (None,)
    assert attempt.lines()[0] == "begins"
    script.write_text("#!/bin/bash\nexit 3\n")
    assert slurm.sbatch(script, timeout_seconds=20).statuses == (3,)


def test_a_job_that_can_never_begin_says_why(
    slurm: SlurmOnMachines, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ddp_lessons.machines.slurm_on_machines._SECONDS_IN_LINE", 2.0)
    script = tmp_path / "three.sbatch"
    script.write_text("#!/bin/bash\n#SBATCH --nodes=3\nhostname\n")
    attempt = slurm.sbatch(script, timeout_seconds=60)
    assert attempt.statuses == (None,)
    (line,) = attempt.lines()
    assert re.fullmatch(r"squeue: PENDING \(Partition(NodeLimit|Config)\)", line), line  # sooner or later the other


REHEARSED = """\
#!/bin/bash
#SBATCH --nodes=2 --ntasks-per-node=2 --partition=lesson --time=00:05:00
# a comment
#SBATCH --cpus-per-task=1   # and a word
echo SLURM_NNODES=$SLURM_NNODES SLURM_NTASKS_PER_NODE=$SLURM_NTASKS_PER_NODE SLURM_CPUS_PER_TASK=$SLURM_CPUS_PER_TASK
#SBATCH --job-name=too_late
echo name $SLURM_JOB_NAME
scontrol show hostnames $SLURM_JOB_NODELIST | wc -l
srun bash -c 'echo task $SLURM_PROCID node $SLURM_NODEID local $SLURM_LOCALID of $SLURM_NTASKS' | sort
srun -N 1 -n 1 bash -c 'echo alone $SLURM_PROCID $SLURM_NODEID $SLURM_NTASKS'
srun -n 2 --ntasks-per-node=1 bash -c 'echo one $SLURM_PROCID $SLURM_NODEID $SLURM_LOCALID' | sort
srun --ntasks-per-node=1 bash -c 'echo still $SLURM_PROCID $SLURM_NODEID $SLURM_LOCALID' 2> /dev/null | sort
"""


def test_a_rehearsal_sets_what_slurm_sets_and_starts_what_slurm_starts(slurm: SlurmOnMachines, tmp_path: Path) -> None:
    """The check of job scripts stands or falls with its stand-ins."""
    script = tmp_path / "both.sbatch"
    script.write_text(REHEARSED)
    real = slurm.sbatch(script, timeout_seconds=30)
    assert real.statuses == (0,), real
    _, printed = rehearsal.rehearse(REHEARSED)
    ours = [re.sub("name job", "name both.sbatch", line) for line in printed.splitlines()]
    # a task may have to wait a moment for one that has just ended: srun says so, and goes on
    said = [line for line in real.lines() if not re.match(r"srun: (Job \d+ step creation|Step created)", line)]
    assert ours == said


@pytest.mark.no_second_try
def test_nothing_of_a_cluster_is_left() -> None:
    import psutil

    with here(SlurmOnMachines(1)) as cluster:
        folder = cluster.folder
        names = {process.info["name"] for process in psutil.process_iter(["name"])}
        assert {"munged", "slurmctld", "slurmd"} <= names
    assert not folder.exists()
    left = [p.info for p in psutil.process_iter(["name", "cmdline"])]
    left = [one for one in left if one["name"] in ("munged", "slurmctld", "slurmd")]
    assert not [one for one in left if str(folder) in " ".join(one["cmdline"] or [])]
