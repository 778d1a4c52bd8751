"""What to do next, out of the table advice.toml."""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ddp_lessons.own_files import read_toml
from ddp_lessons.run.diagnosis.wording import joined
from ddp_lessons.run.launcher.limits import Limits
from ddp_lessons.run.launcher.rank_states import Died
from ddp_lessons.run.wire.messages import Raised


@dataclass(frozen=True)
class Reason:
    """Which rule was broken. Its row in the table, by its key, has the next step."""

    key: str
    sentences: Sequence[str]
    rank: int = 0  # one of those involved
    blanks: Mapping[str, str] = field(default_factory=dict)  # to fill in there

    @property
    def name(self) -> str:
        """What a search engine knows it by, or ""."""
        return str(_table()["rules"][self.key].get("name", ""))

    @property
    def advice(self) -> str:
        return str(_table()["rules"][self.key]["next"].format(**self.blanks))

    @property
    def lines(self) -> list[str]:
        return [*(f"  {sentence}" for sentence in self.sentences), f"  Next: {self.advice}"]


def kind_of_hang(reason: Reason | None) -> str:
    name = reason.name if reason else ""
    return name if name == "deadlock" else f"hang ({name})" if name else "hang"


def what_next(how: Raised | Died, rank: int, limits: Limits, nodes: Sequence[str] = ()) -> str:
    """`nodes`: the other machines on which it happened."""
    told = _told(how)
    conditions = {"under_a_limit": limits.memory_bytes is not None, "on_nodes": bool(nodes)}
    blanks = {"rank": rank, "memory": limits.memory, "nodes": joined(nodes) if nodes else ""}
    for row in _table()["ends"]:
        found = re.search(row["words"], told)
        if found and all(holds or not row.get(condition) for condition, holds in conditions.items()):
            return str(row["next"].format(**blanks, **found.groupdict()))
    raise AssertionError("the last row fits everything")


def _told(how: Raised | Died) -> str:
    """How it ended, as the rows of the table describe it."""
    if isinstance(how, Raised):
        return how.message if how.kind == "CannotTravel" else f"raised {how.kind}: {how.message}"
    if how.lost_node:
        end = f"lost {how.lost_node}"
    elif how.signal_name:
        end = f"killed by {how.signal_name}"
    elif not how.is_seen:
        end = "exited, unseen"
    elif how.exit_code is None:
        end = "exited with the process from which it was forked"
    else:
        end = f"exited with code {how.exit_code}"
    return "\n".join([end, *how.last_words])


@functools.cache
def _table() -> dict[str, Any]:
    return read_toml(Path(__file__).with_name("advice.toml"))
