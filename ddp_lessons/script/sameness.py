"""Are two values equal for a function that uses them? One was computed again from the same lines."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

_DEEP_ENOUGH = 8


def same(fresh: Any, live: Any, depth: int = 0) -> bool:
    """What cannot be compared counts as equal: functions, modules, files."""
    if depth > _DEEP_ENOUGH:
        return True
    if type(fresh).__qualname__ != type(live).__qualname__:  # a class of a cell was created again, too
        return False
    if isinstance(fresh, ModuleType) or (callable(fresh) and not hasattr(fresh, "state_dict")):
        return getattr(fresh, "__qualname__", "") == getattr(live, "__qualname__", "")
    if isinstance(fresh, dict):
        return list(fresh) == list(live) and all(same(value, live[key], depth + 1) for key, value in fresh.items())
    if isinstance(fresh, (list, tuple)):
        return len(fresh) == len(live) and all(same(*both, depth + 1) for both in zip(fresh, live, strict=True))
    torch = sys.modules.get("torch")
    if torch and isinstance(fresh, torch.Tensor):
        return fresh.dtype == live.dtype and bool(torch.equal(fresh, live))
    if torch and isinstance(fresh, torch.nn.Module):
        return same(dict(fresh.state_dict()), dict(live.state_dict()), depth + 1) and fresh.training == live.training
    if type(fresh).__eq__ is not vars(object)["__eq__"]:
        equal = fresh == live
        return bool(equal.all()) if hasattr(equal, "all") else bool(equal)
    return same(getattr(fresh, "__dict__", None), getattr(live, "__dict__", None), depth + 1)
