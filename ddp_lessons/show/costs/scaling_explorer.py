"""A model of a training's speed with its numbers as sliders, over what was measured."""

from __future__ import annotations

from collections.abc import Mapping

from ddp_lessons.show.controls.explorer import Explorer
from ddp_lessons.show.controls.explorer_controls import Choice, Slider, Values
from ddp_lessons.show.controls.slider_scales import by_factors, by_two, show_seconds
from ddp_lessons.show.costs.speed_ups import Machine, Model, Speeds, speed_ups
from ddp_lessons.show.page.chart import Chart
from ddp_lessons.show.page.picture import show_bytes

SMALLEST, LARGEST = 8, 16_384  # batch
SOME_CORES = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64)


def explore_scaling(
    model: Model,
    strong: Mapping[int, Speeds] | None = None,
    weak: Mapping[int, Speeds] | None = None,
    *,
    cores: int,
    latency: float,
    bandwidth: float,
) -> Explorer[Chart]:
    """Turn the batch, the cores and the cables under a model, and see how far more ranks would carry.

    Args:
        model: a function of the ranks, the batch of all ranks together, the cores, the latency in seconds and the bytes
            per second; it returns images per second.
        strong: what was measured, {batch of all ranks together: {ranks: images per second}}.
        weak: likewise, {batch of each rank: {ranks: images per second}}.
        cores: to begin with, as are `latency` and `bandwidth`: those of this machine.

    Raises:
        ValueError: one of the numbers cannot be.
    """
    measured = {False: dict(strong or {}), True: dict(weak or {})}
    first_batch = next(iter([*measured[False], *measured[True], 256]))
    first = Machine(first_batch, not measured[False] and bool(measured[True]), cores, latency, bandwidth)
    if not (cores >= 1 and latency >= 0 and bandwidth > 0 and first_batch >= 1):
        raise ValueError(f"these numbers are above 0, and the first are: {first}")

    def draw(batch_size: int, is_for_each: bool, cores: int, latency: float, bandwidth: float) -> Chart:
        now = Machine(batch_size, is_for_each, cores, latency, bandwidth)
        # what is stored shall be the same in every run
        return speed_ups(model, now, measured[is_for_each].get(batch_size), tells_numbers=now != first)

    def batches(now: Values) -> dict[str, int]:
        points = measured[now["is_for_each"]]
        sizes = by_two(SMALLEST, LARGEST, first_batch, *points)
        return {name + ", measured" * (size in points): size for name, size in sizes.items()}

    latencies = by_factors(1e-6, 0.1, show_seconds, latency)
    bandwidths = by_factors(1e6, 1e11, lambda number: f"{show_bytes(number)}/s", bandwidth)
    whose = {"for all ranks together (strong scaling)": False, "for each rank (weak scaling)": True}
    controls = {
        "is_for_each": Choice("the images are", whose, first.is_for_each),
        "batch_size": Slider("images", batches, first_batch),
        "cores": Slider("cores", sorted({*SOME_CORES, cores}), cores),
        "latency": Slider("latency", latencies, latency),
        "bandwidth": Slider("bandwidth", bandwidths, bandwidth),
    }
    return Explorer(draw, title="How much faster more ranks are, by the model", controls=controls)
