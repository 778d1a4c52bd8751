"""Figures of what the ranks did, drawn from the events that they recorded.

Most functions here return a `Figure` or a `Chart`, which a notebook displays and which also has a plain-text version.
The names are loaded on first use, so that only programs that draw import matplotlib.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ddp_lessons.show.charts.chart import Chart as Chart
    from ddp_lessons.show.charts.cost_curves import Line as Line, cost as cost, fit_line as fit_line, latency as latency
    from ddp_lessons.show.charts.digit_sheets import digits as digits
    from ddp_lessons.show.charts.distances import distance as distance
    from ddp_lessons.show.charts.scaling import scaling as scaling
    from ddp_lessons.show.charts.speed_ups import explore_scaling as explore_scaling
    from ddp_lessons.show.charts.training_curves import training as training
    from ddp_lessons.show.figures.figure import Figure as Figure
    from ddp_lessons.show.messages.collective_films import collective as collective, collectives as collectives
    from ddp_lessons.show.messages.joining_ranks import joining as joining
    from ddp_lessons.show.messages.rings import ring as ring
    from ddp_lessons.show.messages.wait_graph import waits as waits
    from ddp_lessons.show.programs.printed import (
        Printed as Printed,
        mpi_run as mpi_run,
        terminal as terminal,
        what_works as what_works,
    )
    from ddp_lessons.show.programs.several_machines import machines as machines
    from ddp_lessons.show.timelines.timeline_figure import timeline as timeline
    from ddp_lessons.show.trainings.fingerprint_rows import fingerprints as fingerprints
    from ddp_lessons.show.trainings.held_memory import memory as memory, sharding as sharding
    from ddp_lessons.show.trainings.pipeline_slots import pipeline as pipeline
    from ddp_lessons.show.trainings.seen_samples import samples as samples

_HOME = {
    "Chart": "charts.chart",
    "Figure": "figures.figure",
    "Line": "charts.cost_curves",
    "Printed": "programs.printed",
    "collective": "messages.collective_films",
    "collectives": "messages.collective_films",
    "cost": "charts.cost_curves",
    "digits": "charts.digit_sheets",
    "distance": "charts.distances",
    "explore_scaling": "charts.speed_ups",
    "fingerprints": "trainings.fingerprint_rows",
    "fit_line": "charts.cost_curves",
    "joining": "messages.joining_ranks",
    "latency": "charts.cost_curves",
    "machines": "programs.several_machines",
    "memory": "trainings.held_memory",
    "mpi_run": "programs.printed",
    "pipeline": "trainings.pipeline_slots",
    "ring": "messages.rings",
    "samples": "trainings.seen_samples",
    "scaling": "charts.scaling",
    "sharding": "trainings.held_memory",
    "terminal": "programs.printed",
    "timeline": "timelines.timeline_figure",
    "training": "charts.training_curves",
    "waits": "messages.wait_graph",
    "what_works": "programs.printed",
}
__all__ = list(_HOME)


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOME])
