"""A real Slurm: a controller and two machines with networks of their own.

The job scripts run there, `launch(..., on=Slurm(...))` requests nodes, and `explain --on slurm` uses those of its job.
That values, lines, records and failures are those of a launch here is tested in test_launch_on_nodes.py and
test_failures_on_nodes.py.
"""

from __future__ import annotations

import re
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import cloudpickle  # type: ignore[import-untyped]
import psutil
import pytest
from nights import nightly
from notebook_session import Cell, NotebookSession
from places import here, places_of
from processes import PROJECT, Program, eventually, when_a_launch_waits
from slurm_sites import allocate, is_empty_soon, is_repaired, prefix_of, queue

from ddp_lessons import WorkerFailed, Workers, launch
from ddp_lessons.check import rehearsal
from ddp_lessons.machines import SlurmOnMachines
from ddp_lessons.run.nodes.hosts import NodeLost

pytestmark = nightly

cloudpickle.register_pickle_by_value(sys.modules[__name__])

SCRIPTS = PROJECT / "scripts" / "slurm"


def daemons_of(site: SlurmOnMachines) -> set[str]:
    configuration = f"{site.folder}/slurm.conf"
    processes = [one.info for one in psutil.process_iter(["name", "environ"])]
    return {one["name"] for one in processes if (one["environ"] or {}).get("SLURM_CONF") == configuration}


@pytest.fixture(scope="module")
def site() -> Iterator[SlurmOnMachines]:
    """No job may be left of any test, and nothing of the cluster."""
    with here(SlurmOnMachines(2)) as site:
        assert {"munged", "slurmctld", "slurmd"} <= daemons_of(site)
        yield site
        assert is_empty_soon(site)
    assert not site.folder.exists()
    assert not daemons_of(site)


def written(folder: Path, text: str) -> Path:
    (folder / "job.sbatch").write_text(f"#!/bin/bash\n{text}")
    return folder / "job.sbatch"


def test_what_a_job_prints_lands_in_the_file_that_it_names(site: SlurmOnMachines, tmp_path: Path) -> None:
    script = written(tmp_path, f"#SBATCH --job-name=x -o {tmp_path}/hello_%j.out\necho job $SLURM_JOB_ID\n")
    (line,) = site.sbatch(script).lines()
    assert (tmp_path / f"hello_{line.split()[1]}.out").read_text() == f"{line}\n"


@pytest.mark.parametrize(("name", "nodes"), [("one_machine", "00"), ("two_machines", "0011")])
def test_the_job_scripts_train_on_their_nodes(
    site: SlurmOnMachines, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, nodes: str
) -> None:
    (tmp_path / "scripts").symlink_to(SCRIPTS.parent)
    monkeypatch.chdir(tmp_path)  # where they find scripts/, and where their --output leaves its file
    few = f"--epochs 1 --samples 256 --checkpoint {tmp_path}/digits.pt"
    attempt = site.sbatch(SCRIPTS / f"{name}.sbatch", few, timeout_seconds=120)
    assert attempt.statuses == (0,), attempt
    places = places_of(attempt)
    assert [(rank, size) for rank, size, _ in places] == [(str(rank), str(len(nodes))) for rank in range(len(nodes))]
    assert sorted(machine for *_, machine in places) == [f"machine{node}" for node in nodes]
    assert attempt.has("recognizes")


def test_a_job_that_takes_too_long_is_cancelled_and_the_next_one_runs(site: SlurmOnMachines, tmp_path: Path) -> None:
    attempt = site.sbatch(written(tmp_path, "echo begins\nsrun sleep 100\n"), timeout_seconds=8)
    assert (attempt.statuses, attempt.lines()[0]) == ((None,), "begins")
    assert site.sbatch(written(tmp_path, "exit 3\n"), timeout_seconds=20).statuses == (3,)


def test_a_job_that_can_never_begin_says_why(
    site: SlurmOnMachines, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ddp_lessons.machines.slurm_on_machines._SECONDS_IN_LINE", 2.0)
    attempt = site.sbatch(written(tmp_path, "#SBATCH --nodes=3\nhostname\n"), timeout_seconds=60)
    assert attempt.statuses == (None,)
    (line,) = attempt.lines()
    assert re.fullmatch(r"squeue: PENDING \(Partition(NodeLimit|Config)\)", line), line  # sooner or later the other


REHEARSED = """\
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


def test_a_rehearsal_sets_what_slurm_sets_and_starts_what_slurm_starts(site: SlurmOnMachines, tmp_path: Path) -> None:
    """`check.job_script` is right only if its stand-ins are."""
    real = site.sbatch(script := written(tmp_path, REHEARSED), timeout_seconds=30)
    assert real.statuses == (0,), real
    _, printed = rehearsal.rehearse(script.read_text())
    ours = [re.sub("name job", "name job.sbatch", line) for line in printed.splitlines()]
    # a task may have to wait a moment for one that has just ended: srun says so, and goes on
    said = [line for line in real.lines() if not re.match(r"srun: (Job \d+ step creation|Step created)", line)]
    assert ours == said


def node_of(rank: int, world_size: int) -> str:
    return socket.gethostname()


def test_one_job_with_the_options_of_salloc_is_held_for_all_launches_of_the_block(site: SlurmOnMachines) -> None:
    with allocate(site, nodes=2, time=7, cpus_per_task=3, exclusive=True) as cluster:
        (job,) = queue(site)
        assert repr(cluster).endswith(f": job {job} on machine0, machine1")
        about = site.run(f"scontrol show job {job}").split()
        assert {"TimeLimit=00:07:00", "CPUs/Task=3", "NumNodes=2", "OverSubscribe=NO"} <= set(about)
        assert list(launch(node_of, 4, on=cluster)) == ["machine0"] * 2 + ["machine1"] * 2
        with Workers(2, on=cluster) as workers:
            assert list(workers.run(node_of)) == ["machine0", "machine1"]
        assert queue(site) == [job]
        forgotten = Workers(2, on=cluster)
    assert is_empty_soon(site)
    with pytest.raises(NodeLost, match="the nodes were released"):
        forgotten.run(node_of)


def test_without_a_block_the_job_ends_with_close_or_with_the_object_or_the_program(site: SlurmOnMachines) -> None:
    cluster = allocate(site)
    assert not queue(site)
    cluster.commands()
    assert len(queue(site)) == 1
    cluster.close()
    assert is_empty_soon(site)
    cluster.commands()
    assert queue(site)
    del cluster
    assert is_empty_soon(site)
    assert Program(prefix_of(site) + "print(cluster.commands()[1].node)").finish() == "machine1\n"
    assert is_empty_soon(site)


def test_what_slurm_refuses_is_said_in_its_own_words(site: SlurmOnMachines) -> None:
    with pytest.raises(RuntimeError) as by_hand:
        site.run("salloc --partition=nope true")
    with pytest.raises(NodeLost, match=r"Slurm allocated no nodes: .*\n  Next: ") as refused:
        allocate(site, partition="nope").commands()
    assert str(refused.value).splitlines()[0].removeprefix("Slurm allocated no nodes: ") in str(by_hand.value)


def test_the_cell_says_that_it_waits_and_the_stop_button_takes_it_out_of_the_queue(site: SlurmOnMachines) -> None:
    with allocate(site, nodes=2, exclusive=True), NotebookSession() as notebook:
        notebook.run(prefix_of(site))

        def stop_when_it_waits(cell: Cell) -> None:
            if "queued and waiting" in cell.text:
                notebook.interrupt()

        cell = notebook.finish(notebook.begin("cluster.__enter__()"), whenever=stop_when_it_waits)
        said = [data["text/plain"] for _, data in cell.updates if data]
        assert re.fullmatch(r"salloc: job \d+ queued and waiting for resources … \d+ s", said[-1])
        assert cell.error.startswith("KeyboardInterrupt: you stopped waiting for nodes, so the request was canceled")
        assert eventually(lambda: not queue(site, "--states=PENDING"))
        with Program(f"{prefix_of(site)}\ncluster.commands()") as other:
            assert eventually(lambda: len(queue(site, "--states=PENDING")) == 1)
            other.kill()  # of a notebook that is killed, nothing waits either
            assert eventually(lambda: not queue(site, "--states=PENDING"))
    assert is_empty_soon(site)


SLEEP_ON_IT = """
def sleep_long(rank, world_size):
    import time
    print("sleeps", flush=True)
    time.sleep(600)
launch(sleep_long, 2, on=cluster)
"""


@pytest.mark.no_second_try
def test_of_a_notebook_that_is_killed_no_job_and_no_rank_is_left(site: SlurmOnMachines) -> None:
    with Program(prefix_of(site) + SLEEP_ON_IT) as program:
        program.wait_until_said("sleeps", times=2)
        assert queue(site)
        program.kill()
        assert is_empty_soon(site)
        assert eventually(lambda: not program.marked()), program.marked()


@pytest.mark.parametrize("end", ["scancel {job}", "scontrol update nodename=machine1 state=down reason=test"])
def test_a_job_that_ends_during_a_launch_is_named_and_the_next_launch_requests_another(
    site: SlurmOnMachines, end: str
) -> None:
    with allocate(site, nodes=2) as cluster:
        (job,) = queue(site)
        when_a_launch_waits(lambda: site.run(end.format(job=job)), after_seconds=1.0)
        with pytest.raises(WorkerFailed, match="Next: check whether machine") as caught:
            launch(lambda rank, world_size: time.sleep(600), 4, on=cluster, timeout_seconds=None)
        lost = r"(ranks \d and \d|all 4 ranks).* lost together with the connection to machine\d"
        assert re.match(lost, str(caught.value))
        assert eventually(lambda: is_repaired(site))
        assert list(launch(node_of, 2, on=cluster)) == ["machine0", "machine1"]
        assert len(queue(site)) == 1
        assert queue(site) != [job]
    assert is_empty_soon(site)


def test_a_notebook_in_a_job_uses_that_job_and_leaves_it(
    site: SlurmOnMachines, monkeypatch: pytest.MonkeyPatch
) -> None:
    site.run("salloc --no-shell --nodes=2")
    (job,) = queue(site)
    monkeypatch.setenv("SLURM_JOB_ID", job)
    monkeypatch.setenv("SLURM_JOB_NODELIST", "machine[0-1]")
    monkeypatch.setenv("SLURM_NTASKS", "7")  # as in a job; it must not become an option of ours
    with allocate(site) as cluster:
        assert list(launch(node_of, 2, on=cluster)) == ["machine0", "machine1"]
    assert queue(site) == [job]
    site.run(f"scancel {job}")
    assert is_empty_soon(site)


def in_a_job(site: SlurmOnMachines, *command: str) -> subprocess.CompletedProcess[str]:
    """As typed after `salloc --nodes=2`."""
    job = ["env", f"SLURM_CONF={site.folder}/slurm.conf", f"PYTHONPATH={PROJECT}", "salloc", "--nodes=2"]
    return site.machines.run(0, [*job, *command])


EXPLAIN = [sys.executable, "-m", "ddp_lessons", "explain"]
UNEVEN = """
import torch, torch.distributed as dist
dist.init_process_group("gloo")
if dist.get_rank() != dist.get_world_size() - 1:
    dist.all_reduce(torch.ones(2))
"""


def test_explain_in_a_job_runs_on_the_nodes_of_the_job(site: SlurmOnMachines, tmp_path: Path) -> None:
    (script := tmp_path / "train.py").write_text(UNEVEN)
    done = in_a_job(site, *EXPLAIN, "--on", "slurm", "--nproc-per-node", "2", str(script))
    assert done.returncode == 1
    assert "WorkersStuck: hang, no rank can make progress" in done.stderr
    assert "    rank 2 on machine1   waits in all_reduce of float32 [2] (train.py line 5:" in done.stderr
    assert "    rank 3 on machine1   has returned" in done.stderr


def test_srun_of_explain_is_refused_once(site: SlurmOnMachines) -> None:
    done = in_a_job(site, "srun", "--ntasks=2", *EXPLAIN, f"{PROJECT}/scripts/many_machines.py")
    assert done.returncode == 2
    assert done.stderr.count("explain cannot start: srun has started it in several tasks") == 1
    assert "explain --on slurm --nproc-per-node N SCRIPT` starts N ranks on each node." in done.stderr
