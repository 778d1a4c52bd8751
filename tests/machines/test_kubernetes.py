"""The files for Kubernetes: what Kubeflow Trainer accepts, and what torchrun makes of the variables that it sets."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft202012Validator
from kubernetes_schema import TRAIN_JOB
from nights import nightly
from places import here, places_of
from torch.distributed.run import parse_args

from ddp_lessons.machines import Machines

PROJECT = Path(__file__).parents[2]
IN_THE_IMAGE = "/ddp-lessons"
FILES = sorted((PROJECT / "scripts" / "kubernetes").glob("*.yaml"))


def job_of(file: Path) -> Any:
    return yaml.safe_load(file.read_text(encoding="utf-8"))


def complaints(job: Any) -> list[str]:
    return [error.message for error in Draft202012Validator(TRAIN_JOB).iter_errors(job)]


def test_there_are_files() -> None:
    assert [file.name for file in FILES] == ["two_machines.yaml"]


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_kubeflow_trainer_accepts_the_file(file: Path) -> None:
    assert complaints(job_of(file)) == []


@pytest.mark.parametrize(
    ("way", "value"),
    [
        ("apiVersion", "kubeflow.org/v1"),
        ("kind", "PyTorchJob"),
        ("spec.trainer.numNodes", "2"),
        ("spec.trainer.numNodes", 0),
        ("spec.trainer.nprocPerNode", 2),
        ("spec.trainer.env", [{"name": "PET_NNODES", "value": "2"}]),
        ("spec.runtimeRef.name", "Torch"),
        ("spec.pytorchReplicaSpecs", {}),
        ("metadata.name", "Two_Machines"),
    ],
)
def test_a_mistake_in_it_would_be_seen(way: str, value: object) -> None:
    job = copy.deepcopy(job_of(FILES[0]))
    *parents, last = way.split(".")
    part = job
    for name in parents:
        part = part[name]
    part[last] = value
    assert complaints(job)


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_its_parts_fit_together(file: Path) -> None:
    spec = job_of(file)["spec"]
    assert spec["runtimeRef"]["name"] == "torch-distributed"  # whose job and container both have the name "node"
    (patch,) = spec["runtimePatches"]
    (job,) = patch["trainingRuntimeSpec"]["template"]["spec"]["replicatedJobs"]
    pod = job["template"]["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert (job["name"], container["name"]) == ("node", "node")
    (volume,), (mount,) = pod["volumes"], container["volumeMounts"]
    assert volume["name"] == mount["name"]
    checkpoint = spec["trainer"]["args"][-1]
    assert Path(checkpoint).parent == Path(mount["mountPath"])
    script = Path(spec["trainer"]["command"][-1]).relative_to(IN_THE_IMAGE)
    assert (PROJECT / script).is_file()


def variables_of(node: int) -> dict[str, str]:
    """What Kubeflow Trainer sets in the container of each node, as torchrun calls it."""
    job = job_of(FILES[0])
    name, trainer = job["metadata"]["name"], job["spec"]["trainer"]
    return {
        "PET_NNODES": str(trainer["numNodes"]),
        "PET_NPROC_PER_NODE": str(trainer["numProcPerNode"]),
        "PET_NODE_RANK": str(node),
        "PET_MASTER_ADDR": f"{name}-node-0-0.{name}",
        "PET_MASTER_PORT": "29500",
    }


def test_torchrun_reads_the_variables_that_kubeflow_trainer_sets(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in variables_of(1).items():
        monkeypatch.setenv(name, value)
    asked = parse_args(["scripts/many_machines.py"])
    assert (asked.nnodes, asked.nproc_per_node, asked.node_rank) == ("2", "2", 1)
    assert (asked.rdzv_backend, asked.master_addr, asked.master_port) == (
        "static",
        "two-machines-node-0-0.two-machines",
        29500,
    )


@nightly
def test_two_machines_play_the_pods_with_the_file_s_command_and_those_variables(tmp_path: Path) -> None:
    command = " ".join(job_of(FILES[0])["spec"]["trainer"]["command"]).replace(IN_THE_IMAGE, str(PROJECT))
    training = f"--epochs 1 --samples 128 --checkpoint {tmp_path}/digits.pt"
    here_it_is = {"PET_MASTER_ADDR": "machine0"}  # which has the name of the first pod's service

    def on(machine: int) -> str:
        variables = {**variables_of(machine), **here_it_is}
        return " ".join([*(f"{name}={value}" for name, value in variables.items()), command, training])

    with here(Machines(2)) as machines:
        attempt = machines.everywhere(on, 90)
    assert attempt.ended_well, attempt
    assert [(rank, size) for rank, size, _ in places_of(attempt)] == [(str(rank), "4") for rank in range(4)]
