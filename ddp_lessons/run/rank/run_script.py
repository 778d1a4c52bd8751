"""Inside a rank of `explain --on`: run a script of the rank's node, as a rank of torchrun would.

The script finds the modules of that node first. Those of the machine where `explain` runs may belong to another version
of the script.
"""

from __future__ import annotations

import os
import runpy
import sys
from collections.abc import Sequence


def has_file(rank: int, world_size: int, file: str) -> bool:
    """Is it on this rank's node?"""
    return os.path.isfile(file)


def run_on_node(rank: int, world_size: int, file: str, arguments: Sequence[str], ranks_per_node: int) -> None:
    """Run the script. An exit with status 0 is a return."""
    os.environ.update(
        # torchrun sets these too; what Start has is set already
        GROUP_RANK=str(rank // ranks_per_node),
        GROUP_WORLD_SIZE=str(world_size // ranks_per_node),
        ROLE_NAME="default",
        ROLE_RANK=str(rank),
        ROLE_WORLD_SIZE=str(world_size),
        TORCHELASTIC_RESTART_COUNT="0",
        TORCHELASTIC_MAX_RESTARTS="0",
        TORCHELASTIC_RUN_ID="none",
        TORCHELASTIC_USE_AGENT_STORE="False",  # rank 0 serves the store
    )
    sys.path.insert(0, os.path.dirname(file))
    sys.argv[:] = [file, *arguments]
    try:
        runpy.run_path(file, run_name="__main__")
    except SystemExit as end:
        if end.code not in (None, 0):
            raise
