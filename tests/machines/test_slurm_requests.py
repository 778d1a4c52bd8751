"""Nodes for `launch(..., on=Slurm(...))`: how a real Slurm is asked for them, lets you wait, or refuses."""

from __future__ import annotations

import re
import socket
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import cloudpickle  # type: ignore[import-untyped]
import pytest
from ddp_lessons.run.nodes.slurm_commands import NoAllocation, SlurmCommands
from nights import nightly
from notebook_session import Cell, NotebookSession
from places import here
from processes import Program, eventually
from slurm_sites import allocate, command_prefix, is_empty_soon, job_of, prefix_of, queue

from ddp_lessons import Slurm, launch
from ddp_lessons.machines import SlurmOnMachines
from ddp_lessons.run.nodes import slurm_troubles

pytestmark = nightly

cloudpickle.register_pickle_by_value(sys.modules[__name__])


def node_of(rank: int, world_size: int) -> str:
    return socket.gethostname()


@pytest.fixture(scope="module")
def site() -> Iterator[SlurmOnMachines]:
    with here(SlurmOnMachines(2)) as site:
        yield site
        assert not queue(site)


def test_what_is_asked_for_is_what_slurm_notes(site: SlurmOnMachines) -> None:
    asked: dict[str, Any] = {"partition": "lesson", "account": "physics", "mem": "100M", "exclusive": True}
    with allocate(site, nodes=2, time_minutes=7, cpus_per_task=3, options=["--comment=hello"], **asked) as cluster:
        about = site.run(f"scontrol show job {job_of(cluster)}")
    noted = {"Partition=lesson", "Account=physics", "MinMemoryNode=100M", "TimeLimit=00:07:00", "CPUs/Task=3"}
    noted |= {"NumNodes=2", "NumTasks=2", "OverSubscribe=NO", "Comment=hello", "JobName=ddp_lessons"}
    assert noted <= set(about.split())
    assert is_empty_soon(site)


@pytest.mark.parametrize(
    ("asked", "reason", "next_step"),
    [
        ({"partition": "nope"}, "it has no such partition", "sinfo --summarize"),
        ({"nodes": 3}, "the partition doesn't ", "request"),
        ({"time_minutes": 999}, "the partition doesn't ", "TIMELIMIT"),  # squeue has a general reason first
        ({"cpus_per_task": 64}, "the partition doesn't offer this to one job", "sinfo --Node --long"),
        ({"mem": "900G"}, "no node of the partition has what you request", "sinfo --Node --long"),
        ({"constraint": "a100"}, "no node has this feature", "lists the features"),
        ({"gpus_per_node": 1}, "it has no such GPUs", "lists the GPUs"),
        ({"options": ["--nope"]}, "it doesn't accept one of the options", "salloc --help"),
        ({"mem": "much"}, "it doesn't accept one of the options", "salloc --help"),
        ({"options": ["--reservation=x"]}, "it doesn't accept one of the options", "salloc --help"),
    ],
)
def test_what_slurm_refuses_is_a_sentence_with_a_next_step(
    site: SlurmOnMachines, asked: dict[str, Any], reason: str, next_step: str
) -> None:
    with pytest.raises(NoAllocation) as refused, allocate(site, **asked):
        pass
    first, request, says, step = str(refused.value).splitlines()
    assert first.startswith(f"Slurm gives no nodes: {reason}")
    assert request.startswith("  Request: salloc ")
    assert says.startswith("  Slurm says: ")
    assert step.startswith("  Next: ")
    assert next_step in step
    assert is_empty_soon(site)


@pytest.mark.parametrize(
    ("says", "reason"),
    [
        ("Invalid account or account/partition combination specified", "can't use this account"),
        ("Invalid qos specification", "can't use this QOS"),
        ("Requested node configuration is not available", "no node of the partition has"),
        ("Requested time limit is invalid (missing or exceeds some limit)", "doesn't allow so much time"),
        ("Job violates accounting/QOS policy (job submit limit, user's size and/or time limits)", "your account may"),
        ("Node count specification invalid", "doesn't have so many nodes"),
        ("Unable to contact slurm controller (connect failure)", "its controller does not answer"),
        ("User's group not permitted to use this partition", "aren't allowed"),
    ],
)
def test_what_only_clusters_with_accounts_refuse_is_a_sentence_too(says: str, reason: str) -> None:
    libraries = [*Path("/usr/lib").glob("*/slurm*/libslurmfull.so")]
    if libraries:  # Slurm itself knows these words
        assert says.encode() in libraries[0].read_bytes()
    told = slurm_troubles.why_refused(["salloc"], ["salloc: error: Job submit/allocate failed: " + says])
    assert reason in told.splitlines()[0]
    assert "  Next: " in told


def test_without_slurm_s_commands_that_is_said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(NoAllocation, match=r"no Slurm commands: salloc, srun, (.|\n)*Next: start the notebook on a"):
        launch(node_of, 2, on=Slurm())


def test_a_controller_that_is_down_is_named(site: SlurmOnMachines, tmp_path: Path) -> None:
    with pytest.raises(NoAllocation, match=r"its controller does not answer(.|\n)*Next: wait a minute"):
        Slurm(prefix=without_controller(site, tmp_path)).commands()


def without_controller(site: SlurmOnMachines, folder: Path) -> list[str]:
    """The prefix of commands that look for the controller where there is none."""
    settings = folder / "slurm.conf"
    settings.write_text((site.folder / "slurm.conf").read_text() + "SlurmctldPort=1\nMessageTimeout=1\n")
    return site.machines.command(0, ["env", f"SLURM_CONF={settings}"])


def test_a_controller_that_does_not_answer_is_not_taken_for_the_end_of_the_job(
    site: SlurmOnMachines, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    prefix = without_controller(site, tmp_path)
    with allocate(site) as cluster:
        job = job_of(cluster)
        assert SlurmCommands(command_prefix(site)).state_of(job) == "RUNNING"
        assert SlurmCommands(prefix).why_ended(job) == ""
        monkeypatch.setenv("SLURM_JOB_ID", job)
        with pytest.raises(NoAllocation, match=rf"in job {job}, but Slurm's controller does not answer"):
            Slurm(prefix=prefix).commands()
        monkeypatch.delenv("SLURM_JOB_ID")
    assert is_empty_soon(site)
    assert SlurmCommands(command_prefix(site)).why_ended("12345678") == "job 12345678 has ended"


@pytest.mark.parametrize(
    ("wrong", "error", "what"),
    [
        ({"nodes": 0}, ValueError, "nodes must be at least 1"),
        ({"nodes": "2"}, TypeError, "nodes must be an integer"),
        ({"time_minutes": 1.5}, TypeError, "time_minutes must be an integer"),
        ({"options": "--reservation=x"}, TypeError, "not one string"),
        ({"options": ["--reservation", "x"]}, ValueError, "'x' is no option of salloc"),
    ],
)
def test_a_wrong_argument_is_refused_before_slurm_is_asked(wrong: Any, error: type[Exception], what: str) -> None:
    with pytest.raises(error, match=what):
        Slurm(**wrong)


def test_the_cell_says_why_it_waits_and_the_stop_button_takes_it_out_of_the_queue(site: SlurmOnMachines) -> None:
    with allocate(site, nodes=2, exclusive=True), NotebookSession() as notebook:
        first = Program(f"{prefix_of(site)}\ncluster.commands()")
        assert eventually(lambda: len(queue(site, "--states=PENDING")) == 1)
        notebook.run(prefix_of(site))

        def stop_when_it_waits(cell: Cell) -> None:
            if "ahead" in cell.text:
                notebook.interrupt()

        cell = notebook.finish(notebook.begin("cluster.__enter__()"), whenever=stop_when_it_waits)
        said = [data["text/plain"] for _, data in cell.updates if data]
        assert re.fullmatch(r"Slurm: job \d+ is waiting for nodes \(\w+\), 1 job ahead of it.* … \d+ s", said[-1])
        assert cell.displays == [{}]
        assert re.match(r"KeyboardInterrupt: you stopped waiting for nodes, so job \d+ was cancelled\.", cell.error)
        assert "Next: " in cell.error
        assert len(queue(site, "--states=PENDING")) == 1
        # of a notebook that is killed, nothing waits either
        with first:
            first.kill()
            assert eventually(lambda: not queue(site, "--states=PENDING"))
    assert is_empty_soon(site)


def test_a_notebook_in_a_job_uses_that_job_and_leaves_it(
    site: SlurmOnMachines, monkeypatch: pytest.MonkeyPatch
) -> None:
    site.run("salloc --no-shell --nodes=2")
    (job,) = queue(site)
    monkeypatch.setenv("SLURM_JOB_ID", job)
    monkeypatch.setenv("SLURM_NTASKS", "7")  # as in a job; it must not become an option of ours
    with allocate(site) as cluster:
        assert [command.node for command in cluster.commands()] == ["machine0", "machine1"]
    with allocate(site, nodes=1) as cluster:
        assert list(launch(node_of, 2, on=cluster)) == ["machine0"] * 2
    with pytest.raises(
        NoAllocation, match=f"in job {job}, which has 2 nodes, and not 3(.|\n)*Next: start the notebook"
    ):
        allocate(site, nodes=3).commands()
    assert queue(site) == [job]
    site.run(f"scancel {job}")
    with pytest.raises(NoAllocation, match=rf"job {job} was cancelled(.|\n)*Next: .* del os.environ\["):
        allocate(site).commands()
    assert is_empty_soon(site)
