"""Pictures of what the ranks did, drawn from the events that they recorded.

Every function here returns a `Picture`, which shows itself in a notebook and carries a drawing in plain text.
The names load when they are first used, so that nobody pays for matplotlib who draws nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ddp_lessons.show.averaging_explorer import explore_averaging as explore_averaging
    from ddp_lessons.show.backends import what_works as what_works
    from ddp_lessons.show.before_after import collective as collective
    from ddp_lessons.show.bucket_sizes import explore_buckets as explore_buckets
    from ddp_lessons.show.collectives_sheet import collectives as collectives
    from ddp_lessons.show.cost_explorer import explore_cost as explore_cost
    from ddp_lessons.show.curves import Line as Line, cost as cost, fit_line as fit_line, latency as latency
    from ddp_lessons.show.digit_sheets import digits as digits
    from ddp_lessons.show.distances import distance as distance
    from ddp_lessons.show.explorer import Explorer as Explorer
    from ddp_lessons.show.matrix import traffic as traffic
    from ddp_lessons.show.memory_bars import memory as memory
    from ddp_lessons.show.mpi_runs import mpi_run as mpi_run
    from ddp_lessons.show.picture import Picture as Picture
    from ddp_lessons.show.replicas import fingerprints as fingerprints
    from ddp_lessons.show.rings import ring as ring
    from ddp_lessons.show.samples_explorer import explore_samples as explore_samples
    from ddp_lessons.show.scaling_explorer import explore_scaling as explore_scaling
    from ddp_lessons.show.several_machines import machines as machines
    from ddp_lessons.show.speeds import scaling as scaling
    from ddp_lessons.show.step_players import play_messages as play_messages, step_through as step_through
    from ddp_lessons.show.terminals import terminal as terminal
    from ddp_lessons.show.timelines import timeline as timeline
    from ddp_lessons.show.told_curves import training as training
    from ddp_lessons.show.trainings import live_training as live_training
    from ddp_lessons.show.turning import turn_the_ring as turn_the_ring
    from ddp_lessons.show.who_saw import samples as samples

__all__ = [
    "Explorer",
    "Line",
    "Picture",
    "collective",
    "collectives",
    "cost",
    "digits",
    "distance",
    "explore_averaging",
    "explore_buckets",
    "explore_cost",
    "explore_samples",
    "explore_scaling",
    "fingerprints",
    "fit_line",
    "latency",
    "live_training",
    "machines",
    "memory",
    "mpi_run",
    "play_messages",
    "ring",
    "samples",
    "scaling",
    "step_through",
    "terminal",
    "timeline",
    "traffic",
    "training",
    "turn_the_ring",
    "what_works",
]

_HOME = {
    "Explorer": "explorer",
    "Line": "curves",
    "Picture": "picture",
    "collective": "before_after",
    "collectives": "collectives_sheet",
    "cost": "curves",
    "digits": "digit_sheets",
    "distance": "distances",
    "explore_averaging": "averaging_explorer",
    "explore_buckets": "bucket_sizes",
    "explore_cost": "cost_explorer",
    "explore_samples": "samples_explorer",
    "explore_scaling": "scaling_explorer",
    "fingerprints": "replicas",
    "fit_line": "curves",
    "latency": "curves",
    "live_training": "trainings",
    "machines": "several_machines",
    "memory": "memory_bars",
    "mpi_run": "mpi_runs",
    "play_messages": "step_players",
    "ring": "rings",
    "samples": "who_saw",
    "scaling": "speeds",
    "step_through": "step_players",
    "terminal": "terminals",
    "timeline": "timelines",
    "traffic": "matrix",
    "training": "told_curves",
    "turn_the_ring": "turning",
    "what_works": "backends",
}


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOME])
