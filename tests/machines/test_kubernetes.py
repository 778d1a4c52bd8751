"""The files for Kubernetes: what the operator takes, and what torchrun makes of the variables that it sets."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
import yaml
from effort import EVERYTHING
from jsonschema import Draft202012Validator
from kubernetes_schema import PYTORCH_JOB
from places import here, places_of
from torch.distributed.run import parse_args

from ddp_lessons.machines import Machines

PROJECT = Path(__file__).parents[2]
FILES = sorted((PROJECT / "scripts" / "kubernetes").glob("*.yaml"))


def job_of(file: Path) -> Any:
    return yaml.safe_load(file.read_text(encoding="utf-8"))


def complaints(job: Any) -> list[str]:
    return [error.message for error in Draft202012Validator(PYTORCH_JOB).iter_errors(job)]


def test_there_are_files() -> None:
    assert [file.name for file in FILES] == ["two_machines.yaml"]


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_the_operator_takes_the_file(file: Path) -> None:
    assert complaints(job_of(file)) == []


@pytest.mark.parametrize(
    ("way", "value"),
    [
        ("apiVersion", "kubeflow.org/v2"),
        ("spec.nprocPerNode", 2),
        ("spec.elasticPolicy.rdzvBackend", "gloo"),
        ("spec.elasticPolicy.rdzvport", 29400),
        ("spec.pytorchReplicaSpecs.Worker.replica", 2),
        ("spec.pytorchReplicaSpecs.Worker.restartPolicy", "Sometimes"),
        ("spec.pytorchReplicaSpecs.Slave", {}),
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
    elastic, worker = spec["elasticPolicy"], spec["pytorchReplicaSpecs"]["Worker"]
    (container,) = worker["template"]["spec"]["containers"]
    assert container["name"] == "pytorch"  # the operator gives its variables to a container of that name
    assert elastic["minReplicas"] <= worker["replicas"] <= elastic["maxReplicas"]
    assert [port["containerPort"] for port in container["ports"]] == [elastic["rdzvPort"]]
    assert f"--nproc-per-node={spec['nprocPerNode']}" in container["command"]
    assert (PROJECT / container["command"][-1]).is_file()
    volumes = {volume["name"] for volume in worker["template"]["spec"]["volumes"]}
    assert {mount["name"] for mount in container["volumeMounts"]} == volumes


def operators_variables() -> dict[str, str]:
    """What the operator sets in each pod, as torchrun calls it."""
    spec = job_of(FILES[0])["spec"]
    elastic = spec["elasticPolicy"]
    return {
        "PET_NNODES": f"{elastic['minReplicas']}:{elastic['maxReplicas']}",
        "PET_NPROC_PER_NODE": spec["nprocPerNode"],
        "PET_RDZV_BACKEND": elastic["rdzvBackend"],
        "PET_RDZV_ENDPOINT": f"two-machines-worker-0:{elastic['rdzvPort']}",
        "PET_MAX_RESTARTS": str(elastic["maxRestarts"]),
    }


def test_torchrun_reads_the_variables_that_the_operator_sets(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in operators_variables().items():
        monkeypatch.setenv(name, value)
    asked = parse_args(["scripts/many_machines.py"])
    assert (asked.nnodes, asked.nproc_per_node, asked.max_restarts) == ("1:2", "2", 3)
    assert (asked.rdzv_backend, asked.rdzv_endpoint) == ("c10d", "two-machines-worker-0:29400")


@pytest.mark.skipif(not EVERYTHING, reason="four ranks on two machines: make test-all")
def test_two_machines_play_the_pods_with_the_file_s_command_and_those_variables(tmp_path: Path) -> None:
    worker = job_of(FILES[0])["spec"]["pytorchReplicaSpecs"]["Worker"]
    (container,) = worker["template"]["spec"]["containers"]
    # with 1:2 one of them might begin alone; and machine0 has the name of the first pod's service here
    variables = operators_variables() | {"PET_NNODES": "2", "PET_RDZV_ENDPOINT": "machine0:29400"}
    training = f"--epochs 1 --samples 128 --checkpoint {tmp_path}/digits.pt"
    with here(Machines(2)) as machines:
        attempt = machines.everywhere(f"{' '.join(container['command'])} {training}", 90, variables)
    assert attempt.ended_well, attempt
    assert [(rank, size) for rank, size, _ in places_of(attempt)] == [(str(rank), "4") for rank in range(4)]
