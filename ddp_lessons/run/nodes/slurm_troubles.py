"""Why Slurm gives no nodes, or takes them back: from its own words to a sentence and the next step."""

from __future__ import annotations

import re
from collections.abc import Sequence

# in the output of salloc, or squeue's reason of a request that can never start
_REFUSALS = (
    (r"invalid partition", "it has no such partition", "`sinfo --summarize` lists the partitions"),
    (
        r"invalid ?account|AccountNotAllowed",
        "you can't use this account, or not in this partition",
        "`sacctmgr show associations user=$USER` lists your accounts; pass one as account=...",
    ),
    (
        r"invalid ?qos|QOSNotAllowed",
        "you can't use this QOS",
        "`sacctmgr show associations user=$USER format=account,qos` lists those that you can; pass one as qos=...",
    ),
    (
        r"\(gres\) specification",
        "it has no such GPUs",
        "`sinfo --format='%P %G'` lists the GPUs of each partition",
    ),
    (r"feature specification", "no node has this feature", "`sinfo --format='%n %f'` lists the features of the nodes"),
    (
        r"PartitionConfig",
        "the partition doesn't offer this to one job",
        "`sinfo --Node --long` lists its nodes, and `sinfo` its longest time (TIMELIMIT); request less",
    ),
    (
        r"requested node configuration|BadConstraints",
        "no node of the partition has what you request",
        "`sinfo --Node --long` lists the CPUs and the memory of each node; request less",
    ),
    (
        r"PartitionNodeLimit|node count specification",
        "the partition doesn't have so many nodes for one job",
        "`sinfo --summarize` shows how many nodes each partition has; request fewer",
    ),
    (
        r"PartitionTimeLimit|time limit is invalid",
        "the partition doesn't allow so much time",
        "`sinfo` shows the longest time of each partition (TIMELIMIT); pass less as time_minutes=...",
    ),
    (
        r"violates accounting/qos policy|limit (is )?reached",
        "this is more than your account may use now",
        "request fewer nodes or less time, or wait until other jobs of yours have ended (`squeue --me`)",
    ),
    (
        r"permission denied|not permitted",
        "you aren't allowed to use these nodes",
        "choose another partition or account, or ask the administrators of the cluster",
    ),
    (
        r"unrecognized option|invalid option|invalid --\w+ specification|requested reservation is invalid",
        "it doesn't accept one of the options",
        "correct that option; `salloc --help` lists them",
    ),
    (
        r"unable to contact|configuration (source|file)|connect failure|timed out",
        "its controller does not answer",
        "wait a minute and try again; `scontrol ping` shows whether it is up",
    ),
    (r"has been cancelled", "the request was cancelled while it waited", "run the cell again to request them again"),
)
# squeue's reasons that don't pass while you wait
CAN_NEVER_START = frozenset(
    "AccountNotAllowed BadConstraints InvalidAccount InvalidQOS PartitionConfig PartitionNodeLimit PartitionTimeLimit "
    "QOSNotAllowed".split()
)
# the states of a job that has ended, what happened, and the next step
_ENDINGS = {
    "TIMEOUT": ("reached its time limit", "request more with Slurm(..., time_minutes=...), then launch again."),
    "CANCELLED": (
        "was cancelled",
        "launch again, which requests nodes again. If you didn't cancel it, ask the administrators of the cluster.",
    ),
    "PREEMPTED": (
        "was preempted by a more important job",
        "launch again, which requests nodes again; choose a partition or QOS whose jobs are not preempted.",
    ),
    "NODE_FAIL": (
        "ended because one of its nodes failed",
        "launch again, which requests other nodes; `sinfo --list-reasons` says what is wrong with that one.",
    ),
    "OUT_OF_MEMORY": (
        "used more memory than it requested",
        "request more with Slurm(..., mem=...), then launch again.",
    ),
}
_OTHER_ENDING = ("has ended", "launch again, which requests nodes again.")


def why_refused(request: Sequence[str], said: Sequence[str]) -> str:
    """One sentence, the request as you can repeat it in a terminal, and the next step."""
    repeated = f"  Request: {' '.join(request)}"
    for pattern, reason, step in _REFUSALS:
        for line in said:
            if re.search(pattern, line, re.IGNORECASE):
                return f"Slurm gives no nodes: {reason}.\n{repeated}\n  Slurm says: {line}\n  Next: {step}."
    last = said[-1] if said else "nothing"
    step = "try the request in a terminal, and ask the administrators of the cluster if it fails there, too"
    return f"Slurm gives no nodes.\n{repeated}\n  Slurm says: {last}\n  Next: {step}."


def ending_of(job: str, state: str) -> str:
    """What happened to a job that is in this state now."""
    return f"job {job} {_ENDINGS.get(state, _OTHER_ENDING)[0]}"


def next_after_ending(told: str) -> str:
    """The next step, if `told` has one of these sentences; else ""."""
    endings = [*_ENDINGS.values(), _OTHER_ENDING]
    return next((step for what, step in endings if re.search(rf"\bjob \d+ {re.escape(what)}", told)), "")


def next_after_loss(node: str, told: str) -> str:
    """The next step after the connection to a node was lost; `told` says why."""
    return next_after_ending(told) or f"check whether {node} is up and its network works, then launch again."
