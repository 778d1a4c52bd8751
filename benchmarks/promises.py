"""The promises of the project, each compared with what this run measured."""

from collections.abc import Mapping, Sequence
from statistics import quantiles

from .beginnings import MANY, Beginnings
from .launches import Launches
from .measurement import Series, Target, at_most
from .memory import IdleRanks
from .tools import FLOOR, MP_SPAWN, OURS, Tool

Contestants = Mapping[Tool, Launches]


def best_peer(launches: Contestants) -> float | None:
    """The fastest of the others in this run."""
    medians = [found.later.median for tool, found in launches.items() if tool.role == "peer"]
    return min((seconds for seconds in medians if seconds is not None), default=None)


def references(launches: Contestants) -> list[float | None]:
    """The baselines for every tool: the floor, the best peer, and mp.spawn."""
    return [launches[FLOOR].later.median, best_peer(launches), launches[MP_SPAWN].later.median]


def ratio(seconds: float | None, reference: float | None) -> float | None:
    return None if seconds is None or reference is None else seconds / reference


def launch_promises(launches: Contestants, world_size: int) -> list[Target]:
    floor, best, spawn = (ratio(launches[OURS].later.median, reference) for reference in references(launches))
    later = f"launch of {world_size}, second and later"
    return [
        at_most(f"{later} / the floor", floor, 1.1, "x"),
        at_most(f"{later} / the best peer", best, 1 / 2, "x"),
        at_most(f"{later} / mp.spawn", spawn, 1 / 50, "x"),
    ]


def noise(series: Series) -> float | None:
    """How far the upper quartile is above the median: no promise can be checked more precisely than that."""
    return None if series.median is None else quantiles(series.seconds, n=4)[-1] / series.median


def beginning_promises(found: Beginnings) -> list[Target]:
    torch, first = found.import_torch.median, found.at_once.median
    reading, later = found.after_reading.median, found.later
    return [
        at_most("from ddp_lessons import launch", found.import_ours.median, 0.3),
        at_most("first launch right after it: import torch + 0.3 s", first, None if torch is None else torch + 0.3),
        at_most("first launch after 5 s of reading / a later one", ratio(reading, later.median), noise(later), "x"),
        at_most("a cell of standing ranks with an all_reduce", found.standing.median, 0.012),
        at_most(f"launch of {MANY}", found.many.median, 2.5),
    ]


def memory_promises(ours: IdleRanks) -> list[Target]:
    return [at_most("each further idle rank", ours.per_further_rank, 7, "MB")]


def all_promises(
    launches: Mapping[int, Contestants], beginnings: Beginnings, idle: Sequence[IdleRanks], world_size: int
) -> list[Target]:
    """All promises; ours comes first in `idle`."""
    return [
        *launch_promises(launches[world_size], world_size),
        *beginning_promises(beginnings),
        *memory_promises(idle[0]),
    ]
