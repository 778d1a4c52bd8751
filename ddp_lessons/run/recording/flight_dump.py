"""Inside a rank: its records as a dump in the format of torch's Flight Recorder, which torch's own tools read, too.

gloo's own dumps lack send and recv, roots, reduce operations, and the members of groups.
"""

from __future__ import annotations

import dataclasses
import os
import pickle
import time
from collections import Counter
from typing import Any

from ddp_lessons.record.event import POINT_TO_POINT, Event, of_rank
from ddp_lessons.record.events import as_plain
from ddp_lessons.record.rank_record import NEW_GROUPS, Recorded

FORMAT = "2.10"
_NOT_IN_TORCHS = (*NEW_GROUPS, "init_process_group", "monitored_barrier")
DTYPES = {  # torch's name in a dump, by the name in Python
    "float32": "Float",
    "float64": "Double",
    "float16": "Half",
    "bfloat16": "BFloat16",
    "int64": "Long",
    "int32": "Int",
    "int16": "Short",
    "int8": "Char",
    "uint8": "Byte",
    "bool": "Bool",
    "complex64": "ComplexFloat",
    "complex128": "ComplexDouble",
}
_Sizes = list[list[int]]


def write_dump(path: str, rank: int, world_size: int, recorded: Recorded, ended: str, quiet_seconds: float) -> None:
    """Write the whole file at once. `ended`: how its function ended, "" if it runs."""
    recorded = _in_world_time(recorded)
    calls = [call for call in recorded.calls if call.operation not in _NOT_IN_TORCHS and call.took_part]
    dump = {
        "version": FORMAT,
        "pg_config": {call.group: _config(call) for call in calls},
        "entries": _entries(rank, calls),
        "ddp_lessons": {
            "world_size": world_size,
            "recorded": as_plain(recorded),
            "ended": ended,
            "quiet_seconds": quiet_seconds,
        },
    }
    part = f"{path}{rank}.part"
    with open(part, "wb") as file:
        pickle.dump(dump, file, protocol=2)
    os.replace(part, f"{path}{rank}")


def _in_world_time(recorded: Recorded) -> Recorded:
    """In seconds since 1970: the ranks may run on several nodes."""
    offset = time.time() - time.perf_counter()
    calls = tuple(of_rank(call.rank, call, -offset) for call in recorded.calls)
    began, until = recorded.began + offset, recorded.until + offset
    return dataclasses.replace(recorded, calls=calls, began=began, until=until, gaps=())


def _config(call: Event) -> dict[str, str]:
    return {"name": call.group, "desc": _description(call), "ranks": str(list(call.group_ranks))}


def _description(call: Event) -> str:
    return "default_pg" if call.group.partition(",")[0] == "0" else "undefined"


def _entries(rank: int, calls: list[Event]) -> list[dict[str, Any]]:
    made: Counter[tuple[str, bool]] = Counter()
    groups = {group: number for number, group in enumerate(dict.fromkeys(call.group for call in calls))}
    entries = []
    for number, call in enumerate(calls):
        is_message = call.operation in POINT_TO_POINT
        made[call.group, is_message] += 1
        inputs, outputs = _sizes(rank, call)
        dtype = DTYPES.get(call.dtype, call.dtype)
        entries.append(
            {
                "frames": [{"name": call.function, "filename": call.file, "line": call.line}],
                "record_id": number,
                "pg_id": groups[call.group],
                "process_group": (call.group, _description(call)),
                "collective_seq_id": made[call.group, False],
                "p2p_seq_id": made[call.group, True],
                "op_id": made[call.group, False] + made[call.group, True],
                "profiling_name": f"{call.backend}:{call.operation}{_ends(rank, call)}",
                "time_created_ns": int(call.begin * 1e9),
                "input_sizes": inputs,
                "input_dtypes": [dtype] * len(inputs),
                "output_sizes": outputs,
                "output_dtypes": [dtype] * len(outputs),
                "state": "scheduled" if call.end is None else "completed",
                "time_discovered_started_ns": None,
                "time_discovered_completed_ns": None if call.end is None else int(call.end * 1e9),
                "retired": call.end is not None,
                "timeout_ms": 0,
                "is_p2p": is_message,
                "thread_name": call.thread,
            }
        )
    return entries


def _ends(rank: int, call: Event) -> str:
    """Of a message, in the numbers of the group."""
    if call.operation not in POINT_TO_POINT:
        return ""
    number = {one: number for number, one in enumerate(call.group_ranks)}
    other = "?" if call.peer is None else number.get(call.peer, call.peer)
    return f" {number.get(rank, rank)}{'->' if call.operation == 'send' else '<-'}{other}"


def _sizes(rank: int, call: Event) -> tuple[_Sizes, _Sizes]:
    """As gloo would have stored them: what a rank gathers or scatters in one piece."""
    one: _Sizes = [list(call.shape)] * max(call.tensors, 1) if call.dtype else []
    whole = [[len(call.group_ranks), *call.shape]] if call.dtype else []
    is_root = call.root == rank
    by_operation: dict[str, tuple[_Sizes, _Sizes]] = {
        "send": (one, []),
        "recv": ([], one),
        "all_gather": (one, whole),
        "gather": (one, whole if is_root else []),
        "scatter": (whole if is_root else [], one[:1]),
    }
    return by_operation.get(call.operation, (one, one))
