"""The file for Kubernetes: what Kubeflow Trainer accepts, and what torchrun makes of the variables that it sets."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from jsonschema import Draft202012Validator
from nights import nightly
from places import here, places_of
from torch.distributed.run import parse_args

from ddp_lessons.machines import Machines

PROJECT = Path(__file__).parents[2]
IN_THE_IMAGE = "/ddp-lessons"
(FILE,) = (PROJECT / "scripts" / "kubernetes").glob("*.yaml")
JOB = yaml.safe_load(FILE.read_text(encoding="utf-8"))

# What Kubeflow Trainer (v2.2 and v2.3) accepts as a TrainJob, written down from its published types, as far as the file
# uses it. Nothing else may be in the file, because a cluster silently ignores a field with a typing error.
Schema = dict[str, Any]
TEXT: Schema = {"type": "string", "minLength": 1}
FROM_ONE: Schema = {"type": "integer", "minimum": 1}
NAME: Schema = {"type": "string", "pattern": "^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$"}  # becomes a host name
QUANTITY: Schema = {"type": "string", "pattern": r"^\d+(\.\d+)?(m|k|M|G|T|Ki|Mi|Gi|Ti)?$"}


def thing(**properties: Schema) -> Schema:
    return {"type": "object", "properties": properties, "required": [*properties], "additionalProperties": False}


def many(item: Schema) -> Schema:
    return {"type": "array", "items": item, "minItems": 1, "maxItems": 16}


POD_PATCH = thing(
    containers=many(thing(name=NAME, volumeMounts=many(thing(name=NAME, mountPath=TEXT)))),
    volumes=many(thing(name=NAME, persistentVolumeClaim=thing(claimName=NAME))),
)
JOB_PATCH = thing(name=NAME, template=thing(spec=thing(template=thing(spec=POD_PATCH))))
RUNTIME_PATCH = thing(
    manager={**TEXT, "maxLength": 253},
    trainingRuntimeSpec=thing(template=thing(spec=thing(replicatedJobs=many(JOB_PATCH)))),
)
TRAINER = thing(
    image=TEXT,
    command=many(TEXT),
    args=many(TEXT),
    numNodes=FROM_ONE,
    numProcPerNode=FROM_ONE,
    resourcesPerNode=thing(limits={"type": "object", "additionalProperties": QUANTITY}),
)
TRAIN_JOB = thing(
    apiVersion={"const": "trainer.kubeflow.org/v1alpha1"},
    kind={"const": "TrainJob"},
    metadata=thing(name=NAME),
    spec=thing(runtimeRef=thing(name=NAME), trainer=TRAINER, runtimePatches=many(RUNTIME_PATCH)),
)


def complaints(job: Any) -> list[str]:
    return [error.message for error in Draft202012Validator(TRAIN_JOB).iter_errors(job)]


def test_kubeflow_trainer_accepts_the_file() -> None:
    assert complaints(JOB) == []


@pytest.mark.parametrize(
    ("way", "value"),
    [
        ("apiVersion", "kubeflow.org/v1"),
        ("spec.trainer.numNodes", "2"),
        ("spec.trainer.nprocPerNode", 2),
        ("metadata.name", "Two_Machines"),
    ],
)
def test_a_mistake_in_it_would_be_seen(way: str, value: object) -> None:
    job = copy.deepcopy(JOB)
    *parents, last = way.split(".")
    part = job
    for name in parents:
        part = part[name]
    part[last] = value
    assert complaints(job)


def test_its_parts_fit_together() -> None:
    spec = JOB["spec"]
    assert spec["runtimeRef"]["name"] == "torch-distributed"  # whose job and container both have the name "node"
    (patch,) = spec["runtimePatches"]
    (job,) = patch["trainingRuntimeSpec"]["template"]["spec"]["replicatedJobs"]
    pod = job["template"]["spec"]["template"]["spec"]
    (container,), (volume,) = pod["containers"], pod["volumes"]
    (mount,) = container["volumeMounts"]
    assert (job["name"], container["name"], volume["name"]) == ("node", "node", mount["name"])
    assert Path(spec["trainer"]["args"][-1]).parent == Path(mount["mountPath"])
    assert (PROJECT / Path(spec["trainer"]["command"][-1]).relative_to(IN_THE_IMAGE)).is_file()


def variables_of(node: int) -> dict[str, str]:
    """What Kubeflow Trainer sets in the container of each node, as torchrun calls it."""
    name, trainer = JOB["metadata"]["name"], JOB["spec"]["trainer"]
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
    assert (asked.rdzv_backend, asked.master_addr) == ("static", "two-machines-node-0-0.two-machines")


@nightly
def test_two_nodes_with_the_file_s_command_and_those_variables_train_as_one_node_does(tmp_path: Path) -> None:
    script = " ".join(JOB["spec"]["trainer"]["command"]).replace(IN_THE_IMAGE, str(PROJECT))

    def command(name: str, variables: dict[str, str]) -> str:
        files = f"--checkpoint {tmp_path}/{name}.pt --save {tmp_path}/{name}.weights"
        settings = " ".join(f"{name}={value}" for name, value in variables.items())
        return f"{settings} {script} --epochs 2 --samples 512 --network QuickNet {files}"

    here_it_is = {"PET_MASTER_ADDR": "machine0"}  # which has the name of the first pod's service
    with here(Machines(2)) as machines:
        apart = machines.everywhere(lambda node: command("apart", variables_of(node) | here_it_is), 90)
        assert apart.ended_well, apart
        together = machines.start(command("together", {"PET_NPROC_PER_NODE": "4"}), [0]).finish(90)
        assert together.ended_well, together
    places = places_of(apart)
    assert [(rank, size) for rank, size, _ in places] == [(str(rank), "4") for rank in range(4)]
    assert sorted(node for *_, node in places) == ["machine0"] * 2 + ["machine1"] * 2
    one, other = (torch.load(tmp_path / f"{name}.weights") for name in ("apart", "together"))
    torch.testing.assert_close(one, other, atol=1e-6, rtol=0)
