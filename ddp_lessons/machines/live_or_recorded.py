"""Attempts run live if this machine supports it; otherwise a recording is shown. A lesson reads the same both ways."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, TypeVar, cast

from ddp_lessons.machines.attempts import Attempt
from ddp_lessons.machines.places import Place
from ddp_lessons.record import recordings
from ddp_lessons.record.events import Events, as_plain, from_plain
from ddp_lessons.record.line_names import is_cell
from ddp_lessons.record.rank_record import Recorded
from ddp_lessons.record.results import NO_VALUE, Results
from ddp_lessons.run.diagnosis.failures import WorkerFailed, WorkersStuck
from ddp_lessons.run.launcher.rank_states import Account

RECORDINGS = Path(__file__).with_name("recordings")
TROUBLES = RECORDINGS / "troubles.txt"
_CELL = "<ipython-input>"  # the file of a cell has another name in each kernel

A = ParamSpec("A")
P = TypeVar("P")
Done = Attempt | Results[Any] | WorkerFailed | WorkersStuck
D = TypeVar("D", bound=Done)


def attempt(function: Callable[Concatenate[P, A], D], place: Place[P], *args: A.args, **kwargs: A.kwargs) -> D:
    """Create the place, call `function(place, ...)` and return its result, or the recording of this call.

    The result is an attempt, or what `launch(..., on=...)` returned or raised. A recording belongs to
    the function's source, to what it uses, and to the place. If you change one of them, the call runs live or not at
    all.

    Raises:
        NotHere: the place can't be created here, and there is no recording of this call.
        TypeError: the function or the place is missing, or the function returns something else.
    """
    if not callable(function) or isinstance(place, type) or not hasattr(place, "why_not"):
        raise TypeError("attempt() takes a function and a place, as in attempt(look, Machines(2))")

    def live() -> D:
        with place as made:
            done: object = function(made, *args, **kwargs)
        if not isinstance(done, Attempt | Results | WorkerFailed | WorkersStuck):
            raise TypeError(f"the function must return what everywhere(), launch() or sbatch() returns, not {done!r}")
        return cast(D, done)

    file = recording_of(function, args, kwargs)
    of = recordings.digest_of(function, place)
    shown: D = recordings.live_or_recorded(file, of, place.why_not, live, _as_plain, from_recording)
    return shown


def troubles() -> str:
    """A table of what goes wrong with several nodes, as measured by `python -m tools.benchmarks nodes`."""
    return TROUBLES.read_text(encoding="utf-8").removesuffix("\n")


def recording_of(function: Callable[..., object], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Path:
    """The file is named after the function and its arguments."""
    parts = [str(arg) for arg in args] + [f"{name}-{value}" for name, value in kwargs.items()]
    name = re.sub(r"[^\w.-]+", "_", "_".join([getattr(function, "__name__", "attempt"), *parts]))
    return RECORDINGS / f"{name}.json"


def _as_plain(done: Done) -> dict[str, Any]:
    """Of a launch: values have to be numbers, text, or lists of these; what ranks logged is left out."""
    if isinstance(done, Attempt):
        return done.as_plain()
    results = done if isinstance(done, Results) else done.results
    plain: dict[str, Any] = {
        "values": {rank: value for rank, value in enumerate(results.values) if value is not NO_VALUE},
        "lines": results.lines,
        "seconds": round(results.seconds, 2),
        "ranks": [_without_folders(one) for one in results.events.records],
    }
    if not isinstance(done, Results):
        plain |= {"failure": type(done).__name__, "message": str(done), "rank": done.rank}
    return plain


def from_recording(told: Mapping[str, Any]) -> Any:
    if "ranks" not in told:
        return Attempt.from_plain(told)
    values = tuple(told["values"].get(str(rank), NO_VALUE) for rank in range(len(told["ranks"])))
    events = Events([from_plain(_with_tuples(one)) for one in told["ranks"]])
    results: Results[Any] = Results(values, tuple(told["lines"]), told["seconds"], events, recorded=told["recorded"])
    if "failure" not in told:
        return results
    failure = WorkersStuck if told["failure"] == "WorkersStuck" else WorkerFailed
    account = Account(len(results), ended={}, positions={}, returned=frozenset())
    remark = f"recorded ({told['recorded']})"
    return failure(told["message"], account, results, told["rank"], key="", remark=remark)  # a recording keeps no key


def _without_folders(recorded: Recorded) -> dict[str, Any]:
    def short(file: str) -> str:
        return _CELL if is_cell(file) else os.path.basename(file)

    plain = as_plain(recorded)
    for call in plain["calls"]:
        call["file"] = short(call["file"])
    if standing := plain["standing"]:
        standing["at"] = short(standing["at"][0]), standing["at"][1]
    return plain


def _with_tuples(told: Any) -> Any:
    """As it was before JSON made lists of tuples."""
    if isinstance(told, dict):
        return {name: _with_tuples(value) for name, value in told.items()}
    return tuple(map(_with_tuples, told)) if isinstance(told, list) else told
