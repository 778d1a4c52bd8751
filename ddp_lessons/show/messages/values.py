"""Numbers as the figures of messages write them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


def numbers_of(value: Any) -> list[Any] | None:
    """The numbers of a tensor or a list, flat; None if it is neither."""
    value = value.tolist() if hasattr(value, "tolist") else value
    if isinstance(value, (int, float)):
        return [value]
    if not isinstance(value, (list, tuple)):
        return None
    parts = [numbers_of(part) for part in value]
    return None if None in parts else [number for part in parts if part is not None for number in part]


def show_numbers(numbers: Sequence[float]) -> str:
    return " ".join(
        f"{number:.0f}" if number == round(number) and abs(number) < 1e7 else f"{number:.4g}" for number in numbers
    )
