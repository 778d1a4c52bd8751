"""Dumps of many simulated ranks, as NCCL leaves them: how long `explain` takes, and how much memory."""

import os
import pickle
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from .kernel import ROOT
from .measurement import Target, at_most
from .tables import table

TENSOR_PARALLEL = 8
STACK = 20  # frames of a call
SECONDS_AGO = 700


@dataclass(frozen=True)
class Large:
    """One run of `explain`."""

    ranks: int
    entries: int
    megabytes: float  # of the files
    seconds: float
    cpu_seconds: float  # less than the seconds if other work kept the machine busy
    peak_gigabytes: float
    names_rank: bool

    @property
    def promises(self) -> list[Target]:
        return [
            at_most(f"{self.ranks} ranks with {self.entries} entries each", self.seconds, 30.0),
            at_most("peak memory", self.peak_gigabytes, 2.0, "GiB"),
            at_most("missing rank not named", int(not self.names_rank), 0, ""),
        ]


def measure_large(ranks: int, entries: int) -> Large:
    """One rank in the middle has not made the last call of all ranks; every ring buffer has lost its oldest calls."""
    missing = ranks // 2 + 1
    with TemporaryDirectory() as folder:
        size = 0
        for rank in range(ranks):
            data = pickle.dumps(dump_of(rank, ranks, entries, rank == missing), protocol=2)
            Path(folder, f"nccl_trace_rank_{rank}").write_bytes(data)
            size += len(data)
        begin = time.perf_counter()
        command = [sys.executable, "-m", "ddp_lessons", "explain", f"{folder}/nccl_trace_rank_"]
        with open(Path(folder, "said"), "w+") as said:
            process = subprocess.Popen(command, cwd=ROOT, stdout=said)
            _, status, used = os.wait4(process.pid, 0)
            seconds = time.perf_counter() - begin
            process.returncode = os.waitstatus_to_exitcode(status)
            said.seek(0)
            names_rank = f"Rank {missing} has not called it" in said.read()
    cpu_seconds, peak = used.ru_utime + used.ru_stime, used.ru_maxrss / 1024**2
    return Large(ranks, entries, size / 1e6, seconds, cpu_seconds, peak, names_rank and process.returncode == 1)


def dump_of(rank: int, ranks: int, entries: int, is_missing: bool) -> dict[str, Any]:
    """Training steps of tensor and data parallelism: in each, calls in three groups."""
    part = rank // TENSOR_PARALLEL
    groups = {
        "0": ("default_pg", list(range(ranks))),
        f"1{part}": ("tp", list(range(part * TENSOR_PARALLEL, min(ranks, (part + 1) * TENSOR_PARALLEL)))),
        f"2{rank % TENSOR_PARALLEL}": ("dp", list(range(rank % TENSOR_PARALLEL, ranks, TENSOR_PARALLEL))),
    }
    config = {name: {"name": name, "desc": said, "ranks": str(members)} for name, (said, members) in groups.items()}
    lost = 1000 + rank % 7  # on each rank others
    calls = list(_calls(list(groups.items()), lost, entries, is_missing))
    return {"version": "2.10", "comm_lib_version": "2.27.3", "pg_config": config, "pg_status": {}, "entries": calls}


def _calls(groups: list[Any], lost: int, entries: int, is_missing: bool) -> Iterator[dict[str, Any]]:
    begin = int((time.time() - SECONDS_AGO) * 1e9)
    stack = [
        {"name": f"f{depth}", "filename": f"/opt/lib/python3.11/site-packages/torch/x{depth}.py", "line": depth}
        for depth in range(STACK)
    ]
    stacks = [[*stack, {"name": "step", "filename": "/home/me/train.py", "line": 40 + kind}] for kind in range(3)]
    last = 3 * ((1007 + entries - 7) // 3) + 3  # the same on all ranks, a call of the group of all
    for number in range(max(lost, last - entries), last + 1 - is_missing):
        kind = number % 3
        name, (said, _) = groups[kind]
        is_over = number < last
        moment = begin + number * 1_000_000
        yield {
            "frames": stacks[kind],
            "record_id": number,
            "pg_id": kind,
            "process_group": (name, said),
            "collective_seq_id": number // 3 + 1,
            "p2p_seq_id": 0,
            "op_id": number // 3 + 1,
            "profiling_name": ("nccl:all_reduce", "nccl:_all_gather_base", "nccl:_reduce_scatter_base")[kind],
            "time_created_ns": moment,
            "input_sizes": [[1024, 8]],
            "input_dtypes": ["BFloat16"],
            "output_sizes": [[1024, 8]],
            "output_dtypes": ["BFloat16"],
            "state": "completed" if is_over else "scheduled",
            "time_discovered_started_ns": None,
            "time_discovered_completed_ns": moment + 500_000 if is_over else None,
            "retired": is_over,
            "timeout_ms": 600_000,
            "is_p2p": False,
            "thread_id": "1",
            "thread_name": "pt_main_thread",
        }


def large_table(large: Large, markdown: bool) -> str:
    header = (
        "simulated ranks",
        "entries each",
        "files MB",
        "seconds",
        "CPU seconds",
        "peak GiB",
        "names the missing rank",
    )
    row = (
        str(large.ranks),
        str(large.entries),
        f"{large.megabytes:.0f}",
        f"{large.seconds:.1f}",
        f"{large.cpu_seconds:.1f}",
        f"{large.peak_gigabytes:.2f}",
        "yes" if large.names_rank else "NO",
    )
    return table(header, [row], markdown)
