"""What Kubeflow's training operator (kubeflow.org/v1) takes as a PyTorchJob, as far as the course's files use it.

Written down from the operator's published types. Nothing more than what is named here may be in a file: a field with
a typing error would be ignored by a cluster, in silence.
"""

from __future__ import annotations

from typing import Any

Schema = dict[str, Any]
TEXT: Schema = {"type": "string", "minLength": 1}
COUNT: Schema = {"type": "integer", "minimum": 0}
PORT: Schema = {"type": "integer", "minimum": 1, "maximum": 65535}
# lower case letters, digits and dashes: names become host names
NAME: Schema = {"type": "string", "pattern": "^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$"}
QUANTITY: Schema = {"type": "string", "pattern": r"^\d+(\.\d+)?(m|k|M|G|T|Ki|Mi|Gi|Ti)?$"}


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


CONTAINER = thing(
    "name image",
    name=NAME,
    image=TEXT,
    imagePullPolicy=one_of("Always", "IfNotPresent", "Never"),
    workingDir=TEXT,
    command=many(TEXT),
    args=many(TEXT),
    env=many(thing("name", name=TEXT, value={"type": "string"})),
    ports=many(thing("containerPort", name={**NAME, "maxLength": 15}, containerPort=PORT)),
    resources=thing(
        limits={"type": "object", "additionalProperties": QUANTITY},
        requests={"type": "object", "additionalProperties": QUANTITY},
    ),
    volumeMounts=many(thing("name mountPath", name=NAME, mountPath=TEXT, readOnly={"type": "boolean"})),
)
VOLUME = thing(
    "name",
    name=NAME,
    persistentVolumeClaim=thing("claimName", claimName=NAME, readOnly={"type": "boolean"}),
    emptyDir=thing(medium=TEXT, sizeLimit=QUANTITY),
)
POD = thing(
    "spec",
    metadata=thing(
        labels={"type": "object", "additionalProperties": TEXT},
        annotations={"type": "object", "additionalProperties": TEXT},
    ),
    spec=thing("containers", containers=many(CONTAINER), volumes=many(VOLUME), nodeSelector={"type": "object"}),
)
REPLICAS = thing(
    "template",
    replicas=COUNT,
    restartPolicy=one_of("Always", "OnFailure", "Never", "ExitCode"),
    template=POD,
)
ELASTIC = thing(
    minReplicas=COUNT,
    maxReplicas=COUNT,
    rdzvBackend=one_of("c10d", "etcd", "etcd-v2"),
    rdzvHost=TEXT,
    rdzvPort=PORT,
    rdzvId=TEXT,
    rdzvConf=many(thing("key value", key=TEXT, value=TEXT)),
    standalone={"type": "boolean"},
    maxRestarts=COUNT,
)
RUN_POLICY = thing(
    cleanPodPolicy=one_of("All", "Running", "None"),
    ttlSecondsAfterFinished=COUNT,
    activeDeadlineSeconds={"type": "integer", "minimum": 1},
    backoffLimit=COUNT,
    suspend={"type": "boolean"},
)
PYTORCH_JOB = thing(
    "apiVersion kind metadata spec",
    apiVersion=one_of("kubeflow.org/v1"),
    kind=one_of("PyTorchJob"),
    metadata=thing("name", name=NAME, namespace=NAME, labels={"type": "object", "additionalProperties": TEXT}),
    spec=thing(
        "pytorchReplicaSpecs",
        nprocPerNode={"type": "string", "pattern": r"^(auto|cpu|gpu|[1-9]\d*)$"},
        elasticPolicy=ELASTIC,
        runPolicy=RUN_POLICY,
        pytorchReplicaSpecs={**thing(Master=REPLICAS, Worker=REPLICAS), "minProperties": 1},
    ),
)
