"""What `launch` returned or raised on nodes, as plain data for a recording, and back."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any

from ddp_lessons.record.events import Events, as_plain, from_plain
from ddp_lessons.record.line_names import is_cell
from ddp_lessons.record.rank_record import Recorded
from ddp_lessons.record.results import NO_VALUE, Results
from ddp_lessons.run.diagnosis.failures import WorkerFailed, WorkersStuck
from ddp_lessons.run.launcher.rank_states import Account

Launched = Results[Any] | WorkerFailed | WorkersStuck
_CELL = "<ipython-input>"  # the file of a cell has another name in each kernel
_FAILURES: dict[str, type[WorkerFailed] | type[WorkersStuck]] = {
    "WorkerFailed": WorkerFailed,
    "WorkersStuck": WorkersStuck,
}


def launch_as_plain(done: Launched, clean: Callable[[str], str]) -> dict[str, Any]:
    """`clean` removes from text what is specific to the machine of the recording.

    A value of a rank has to be a number, text, or a list of these. What ranks logged is left out, and so are stacks.
    """
    results = done if isinstance(done, Results) else done.results
    plain: dict[str, Any] = {
        "values": {rank: value for rank, value in enumerate(results.values) if value is not NO_VALUE},
        "lines": [[clean(line) for line in lines] for lines in results.lines],
        "seconds": round(results.seconds, 2),
        "ranks": [_without_folders(one) for one in results.events.records],
    }
    if not isinstance(done, Results):
        plain |= {"failure": type(done).__name__, "message": clean(str(done)), "rank": done.rank}
    return plain


def launch_from_plain(told: Mapping[str, Any], how: str) -> Launched:
    """`how`: the system of the recording."""
    failure = told.get("failure")
    values = tuple(told["values"].get(str(rank), NO_VALUE) for rank in range(len(told["ranks"])))
    events = Events([from_plain(_with_tuples(one)) for one in told["ranks"]])
    results: Results[Any] = Results(values, tuple(told["lines"]), told["seconds"], events, recorded=how)
    if not failure:
        return results
    account = Account(len(results), ended={}, positions={}, returned=frozenset())
    return _FAILURES[failure](told["message"], account, results, told["rank"], f"recorded ({how})")


def _without_folders(recorded: Recorded) -> dict[str, Any]:
    plain = as_plain(recorded)
    for call in plain["calls"]:
        call["file"] = _short(call["file"])
    if standing := plain["standing"]:
        file, line = standing["at"]
        standing["at"] = _short(file), line
    return plain


def _short(file: str) -> str:
    return _CELL if is_cell(file) else os.path.basename(file)


def _with_tuples(told: Any) -> Any:
    """As it was before JSON made lists of tuples."""
    if isinstance(told, dict):
        return {name: _with_tuples(value) for name, value in told.items()}
    return tuple(map(_with_tuples, told)) if isinstance(told, list) else told
