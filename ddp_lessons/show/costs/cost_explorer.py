"""A cost model with its four numbers as sliders, beside what was measured."""

from __future__ import annotations

from collections.abc import Mapping

from ddp_lessons.show.controls.explorer import Explorer
from ddp_lessons.show.controls.explorer_controls import Slider
from ddp_lessons.show.controls.slider_scales import by_factors, network_sliders
from ddp_lessons.show.costs.cost_crossings import RANKS, SIZES, Formula, Setting, Study, cost_crossings
from ddp_lessons.show.costs.cost_curves import Points
from ddp_lessons.show.page.chart import Chart
from ddp_lessons.show.page.picture import show_bytes

SOME_RANKS = (2, 3, 4, 5, 6, 7, 8, 12, 16, 24, 32, 64, 128, 256, 512, 1024)


def explore_cost(
    formulas: Mapping[str, Formula],
    by_bytes: Mapping[str, Points] | None = None,
    by_ranks: Mapping[str, Points] | None = None,
    *,
    world_size: int = 4,
    size: float = 2e6,
    latency: float = 0.002,
    bandwidth: float = 100e6,
) -> Explorer[Chart]:
    """Turn the ranks, the bytes, the latency and the bandwidth of a cost model, and see its lines move.

    Args:
        formulas: by name, functions of the ranks, the bytes, the latency in seconds and the bytes per second.
        by_bytes: measured points by the same names, (bytes, seconds), all with `world_size` ranks.
        by_ranks: measured points, (ranks, seconds), all with `size` bytes.

    Raises:
        ValueError: there is no formula, or one of the numbers is out of bounds.
    """
    first = Setting(world_size, size, latency, bandwidth)
    _check(formulas, first)
    study = Study(dict(formulas), dict(by_bytes or {}), dict(by_ranks or {}), first)

    def draw(ranks: int, size: float, latency: float, bandwidth: float) -> Chart:
        now = Setting(ranks, size, latency, bandwidth)
        return cost_crossings(study, now, tells_measured=now != first)  # what is stored is the same in every run

    controls = {
        "ranks": Slider("ranks", sorted({*SOME_RANKS, world_size}), world_size),
        "size": Slider("bytes", by_factors(*SIZES, show_bytes, size), size),
        **network_sliders(latency, bandwidth),
    }
    return Explorer(draw, title="What an all-reduce costs, by the model", controls=controls)


def _check(formulas: Mapping[str, Formula], first: Setting) -> None:
    if not formulas:
        raise ValueError("there is nothing to explore: give at least one formula, as in {'ring': ring_seconds}")
    if not (RANKS[0] <= first.ranks <= RANKS[1] and SIZES[0] <= first.size <= SIZES[1]):
        raise ValueError(f"the widget goes from 2 to 1024 ranks and from 1 KB to 100 MB, and begins with {first}")
    if not (first.latency >= 0 and first.bandwidth > 0):
        raise ValueError(f"a latency is not below 0 and a bandwidth is above 0, and here they are: {first}")
