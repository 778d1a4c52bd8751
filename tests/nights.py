"""Which cases of a table every commit tries, and which only `make nightly`."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pytest

nightly = pytest.mark.nightly


def by_day(cases: Iterable[Any], chosen: int | Callable[[Any], bool]) -> list[Any]:
    """All cases, for `pytest.mark.parametrize`: the first so many, or those that are so, on every commit.

    A tuple has a value for each name.
    """
    return [
        case if (place < chosen if isinstance(chosen, int) else chosen(case)) else _at_night(case)
        for place, case in enumerate(cases)
    ]


def _at_night(case: Any) -> Any:
    values = case if isinstance(case, tuple) else (case,)
    return pytest.param(*values, marks=nightly)
