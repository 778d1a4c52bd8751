"""What to do next when a rank has failed, out of the table advice.toml."""

from __future__ import annotations

import functools
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from ddp_lessons.run.diagnosis.missing_on_nodes import command_there, what_is_missing_there
from ddp_lessons.run.launcher.limits import Limits
from ddp_lessons.run.launcher.rank_states import Died
from ddp_lessons.run.wire.messages import Raised

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


def what_next(how: Raised | Died, rank: int, limits: Limits, nodes: Mapping[str, str] = MappingProxyType({})) -> str:
    """`nodes`: the other machines on which it happened, each with the command that runs Python there."""
    if isinstance(how, Raised) and (missing := what_is_missing_there(how, nodes)):
        return missing
    told = _told(how)
    if isinstance(how, Died) and how.lost_node:
        return f"check whether {how.lost_node} is up and its network works, then launch again."
    if isinstance(how, Died) and how.exit_code is None and "ImportError" in told and nodes:
        node, python = next(iter(nodes.items()))
        return f"run {command_there(node, python, 'torch.utils.collect_env')}: it imports torch, too."
    for row in _rows():
        found = re.search(row["words"], told)
        if found and (limits.memory_bytes is not None or not row.get("under_a_limit")):
            return str(row["next"].format(rank=rank, memory=limits.memory, **found.groupdict()))
    raise AssertionError("the last row fits everything")


def _told(how: Raised | Died) -> str:
    """How it ended, as the rows of the table describe it."""
    if isinstance(how, Raised):
        return how.message if how.kind == "CannotTravel" else f"raised {how.kind}: {how.message}"
    if how.signal_name:
        end = f"killed by {how.signal_name}"
    elif not how.is_seen:
        end = "exited, unseen"
    elif how.exit_code is None:
        end = "exited with the process from which it was forked"
    else:
        end = f"exited with code {how.exit_code}"
    return "\n".join([end, *how.last_words])


@functools.cache
def _rows() -> list[dict[str, Any]]:
    with open(Path(__file__).with_name("advice.toml"), "rb") as file:
        return tomllib.load(file)["ends"]  # type: ignore[no-any-return]
