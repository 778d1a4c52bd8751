"""The file for Kubernetes: what Kubeflow Trainer accepts, and what torchrun makes of the variables that it sets."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
import yaml
from nights import nightly
from places import here, places_of
from processes import PROJECT

from ddp_lessons.machines import Machines

IN_THE_IMAGE = "/ddp-lessons"
(FILE,) = (PROJECT / "scripts" / "kubernetes").glob("*.yaml")
JOB = yaml.safe_load(FILE.read_text(encoding="utf-8"))

# The fields with their types, each compared with the types that Kubeflow Trainer (v2.2 and v2.3) publishes. A cluster
# silently ignores a field with a typing error.
OF_THE_POD = "spec.runtimePatches.trainingRuntimeSpec.template.spec.replicatedJobs.template.spec.template.spec"
ACCEPTED = [
    "apiVersion: str",
    "kind: str",
    "metadata.name: str",
    "spec.runtimeRef.name: str",
    "spec.trainer.image: str",
    "spec.trainer.numNodes: int",
    "spec.trainer.numProcPerNode: int",
    "spec.trainer.command: str",
    "spec.trainer.args: str",
    "spec.trainer.resourcesPerNode.limits.cpu: str",
    "spec.trainer.resourcesPerNode.limits.memory: str",
    "spec.runtimePatches.manager: str",
    "spec.runtimePatches.trainingRuntimeSpec.template.spec.replicatedJobs.name: str",
    f"{OF_THE_POD}.containers.name: str",
    f"{OF_THE_POD}.containers.volumeMounts.name: str",
    f"{OF_THE_POD}.containers.volumeMounts.mountPath: str",
    f"{OF_THE_POD}.volumes.name: str",
    f"{OF_THE_POD}.volumes.persistentVolumeClaim.claimName: str",
]


def fields(part: Any, way: tuple[str, ...] = ()) -> Iterator[str]:
    if isinstance(part, dict):
        for name, inner in part.items():
            yield from fields(inner, (*way, name))
    elif isinstance(part, list):
        for inner in part:
            yield from fields(inner, way)
    else:
        yield f"{'.'.join(way)}: {type(part).__name__}"


def test_the_file_has_the_fields_that_kubeflow_trainer_accepts() -> None:
    assert list(dict.fromkeys(fields(JOB))) == ACCEPTED
    assert (JOB["apiVersion"], JOB["kind"]) == ("trainer.kubeflow.org/v1alpha1", "TrainJob")


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


@nightly
def test_two_nodes_with_the_file_s_command_and_the_variables_of_kubeflow_train_as_one_node_does(tmp_path: Path) -> None:
    trainer = JOB["spec"]["trainer"]
    script = " ".join(trainer["command"]).replace(IN_THE_IMAGE, str(PROJECT))
    job = f"PET_NNODES={trainer['numNodes']} PET_NPROC_PER_NODE={trainer['numProcPerNode']}"
    meeting = "PET_MASTER_ADDR=machine0 PET_MASTER_PORT=29500"  # there, the address is the first pod's

    def command(name: str, variables: str) -> str:
        files = f"--checkpoint {tmp_path}/{name}.pt --save {tmp_path}/{name}.weights"
        return f"{variables} {script} --epochs 2 --samples 512 --network QuickNet {files}"

    with here(Machines(2)) as machines:
        apart = machines.everywhere(lambda node: command("apart", f"{job} {meeting} PET_NODE_RANK={node}"), 90)
        assert apart.ended_well, apart
        together = machines.start(command("together", "PET_NPROC_PER_NODE=4"), [0]).finish(90)
        assert together.ended_well, together
    places = places_of(apart)
    assert [(rank, size) for rank, size, _ in places] == [(str(rank), "4") for rank in range(4)]
    assert sorted(node for *_, node in places) == ["machine0"] * 2 + ["machine1"] * 2
    one, other = (torch.load(tmp_path / f"{name}.weights") for name in ("apart", "together"))
    torch.testing.assert_close(one, other, atol=1e-6, rtol=0)
