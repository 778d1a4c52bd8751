"""How figures format bytes, seconds and values."""

from __future__ import annotations

from typing import Any


def events_of(results: Any) -> Any:
    """Return the events of results or of an exception with results, or the events that were passed."""
    results = getattr(results, "results", results)
    events = getattr(results, "events", results)
    if not hasattr(events, "deliveries"):
        raise TypeError(f"figures need the results of launch(), not a value of type {type(results).__name__}")
    return events


def name_recording(results: Any) -> str:
    """ "recorded (Linux, ...)" if these are results from another machine, else ""."""
    how = getattr(getattr(results, "results", results), "recorded", "")
    return f"recorded ({how})" if how else ""


def show_bytes(number: float) -> str:
    """Format bytes with a unit: "16 B", "4 KB", "16 MB" (powers of 1,000)."""
    for unit, size in (("GB", 1e9), ("MB", 1e6), ("KB", 1e3)):
        if number >= 0.9995 * size:
            return f"{_short(number / size)} {unit}"
    return f"{number:g} B"


def show_seconds(number: float) -> str:
    """Format seconds with a unit: "35 ms"."""
    for unit, size in (("s", 1.0), ("ms", 1e-3)):
        if number >= 0.9995 * size:
            return f"{_short(number / size)} {unit}"
    return f"{number / 1e-6:.3g} µs" if number else "0"


def _short(number: float) -> str:
    return f"{number:.3g}" if number < 999.5 else f"{number:,.0f}"


def show_network(latency: float, bandwidth: float) -> str:
    return f"a latency of {show_seconds(latency)}, {show_bytes(bandwidth)} per second"


def show_values(values: Any, room: int = 14) -> str:
    """Format a few numbers: "[1, 2.5]"; "" if they don't fit."""
    text = "[" + ", ".join(f"{value:.4g}" for value in values) + "]"
    return text if len(text) <= room else ""
