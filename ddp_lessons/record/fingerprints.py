"""The values that ranks returned, read as fingerprints of their models."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ddp_lessons.record.results import NO_ANSWER, NO_VALUE


def fingerprints_of(results: Any) -> list[list[str]]:
    """The fingerprints of each rank, step by step, from results or from an exception with results.

    Raises:
        TypeError: these are not lists of fingerprints.
    """
    results = getattr(results, "results", results)
    if isinstance(results, str) or not isinstance(results, Sequence) or not results:
        raise TypeError(_refusal(f"this is {_short(results)}"))
    for rank, one in enumerate(results):
        if one is NO_VALUE:
            raise TypeError(_refusal(f"rank {rank} {NO_ANSWER}"))
        if isinstance(one, str) or not isinstance(one, Sequence) or not one:
            raise TypeError(_refusal(f"rank {rank} returned {_short(one)}"))
        for digits in one:
            if not isinstance(digits, str) or not digits or set(digits) - set("0123456789abcdef"):
                raise TypeError(_refusal(f"the list of rank {rank} holds {_short(digits)}"))
    return [list(one) for one in results]


def _refusal(found: str) -> str:
    return f"every rank has to return a list with one fingerprint(model) for each step, and {found}"


def _short(value: object) -> str:
    plain = value is None or isinstance(value, bool | int | float | str | list | tuple)
    return repr(value) if plain and len(repr(value)) <= 40 else f"something of type {type(value).__name__}"
