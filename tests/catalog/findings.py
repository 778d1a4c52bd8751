"""One mistake made with launch: how it ended, how soon, what its message lacks, and what it leaves behind."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from tempfile import TemporaryDirectory

import torch
import torch.distributed as dist
from processes import running

from ddp_lessons import Results, WorkerFailed, WorkersStuck, launch
from ddp_lessons.run.nodes.hosts import Nodes

from .mistakes import Mistake
from .programs.noted import noted, notes
from .verdicts import Failure, missing

TIMEOUT_SECONDS = 30.0


@dataclass(frozen=True)
class Finding:
    """One mistake, made once."""

    mistake: Mistake
    world_size: int
    ended: Failure | Results[object]
    seconds: float  # from the hang to the exception
    missing: Sequence[str]
    is_alive: bool  # the next launch returned the right answer
    left: int  # of its processes, when the exception was raised


def make(mistake: Mistake, world_size: int) -> Finding:
    with TemporaryDirectory() as folder:
        ended = launched(mistake.function, world_size, folder, join=mistake.join)
        moment = time.perf_counter()
        moments = notes(folder)
    left = len(running(map(int, moments["process"])))
    seconds = moment - standstill(ended, moments)
    return Finding(mistake, world_size, ended, seconds, missing(mistake, world_size, ended), next_is_right(), left)


def launched(
    function: Callable[[int, int], object],
    world_size: int,
    folder: str,
    *,
    join: bool = True,
    timeout_seconds: float = TIMEOUT_SECONDS,
    on: Nodes | None = None,
) -> Failure | Results[object]:
    try:
        return launch(
            noted, world_size, function, folder, timeout_seconds=timeout_seconds, quiet=True, join=join, on=on
        )
    except (WorkersStuck, WorkerFailed) as error:
        return error


def standstill(ended: Failure | Results[object], moments: dict[str, list[float]]) -> float:
    """The last moment at which a rank started or completed a call, or returned; or the first exception.

    Exceptions of ranks because others were stopped ("connection closed") come after the hang and don't count.
    """
    results = ended if isinstance(ended, Results) else ended.results
    origin = min(moments["began"])  # when the events' clock starts
    calls = [
        origin + moment
        for event in results.events
        for moment in (event.begin, event.issued, event.waited, event.end)
        if moment is not None and not event.error
    ]
    raised = sorted(moments["raised"])[:1] if isinstance(ended, WorkerFailed) else []
    return max([*moments["began"], *moments["ended"], *calls, *raised])


def next_is_right(on: Nodes | None = None) -> bool:
    return list(launch(add_up, 2, quiet=True, on=on)) == [1.0, 1.0]


def add_up(rank: int, world_size: int) -> float:
    tensor = torch.tensor([float(rank)])
    dist.all_reduce(tensor)
    return tensor.item()
