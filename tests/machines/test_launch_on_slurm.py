"""`launch(..., on=Slurm(...))` in a real Slurm: how the job ends, and what a launch says of it.

That values, lines, records and failures are those of a launch here is tested in test_launch_on_nodes.py, which runs on
Slurm's nodes, too; how nodes are requested, in test_slurm_requests.py.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import socket
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import cloudpickle  # type: ignore[import-untyped]
import psutil
import pytest
from nights import nightly
from places import here
from processes import Doorbell, Program, eventually
from slurm_sites import allocate, is_empty_soon, is_repaired, job_of, prefix_of, queue

from ddp_lessons import Slurm, WorkerFailed, Workers, launch
from ddp_lessons.machines import SlurmOnMachines, slurm_on_machines
from ddp_lessons.run.nodes.hosts import NodeLost

pytestmark = nightly

cloudpickle.register_pickle_by_value(sys.modules[__name__])

TASK = ("SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID")


@pytest.fixture(scope="module")
def site() -> Iterator[SlurmOnMachines]:
    with here(SlurmOnMachines(2)) as site:
        yield site
        assert not queue(site)


def of_slurm(rank: int, world_size: int) -> tuple[str, list[str]]:
    return socket.gethostname(), [os.environ[name] for name in TASK]


def ring_and_sleep(rank: int, world_size: int, bell: str) -> None:
    with open(bell, "w") as opened:
        opened.write("!")
    time.sleep(600)


def test_one_job_is_held_for_all_launches_and_ends_with_the_block(site: SlurmOnMachines) -> None:
    with allocate(site, nodes=2, time_minutes=30) as cluster:
        (job,) = queue(site)
        assert repr(cluster) == f"Slurm(--nodes=2 --time=30): job {job} on machine0, machine1"
        first = list(launch(of_slurm, 4, on=cluster))
        with Workers(4, on=cluster) as workers:
            assert list(workers.run(of_slurm)) == first
        assert queue(site) == [job]
        # the variables of tasks, in each of which srun starts a rank, as many programs expect
        echo = 'echo "$SLURMD_NODENAME ' + " ".join(f"${name}" for name in TASK) + '"'
        said = site.run(f"srun --nodes=2 --ntasks-per-node=2 --distribution=block sh -c '{echo}'").splitlines()
        assert sorted(said) == [" ".join([node, *variables]) for node, variables in first]
        agents = processes_on(site, "agent.serve")
        assert len(agents) == 2
    assert is_empty_soon(site)
    assert not processes_on(site, "agent.serve", "template.serve", "rank_main")


def processes_on(site: SlurmOnMachines, *words: str) -> list[str]:
    """The processes of both nodes whose command has one of these words, without those of srun itself."""
    found = []
    for process in [child for pid in site.machines._pids for child in psutil.Process(pid).children(recursive=True)]:
        with contextlib.suppress(psutil.NoSuchProcess):  # it has ended meanwhile
            program, *rest = process.cmdline() or [""]
            if any(word in part for part in rest for word in words) and "srun" not in program:
                found.append(" ".join([program, *rest]))
    return found


def test_without_a_block_the_job_ends_with_close_or_with_the_object(site: SlurmOnMachines) -> None:
    cluster = allocate(site)
    assert not queue(site)
    cluster.commands()
    assert queue(site) == [job_of(cluster)]
    cluster.close()
    assert is_empty_soon(site)
    cluster.commands()
    assert queue(site)
    del cluster
    assert is_empty_soon(site)
    assert Program(prefix_of(site) + "print(cluster.commands()[1].node)").finish() == "machine1\n"
    assert is_empty_soon(site)


SLEEP_ON_IT = """
import time
def sleep_long(rank, world_size):
    print("sleeps", flush=True)
    time.sleep(600)
launch(print, 2, on=cluster)
if os.fork():
    launch(sleep_long, 2, on=cluster)
else:
    time.sleep(600)
"""


@pytest.mark.no_second_try
def test_of_a_notebook_that_is_killed_no_job_and_no_rank_is_left(site: SlurmOnMachines) -> None:
    with Program(prefix_of(site) + SLEEP_ON_IT) as program:
        program.wait_until_said("sleeps", times=2)
        assert queue(site)
        program.kill()
        assert is_empty_soon(site)
        # a process that the notebook forked holds nothing of all this
        assert eventually(lambda: len(program.marked()) == 1), program.marked()


@pytest.mark.parametrize(
    ("end", "words", "step"),
    [
        ("scancel {job}", "was cancelled", "launch again, which requests nodes again"),
        pytest.param(
            "scontrol update nodename=machine1 state=down reason=test",
            "ended because one of its nodes failed",
            "launch again, which requests other nodes",
            marks=nightly,
        ),
    ],
)
def test_a_job_that_ends_during_a_launch_is_named_and_the_next_launch_requests_another(
    site: SlurmOnMachines, tmp_path: Path, end: str, words: str, step: str
) -> None:
    bell = Doorbell(tmp_path)
    with allocate(site, nodes=2) as cluster:
        failure, job = ended_by(site, cluster, bell, end)
        assert re.match(r"ranks \d and \d of 4 on machine\d were lost together with the connection", failure)
        assert re.search(rf"Last output: lost the connection to machine\d: job {job} {words}", failure)
        assert f"Next: {step}" in failure
        assert eventually(lambda: is_repaired(site))
        assert [node for node, _ in launch(of_slurm, 2, on=cluster)] == ["machine0", "machine1"]
        assert job_of(cluster) != job
    assert is_empty_soon(site)
    bell.close()


def ended_by(site: SlurmOnMachines, cluster: Slurm, bell: Doorbell, end: str) -> tuple[str, str]:
    """What a launch raises whose job ends so, when all its ranks run; and the job."""
    jobs = []

    def end_it() -> None:
        bell.wait_for(4, seconds=60)
        jobs.append(job_of(cluster))
        site.run(end.format(job=jobs[0]))

    ender = threading.Thread(target=end_it)
    ender.start()
    with pytest.raises(WorkerFailed) as caught:
        launch(ring_and_sleep, 4, bell.path, on=cluster, timeout_seconds=None)
    ender.join()
    return str(caught.value), jobs[0]


@nightly
def test_a_job_that_reaches_its_time_limit_is_named(site: SlurmOnMachines, tmp_path: Path) -> None:
    bell = Doorbell(tmp_path)
    with allocate(site, nodes=2, time_minutes=1) as cluster:
        failure, job = ended_by(site, cluster, bell, "scontrol update jobid={job} EndTime=now")
        assert f"job {job} reached its time limit" in failure
        assert "Next: request more with Slurm(..., time_minutes=...), then launch again." in failure
        assert is_empty_soon(site)
        assert site.run("hostname", machine=0).strip() == "machine0"
    bell.close()


@nightly
def test_a_job_that_is_preempted_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    urgent = "PreemptType=preempt/partition_prio\nPreemptMode=CANCEL\nPartitionName=urgent Nodes=ALL PriorityTier=9\n"
    monkeypatch.setattr(slurm_on_machines, "_CONFIGURATION", slurm_on_machines._CONFIGURATION + urgent)
    bell = Doorbell(tmp_path)
    with here(SlurmOnMachines(2)) as site, allocate(site, nodes=2, exclusive=True) as cluster:
        urgent = "salloc --no-shell --nodes=2 --exclusive --partition=urgent"
        failure, job = ended_by(site, cluster, bell, urgent)
        assert f"job {job} was preempted by a more important job" in failure
        assert "Next: launch again, which requests nodes again; choose a partition or QOS" in failure
    bell.close()


def test_a_step_that_slurm_refuses_is_a_sentence(site: SlurmOnMachines) -> None:
    with allocate(site, nodes=2, options=["--no-kill"]) as cluster:
        site.run("scontrol update nodename=machine1 state=down reason=test")
        with pytest.raises(NodeLost) as refused:
            launch(of_slurm, 2, on=cluster)
    assert eventually(lambda: is_repaired(site))
    assert "Slurm refuses a step of job" in str(refused.value)
    assert "Next: `scontrol show job" in str(refused.value)
    assert is_empty_soon(site)


@pytest.mark.parametrize(
    ("python", "reason"),
    [("/nowhere/python", "there is no such Python there"), ("/usr/bin/python3", "the Python there has no")],
)
def test_nodes_without_the_notebook_s_python_are_named(site: SlurmOnMachines, python: str, reason: str) -> None:
    with allocate(site, nodes=2, python=python) as cluster, pytest.raises(NodeLost) as refused:
        launch(of_slurm, 2, on=cluster)
    assert re.match(rf"machine\d can't start ranks: {reason}", str(refused.value))
    assert 'python="/shared/venv/bin/python"' in str(refused.value)
    assert is_empty_soon(site)


def test_the_stop_button_also_ends_the_wait_for_agents(site: SlurmOnMachines, tmp_path: Path) -> None:
    slow = tmp_path / "python"
    bell = Doorbell(tmp_path)
    slow.write_text(f"#!/bin/sh\necho > {bell.path}\nexec sleep 60\n")
    slow.chmod(0o755)

    def stop() -> None:
        bell.wait_for(2)
        os.kill(os.getpid(), signal.SIGINT)

    with allocate(site, nodes=2, python=str(slow)) as cluster:
        threading.Thread(target=stop).start()
        with pytest.raises(KeyboardInterrupt, match="you stopped waiting for machine0, machine1, so no rank"):
            launch(of_slurm, 2, on=cluster)
    assert is_empty_soon(site)
    bell.close()
