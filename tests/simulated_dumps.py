"""Dumps of the Flight Recorder as NCCL's ranks leave them, made without a GPU: pickles of what torch documents."""

from __future__ import annotations

import json
import os
import pickle
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

WORLD = "0"
AGO_SECONDS = 700.0
TIMEOUT_SECONDS = 600.0
# as torch's own stacks: the innermost frame first
TORCH = "/opt/lib/python3.11/site-packages/torch/distributed/"
WRAPPER = {"name": "wrapper", "filename": f"{TORCH}c10d_logger.py", "line": 83}
OUTSIDE = [{"name": "_run_code", "filename": "/usr/lib/python3.11/runpy.py", "line": 88}]


@dataclass
class Rank:
    """The dump of one rank, call by call."""

    rank: int
    groups: Mapping[str, tuple[str, Sequence[int]]]
    entries: list[dict[str, Any]] = field(default_factory=list)
    made: Counter[tuple[str, bool]] = field(default_factory=Counter)
    begin: float = field(default_factory=lambda: time.time() - AGO_SECONDS)

    def call(
        self,
        name: str,
        shape: Sequence[int] = (4,),
        *,
        group: str = WORLD,
        state: str = "completed",
        dtype: str = "Float",
        line: int = 9,
        is_retired: bool | None = None,
        is_p2p: bool = False,
        same_batch: bool = False,
        seconds_later: float = 0.001,
    ) -> None:
        """`same_batch`: with the sequence number of the call before."""
        self.made[group, is_p2p] += not same_batch
        self.begin += seconds_later
        moment, is_over = int(self.begin * 1e9), state == "completed"
        inside = {"name": name.partition(" ")[0], "filename": f"{TORCH}distributed_c10d.py", "line": 1}
        where = {"name": "step", "filename": "/home/me/train.py", "line": line}
        self.entries.append(
            {
                "frames": [inside, WRAPPER, where, *OUTSIDE],
                "record_id": len(self.entries),
                "pg_id": 0,
                "process_group": (group, self.groups[group][0]),
                "collective_seq_id": self.made[group, False],
                "p2p_seq_id": self.made[group, True],
                "op_id": len(self.entries),
                "profiling_name": f"nccl:{name}",
                "time_created_ns": moment,
                "input_sizes": [list(shape)],
                "input_dtypes": [dtype],
                "output_sizes": [list(shape)],
                "output_dtypes": [dtype],
                "state": state,
                "time_discovered_started_ns": None,
                "time_discovered_completed_ns": moment + 1 if is_over else None,
                "retired": is_over if is_retired is None else is_retired,
                "timeout_ms": int(TIMEOUT_SECONDS * 1000),
                "is_p2p": is_p2p,
                "thread_id": "1",
                "thread_name": "pt_main_thread",
            }
        )

    def lose(self, count: int) -> None:
        """The ring buffer overwrites the oldest calls."""
        del self.entries[:count]

    @property
    def content(self) -> dict[str, Any]:
        config = {
            name: {"name": name, "desc": said, "ranks": str(list(members))}
            for name, (said, members) in self.groups.items()
            if self.rank in members
        }
        return {
            "version": "2.10",
            "comm_lib_version": "2.27",
            "pg_config": config,
            "pg_status": {},
            "entries": self.entries,
        }

    def write(self, folder: Path, prefix: str = "nccl_trace_rank_", written_ago: float = 0.0) -> Path:
        path = folder / f"{prefix}{self.rank}"
        path.write_bytes(pickle.dumps(self.content, protocol=2))
        moment = time.time() - written_ago
        os.utime(path, (moment, moment))
        return path

    def write_json(self, folder: Path) -> Path:
        """As torch's JSON form: without stacks."""
        entries = [{name: one for name, one in entry.items() if name != "frames"} for entry in self.entries]
        path = folder / f"trace_{self.rank}.json"
        path.write_text(json.dumps({**self.content, "entries": entries}))
        return path


def world(size: int, **groups: tuple[str, Sequence[int]]) -> list[Rank]:
    """The ranks of a job, which have called nothing yet. Further groups: name=(description, ranks)."""
    named = {WORLD: ("default_pg", range(size)), **{name.removeprefix("g"): about for name, about in groups.items()}}
    return [Rank(rank, named) for rank in range(size)]


def write_all(ranks: Sequence[Rank], folder: Path, **options: Any) -> Path:
    for rank in ranks:
        rank.write(folder, **options)
    return folder
