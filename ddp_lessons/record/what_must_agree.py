"""What must agree between matching calls: one rule, used by a rank before its call and by the notebook afterwards."""

from __future__ import annotations

import math

from ddp_lessons.record.event import POINT_TO_POINT, Event
from ddp_lessons.record.rank_record import NEW_GROUPS

# the tensors of a collective must have the same shape on all ranks; those of all_to_all may differ
_OF_ONE_SHAPE = ("all_reduce", "reduce", "broadcast", "all_gather", "gather", "scatter", "reduce_scatter")
_WITHOUT_TENSORS = ("barrier", "monitored_barrier", *NEW_GROUPS, "init_process_group")


def what_must_agree(call: Event) -> dict[str, object]:
    """What must agree, by name. The first difference is the one to report. For an all_to_all, see also its `parts`."""
    if call.operation in POINT_TO_POINT:
        return {"dtype": call.dtype, "bytes": call.bytes}
    return {
        "operation": call.operation,
        "group": sorted(call.group_ranks),
        "root": call.root,
        "elements": _elements(call),
        "dtype": None if call.operation in _WITHOUT_TENSORS else call.dtype,
        "reduce_op": call.reduce_op,
    }


def _elements(call: Event) -> object:
    if call.operation == "all_reduce" and call.tensors > 1:
        return call.tensors, call.bytes
    return math.prod(call.shape) if call.operation in _OF_ONE_SHAPE else None
