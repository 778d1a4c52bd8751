"""Values for a slider that grows by factors, each with the name under which it is shown."""

from __future__ import annotations

import math
from collections.abc import Callable

from ddp_lessons.show.controls.explorer_controls import Slider
from ddp_lessons.show.page.picture import show_bytes, show_seconds


def by_factors(low: float, high: float, name: Callable[[float], str], *given: float) -> dict[str, float]:
    """1, 2, 5, 10, 20, 50, ... from low to high, and the given values among them."""
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    steps = [float(f"{digit}e{power}") for power in powers for digit in (1, 2, 5)]
    return _named([step for step in steps if low <= step <= high], name, given)


def by_two(low: int, high: int, *given: int) -> dict[str, int]:
    """Powers of two from low to high, and the given numbers among them."""
    powers = [2**power for power in range(high.bit_length()) if low <= 2**power <= high]
    return {name: int(number) for name, number in _named(powers, lambda number: f"{number:,.0f}", given).items()}


def network_sliders(latency: float, bandwidth: float) -> dict[str, Slider]:
    """For the two numbers by which the models of costs know a network."""
    latencies = by_factors(1e-6, 0.1, show_seconds, latency)
    bandwidths = by_factors(1e6, 1e11, lambda number: f"{show_bytes(number)}/s", bandwidth)
    return {"latency": Slider("latency", latencies, latency), "bandwidth": Slider("bandwidth", bandwidths, bandwidth)}


def _named(steps: list[float] | list[int], name: Callable[[float], str], given: tuple[float, ...]) -> dict[str, float]:
    """Of two values with one name the given one counts."""
    values = {name(value): value for value in (*steps, *given)}
    return dict(sorted(values.items(), key=lambda item: item[1]))
