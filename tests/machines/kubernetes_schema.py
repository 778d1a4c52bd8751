"""What Kubeflow Trainer (v2.2 and v2.3) accepts as a TrainJob, as far as the course's files use it.

Written down from its published types. A file may hold nothing more than what is named here, because a cluster
silently ignores a field with a typing error.
"""

from __future__ import annotations

from typing import Any

Schema = dict[str, Any]
TEXT: Schema = {"type": "string", "minLength": 1}
FROM_ONE: Schema = {"type": "integer", "minimum": 1}
# lower case letters, digits and dashes: names become host names
NAME: Schema = {"type": "string", "pattern": "^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$"}
QUANTITY: Schema = {"type": "string", "pattern": r"^\d+(\.\d+)?(m|k|M|G|T|Ki|Mi|Gi|Ti)?$"}
# variables that Kubeflow Trainer sets itself, and refuses in a TrainJob
RESERVED = ("PET_NNODES", "PET_NPROC_PER_NODE", "PET_NODE_RANK", "PET_MASTER_ADDR", "PET_MASTER_PORT")


def thing(required: str = "", **properties: Schema) -> Schema:
    return {
        "type": "object",
        "properties": properties,
        "required": required.split(),
        "additionalProperties": False,
    }


def many(item: Schema, at_least: int = 1) -> Schema:
    return {"type": "array", "items": item, "minItems": at_least}


def one_of(*values: str) -> Schema:
    return {"enum": list(values)}


VARIABLE = thing("name", name={**TEXT, "not": {"enum": list(RESERVED)}}, value={"type": "string"})
TRAINER = thing(
    image=TEXT,
    command=many(TEXT),
    args=many(TEXT),
    env=many(VARIABLE),
    numNodes=FROM_ONE,
    numProcPerNode=FROM_ONE,
    resourcesPerNode=thing(
        limits={"type": "object", "additionalProperties": QUANTITY},
        requests={"type": "object", "additionalProperties": QUANTITY},
    ),
)
CONTAINER_PATCH = thing(
    "name",
    name=NAME,
    volumeMounts=many(thing("name mountPath", name=NAME, mountPath=TEXT, readOnly={"type": "boolean"})),
)
VOLUME = thing(
    "name",
    name=NAME,
    persistentVolumeClaim=thing("claimName", claimName=NAME, readOnly={"type": "boolean"}),
    emptyDir=thing(medium=TEXT, sizeLimit=QUANTITY),
)
POD_PATCH = thing(
    containers=many(CONTAINER_PATCH), volumes=many(VOLUME), serviceAccountName=NAME, nodeSelector={"type": "object"}
)
JOB_PATCH = thing("spec", spec=thing("template", template=thing("spec", spec=POD_PATCH)))
RUNTIME_PATCH = thing(
    "manager trainingRuntimeSpec",
    manager={**TEXT, "maxLength": 253},
    trainingRuntimeSpec=thing(
        "template",
        template=thing("spec", spec=thing(replicatedJobs=many(thing("name template", name=NAME, template=JOB_PATCH)))),
    ),
)
TRAIN_JOB = thing(
    "apiVersion kind metadata spec",
    apiVersion=one_of("trainer.kubeflow.org/v1alpha1"),
    kind=one_of("TrainJob"),
    metadata=thing("name", name=NAME, namespace=NAME, labels={"type": "object", "additionalProperties": TEXT}),
    spec=thing(
        "runtimeRef",
        runtimeRef=thing("name", name=NAME, apiGroup=TEXT, kind=one_of("ClusterTrainingRuntime", "TrainingRuntime")),
        trainer=TRAINER,
        runtimePatches={**many(RUNTIME_PATCH), "maxItems": 16},
        suspend={"type": "boolean"},
    ),
)
