"""Why no agent could be started on a node, from what ssh or the node's Python wrote, and what to do next."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ddp_lessons import __version__
from ddp_lessons.run.diagnosis.missing_on_nodes import command_there, install_command, version_here

_ADVICE = (
    (r"permission denied", "its ssh accepts none of your keys", "`ssh-copy-id {name}`, or start an ssh-agent"),
    (
        r"host key verification failed|authenticity of host",
        "its host key is not known here",
        "run `ssh {name}` once in a terminal, compare the fingerprint, and answer yes",
    ),
    (
        r"could not resolve hostname|name or service not known",
        "no such host name is known here",
        "check the spelling, or add the host to ~/.ssh/config",
    ),
    (r"connection refused", "no ssh server listens there", "start sshd on {name}, or check the port in ~/.ssh/config"),
    (r"connection timed out|no route to host|network is unreachable", "no answer", "check that {name} is up"),
    (
        r"no module named '?(?P<module>\w+)",
        "the Python there has no {module}",
        'run {install_ours}, or pass the path of a Python that has it: python="/shared/venv/bin/python"',
    ),
    (r"PackageNotFoundError", "the Python there has no torch", "run {install_torch}"),
    (
        r"(?:unable to create step for job|expired or invalid job) (?P<job>\d+)",
        "Slurm refuses a step of job {job} there",
        "`scontrol show job {job}` shows its state. To request a new one, close() this Slurm and launch again",
    ),
    (
        r"command not found|sh: .*no such file or directory|execve.*no such file",
        "there is no such Python there",
        'pass the path of one: python="/shared/venv/bin/python"',
    ),
)


def why_no_agent(name: str, python: str, otherwise: str, said: Sequence[str]) -> str:
    """One sentence, and the next step. `otherwise` is what happened, if nothing was said."""
    last = f"\n  Last output: {said[-1]}" if said else f": {otherwise}"
    for pattern, reason, step in _ADVICE:
        if (found := re.search(pattern, "\n".join(said), re.IGNORECASE)) is not None:
            known = {
                "name": name,
                "install_ours": install_command(name, python, f"ddp-lessons=={__version__}"),
                "install_torch": install_command(name, python, f"torch=={version_here('torch')}"),
                **found.groupdict(),
            }
            return f"{name} can't start ranks: {reason.format(**known)}.{last}\n  Next: {step.format(**known)}."
    try_it = command_there(name, python, "ddp_lessons --help")
    return f"{name} can't start ranks{last}\n  Next: run {try_it}, and see what it says."
