"""Pictures of what the ranks did, drawn from the events that they recorded.

Every function here returns a `Figure`, or for a chart a `Picture`: it shows itself in a notebook and carries a drawing
in plain text.
The names load when they are first used, so that matplotlib is imported only by programs that draw.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ddp_lessons.show.controls.explorer import Explorer as Explorer
    from ddp_lessons.show.costs.cost_curves import Line as Line, cost as cost, fit_line as fit_line, latency as latency
    from ddp_lessons.show.costs.measured_speeds import scaling as scaling
    from ddp_lessons.show.costs.speed_ups import explore_scaling as explore_scaling
    from ddp_lessons.show.figures.figure import Figure as Figure
    from ddp_lessons.show.messages.collective_films import collective as collective, collectives as collectives
    from ddp_lessons.show.messages.joining_ranks import joining as joining
    from ddp_lessons.show.messages.rings import ring as ring
    from ddp_lessons.show.messages.traffic_matrix import traffic as traffic
    from ddp_lessons.show.messages.wait_graph import waits as waits
    from ddp_lessons.show.page.chart import Chart as Chart
    from ddp_lessons.show.page.picture import Picture as Picture
    from ddp_lessons.show.page.printed import Printed as Printed
    from ddp_lessons.show.programs.backend_table import what_works as what_works
    from ddp_lessons.show.programs.several_machines import machines as machines
    from ddp_lessons.show.programs.terminals import mpi_run as mpi_run, terminal as terminal
    from ddp_lessons.show.timelines.timeline_figure import timeline as timeline
    from ddp_lessons.show.trainings.digit_sheets import digits as digits
    from ddp_lessons.show.trainings.distances import distance as distance
    from ddp_lessons.show.trainings.fingerprint_rows import fingerprints as fingerprints
    from ddp_lessons.show.trainings.memory_bars import memory as memory
    from ddp_lessons.show.trainings.pipeline_slots import pipeline as pipeline
    from ddp_lessons.show.trainings.seen_samples import samples as samples
    from ddp_lessons.show.trainings.sharding_stages import sharding as sharding
    from ddp_lessons.show.trainings.training_curves import training as training

_HOME = {
    "Chart": "page.chart",
    "Explorer": "controls.explorer",
    "Figure": "figures.figure",
    "Line": "costs.cost_curves",
    "Picture": "page.picture",
    "Printed": "page.printed",
    "collective": "messages.collective_films",
    "collectives": "messages.collective_films",
    "cost": "costs.cost_curves",
    "digits": "trainings.digit_sheets",
    "distance": "trainings.distances",
    "explore_scaling": "costs.speed_ups",
    "fingerprints": "trainings.fingerprint_rows",
    "fit_line": "costs.cost_curves",
    "joining": "messages.joining_ranks",
    "latency": "costs.cost_curves",
    "machines": "programs.several_machines",
    "memory": "trainings.memory_bars",
    "mpi_run": "programs.terminals",
    "pipeline": "trainings.pipeline_slots",
    "ring": "messages.rings",
    "samples": "trainings.seen_samples",
    "scaling": "costs.measured_speeds",
    "sharding": "trainings.sharding_stages",
    "terminal": "programs.terminals",
    "timeline": "timelines.timeline_figure",
    "traffic": "messages.traffic_matrix",
    "training": "trainings.training_curves",
    "waits": "messages.wait_graph",
    "what_works": "programs.backend_table",
}
__all__ = list(_HOME)


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOME])
