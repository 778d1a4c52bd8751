"""Compare what a rank has with what it should have, and say where the first difference is."""

from __future__ import annotations

import numbers
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor


@dataclass(frozen=True)
class NothingDone:
    """A function returned None and left its tensor unchanged, which is right if that tensor is the answer."""

    given: Tensor


@dataclass(frozen=True)
class Thing:
    """Replaces an object that is always wrong."""

    kind: str


@dataclass(frozen=True)
class Difference:
    """Yours and the expected one, at the first place where they differ."""

    place: str
    yours: str
    expected: str
    fault: str = ""  # of the answer as a whole, if its kind is enough to tell: "returns None. Return a tensor."


def plain(value: Any) -> Any:
    """A copy that can be sent and no longer changes."""
    if isinstance(value, NothingDone):
        return NothingDone(value.given.detach().clone())
    if isinstance(value, Tensor):
        return value.detach().clone()
    if value is None or type(value) in (bool, str):
        return value
    if isinstance(value, numbers.Real):  # also NumPy numbers
        return int(value) if isinstance(value, numbers.Integral) else float(value)
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, list | tuple | range):
        return [plain(one) for one in value]
    if isinstance(value, Mapping):
        return {str(key): plain(one) for key, one in value.items()}
    return Thing(type(value).__name__)


def difference(yours: Any, expected: Any, tolerance: float, place: str = "answer") -> Difference | None:
    """The first one; floats may differ by `tolerance`, relative to the largest of their tensor."""
    if isinstance(yours, NothingDone):
        if difference(yours.given, expected, tolerance) is None:
            return None
        yours = None
    if isinstance(expected, NothingDone):
        expected = expected.given
    if isinstance(expected, Tensor):
        return _of_tensors(yours, expected, tolerance, place)
    if isinstance(expected, list):
        return _of_lists(yours, expected, tolerance, place)
    if isinstance(expected, dict):
        return _of_dicts(yours, expected, tolerance, place)
    if isinstance(yours, Tensor) and yours.numel() == 1 and _is_number(expected):
        yours = yours.item()
    if isinstance(yours, Tensor):
        same = False
    elif isinstance(expected, float) and _is_number(yours):
        are_nan = yours != yours and expected != expected
        same = abs(yours - expected) <= tolerance * abs(expected) or yours == expected or are_nan
    else:
        same = isinstance(yours, bool) == isinstance(expected, bool) and yours == expected
    if same:
        return None
    is_of_another_kind = _kind(yours) != _kind(expected)
    fault = f"returns {named(yours)}. Return {_kind(expected)}." if is_of_another_kind else ""
    return Difference(place, shown(yours), shown(expected), fault)


def _of_tensors(yours: Any, expected: Tensor, tolerance: float, place: str) -> Difference | None:
    if not isinstance(yours, Tensor):
        return Difference(place, shown(yours), "a tensor", f"returns {named(yours)}. Return a tensor.")
    for what, mine, right in (
        ("shape", str(list(yours.shape)), str(list(expected.shape))),
        ("dtype", dtype_name(yours), dtype_name(expected)),
    ):
        if mine != right:
            fault = f"returns a tensor of {what} {mine}. Return one of {what} {right}."
            return Difference(place, f"{what} {mine}", f"{what} {right}", fault)
    wrong = (yours != expected) & ~(yours.isnan() & expected.isnan())
    if tolerance and expected.is_floating_point() and expected.numel():
        largest = float(expected.nan_to_num(posinf=0.0, neginf=0.0).abs().max())
        wrong = ~torch.isclose(yours.double(), expected.double(), rtol=0.0, atol=tolerance * largest, equal_nan=True)
    if not wrong.any():
        return None
    index = tuple(wrong.nonzero()[0].tolist())
    where = str(list(index)) if place == "answer" else f"{place}{list(index)}"
    return Difference(where if index else place, shown(yours[index].item()), shown(expected[index].item()))


def _of_lists(yours: Any, expected: list[Any], tolerance: float, place: str) -> Difference | None:
    if not isinstance(yours, list):
        fault = f"returns {named(yours)}. Return a list of length {len(expected)}."
        return Difference(place, shown(yours), "a list", fault)
    if len(yours) != len(expected):
        fault = f"returns a list of length {len(yours)}. Return one of length {len(expected)}."
        return Difference(place, f"length {len(yours)}", f"length {len(expected)}", fault)
    pairs = enumerate(zip(yours, expected, strict=True))
    found = (difference(mine, right, tolerance, f"{place}[{number}]") for number, (mine, right) in pairs)
    return next((one for one in found if one is not None), None)


def _of_dicts(yours: Any, expected: dict[str, Any], tolerance: float, place: str) -> Difference | None:
    if not isinstance(yours, dict):
        return Difference(place, shown(yours), "a dictionary")
    keys = dict.fromkeys([*expected, *yours])
    found = (
        difference(yours.get(key, "missing"), expected.get(key, "missing"), tolerance, f"{place}[{key!r}]")
        for key in keys
    )
    return next((one for one in found if one is not None), None)


def named(value: Any) -> str:
    """A value of the wrong kind, in words."""
    if isinstance(value, Tensor):
        return f"a tensor of shape {list(value.shape)}"
    if isinstance(value, list):
        return f"a list of length {len(value)}"
    if isinstance(value, Thing):
        return f"an object of type {value.kind}"
    if isinstance(value, dict):
        return "a dictionary"
    return "None" if value is None else f"the {_kind(value).partition(' ')[2]} {value!r}"


def shown(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.7g}"
    return value if isinstance(value, str) else str(value) if _is_number(value) else named(value)


def dtype_name(tensor: Tensor) -> str:
    return str(tensor.dtype).removeprefix("torch.")


def _kind(value: Any) -> str:
    if _is_number(value):
        return "a number"
    return {bool: "a boolean", str: "a string", list: "a list", type(None): "None"}.get(type(value), "an object")


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
