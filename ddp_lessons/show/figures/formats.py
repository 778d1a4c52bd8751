"""How figures write what they count: bytes, seconds, values."""

from __future__ import annotations

from typing import Any


def events_of(results: Any) -> Any:
    """The events of results, of an exception with results, or the events themselves."""
    results = getattr(results, "results", results)
    events = getattr(results, "events", results)
    if not hasattr(events, "deliveries"):
        raise TypeError(f"pictures are drawn from what launch() returned, and this is of type {type(results).__name__}")
    return events


def name_recording(results: Any) -> str:
    """ "recorded (Linux, ...)" if these are results of another machine, else ""."""
    how = getattr(getattr(results, "results", results), "recorded", "")
    return f"recorded ({how})" if how else ""


def show_bytes(number: float) -> str:
    """Short, and with the unit: "16 B", "4 KB", "16 MB" (of 1,000)."""
    for unit, size in (("GB", 1e9), ("MB", 1e6), ("KB", 1e3)):
        if number >= 0.9995 * size:
            return f"{_short(number / size)} {unit}"
    return f"{number:g} B"


def show_seconds(number: float) -> str:
    """Short, and with the unit: "35 ms"."""
    for unit, size in (("s", 1.0), ("ms", 1e-3)):
        if number >= 0.9995 * size:
            return f"{_short(number / size)} {unit}"
    return f"{number / 1e-6:.3g} µs" if number else "0"


def _short(number: float) -> str:
    return f"{number:.3g}" if number < 999.5 else f"{number:,.0f}"


def show_network(latency: float, bandwidth: float) -> str:
    return f"a latency of {show_seconds(latency)}, {show_bytes(bandwidth)} per second"


def show_values(values: Any, room: int = 14) -> str:
    """Numbers as short as they are: "[1, 2.5]"; "" if they take more room than there is."""
    text = "[" + ", ".join(f"{value:.4g}" for value in values) + "]"
    return text if len(text) <= room else ""
