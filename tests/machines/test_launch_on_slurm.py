"""`launch(..., on=Slurm(...))` in a real Slurm: how nodes are requested, and how the job ends.

That values, lines, records and failures are those of a launch here is tested in test_launch_on_nodes.py.
"""

from __future__ import annotations

import os
import re
import signal
import socket
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import cloudpickle  # type: ignore[import-untyped]
import pytest
from nights import by_day, nightly
from notebook_session import Cell, NotebookSession
from places import here
from processes import Doorbell, Program, eventually
from slurm_sites import allocate, is_empty_soon, is_repaired, job_of, prefix_of, queue

from ddp_lessons import Slurm, WorkerFailed, Workers, launch
from ddp_lessons.machines import SlurmOnMachines
from ddp_lessons.run.nodes.hosts import NodeLost

pytestmark = nightly

cloudpickle.register_pickle_by_value(sys.modules[__name__])


@pytest.fixture(scope="module")
def site() -> Iterator[SlurmOnMachines]:
    with here(SlurmOnMachines(2)) as site:
        yield site
        assert not queue(site)


def node_of(rank: int, world_size: int) -> str:
    return socket.gethostname()


def ring_and_sleep(rank: int, world_size: int, bell: str) -> None:
    with open(bell, "w") as opened:
        opened.write("!")
    time.sleep(600)


def test_one_job_is_held_for_all_launches_and_ends_with_the_block(site: SlurmOnMachines) -> None:
    with allocate(site, nodes=2, time=30) as cluster:
        (job,) = queue(site)
        assert repr(cluster) == f"Slurm(--nodes=2 --time=30): job {job} on machine0, machine1"
        assert list(launch(node_of, 4, on=cluster)) == ["machine0"] * 2 + ["machine1"] * 2
        with Workers(2, on=cluster) as workers:
            assert list(workers.run(node_of)) == ["machine0", "machine1"]
        assert queue(site) == [job]
    assert is_empty_soon(site)


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


def test_the_options_are_those_of_salloc(site: SlurmOnMachines) -> None:
    asked: dict[str, Any] = {"partition": "lesson", "mem": "100M", "exclusive": True, "comment": "hello"}
    with allocate(site, nodes=2, time=7, cpus_per_task=3, **asked) as cluster:
        about = site.run(f"scontrol show job {job_of(cluster)}")
    noted = {"Partition=lesson", "MinMemoryNode=100M", "TimeLimit=00:07:00", "CPUs/Task=3", "NumNodes=2"}
    assert noted | {"OverSubscribe=NO", "Comment=hello", "JobName=ddp_lessons"} <= set(about.split())
    assert is_empty_soon(site)


@pytest.mark.parametrize("asked", by_day([{"partition": "nope"}, {"mem": "much"}], 1))
def test_what_slurm_refuses_is_said_in_its_own_words(site: SlurmOnMachines, asked: dict[str, Any]) -> None:
    options = " ".join(f"--{name.replace('_', '-')}={value}" for name, value in asked.items())
    with pytest.raises(RuntimeError) as by_hand:
        site.run(f"salloc {options} true")
    with pytest.raises(NodeLost, match=r"Slurm gives no nodes: .*\n  Next: ") as refused:
        allocate(site, **asked).commands()
    words = str(refused.value).splitlines()[0].removeprefix("Slurm gives no nodes: ")
    assert words in str(by_hand.value)
    assert is_empty_soon(site)


def test_without_slurm_s_commands_the_system_says_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(OSError, match=r"env|salloc"):
        launch(node_of, 2, on=Slurm())


def test_the_cell_says_that_it_waits_and_the_stop_button_takes_it_out_of_the_queue(site: SlurmOnMachines) -> None:
    with allocate(site, nodes=2, exclusive=True), NotebookSession() as notebook:
        first = Program(f"{prefix_of(site)}\ncluster.commands()")
        assert eventually(lambda: len(queue(site, "--states=PENDING")) == 1)
        notebook.run(prefix_of(site))

        def stop_when_it_waits(cell: Cell) -> None:
            if "queued and waiting" in cell.text:
                notebook.interrupt()

        cell = notebook.finish(notebook.begin("cluster.__enter__()"), whenever=stop_when_it_waits)
        said = [data["text/plain"] for _, data in cell.updates if data]
        assert re.fullmatch(r"salloc: job \d+ queued and waiting for resources … \d+ s", said[-1])
        assert cell.error.startswith("KeyboardInterrupt: you stopped waiting for nodes, so the request was cancelled")
        assert eventually(lambda: len(queue(site, "--states=PENDING")) == 1)
        with first:  # of a notebook that is killed, nothing waits either
            first.kill()
            assert eventually(lambda: not queue(site, "--states=PENDING"))
    assert is_empty_soon(site)


SLEEP_ON_IT = """
import os, time
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
    "end", by_day(["scancel {job}", "scontrol update nodename=machine1 state=down reason=test"], 1)
)
def test_a_job_that_ends_during_a_launch_is_named_and_the_next_launch_requests_another(
    site: SlurmOnMachines, tmp_path: Path, end: str
) -> None:
    bell = Doorbell(tmp_path)
    with allocate(site, nodes=2) as cluster:
        job = []

        def end_it() -> None:
            bell.wait_for(4, seconds=60)
            job.append(job_of(cluster))
            site.run(end.format(job=job[0]))

        ender = threading.Thread(target=end_it)
        ender.start()
        with pytest.raises(WorkerFailed) as caught:
            launch(ring_and_sleep, 4, bell.path, on=cluster, timeout_seconds=None)
        ender.join()
        failure = str(caught.value)
        assert re.match(r"(ranks \d and \d|all 4 ranks).* lost together with the connection to machine\d", failure)
        assert "Next: check whether machine" in failure
        assert eventually(lambda: is_repaired(site))
        assert list(launch(node_of, 2, on=cluster)) == ["machine0", "machine1"]
        assert job_of(cluster) != job[0]
    assert is_empty_soon(site)
    bell.close()


def test_nodes_without_the_notebook_s_python_are_named(site: SlurmOnMachines) -> None:
    with allocate(site, nodes=2, python="/nowhere/python") as cluster, pytest.raises(NodeLost) as refused:
        launch(node_of, 2, on=cluster)
    assert re.match(r"machine\d can't start ranks: .*/nowhere/python", str(refused.value))
    assert is_empty_soon(site)


def test_the_stop_button_also_ends_the_wait_for_agents(site: SlurmOnMachines, tmp_path: Path) -> None:
    slow, bell = tmp_path / "python", Doorbell(tmp_path)
    slow.write_text(f"#!/bin/sh\necho > {bell.path}\nexec sleep 60\n")
    slow.chmod(0o755)

    def stop() -> None:
        bell.wait_for(2)
        os.kill(os.getpid(), signal.SIGINT)

    with allocate(site, nodes=2, python=str(slow)) as cluster:
        threading.Thread(target=stop).start()
        with pytest.raises(KeyboardInterrupt, match="you stopped waiting for machine0, machine1"):
            launch(node_of, 2, on=cluster)
    assert is_empty_soon(site)
    bell.close()


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
