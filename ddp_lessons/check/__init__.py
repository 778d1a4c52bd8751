"""The checks of the exercises: each runs your function on several ranks and returns a `Report` that displays itself.

Passed exercises are recorded, and `check.progress()` shows them. Names are loaded on first use, so that they cost ranks
nothing.
"""

from __future__ import annotations

import functools
from importlib.util import find_spec
from typing import Any

_OTHERS = {  # what judges no learner's function
    "Report": "check.report",
    "capstone": "capstone.capstone_check",
    "diagnosis": "clinic.diagnosis",
    "progress": "check.dashboard",
    "reading": "check.readings",
    "training_script": "capstone.script_sections",
}
_NOT_COUNTED = {"Report", "progress"}


def __getattr__(name: str) -> Any:
    if name == "__all__":
        return __dir__()
    if name in _OTHERS:
        return _other(name)
    is_a_module = find_spec(f"{__name__}.{name}") is not None  # which a `from ... import` is about to load
    if not name.startswith("_") and not is_a_module and name in _exercises():
        return _exercises()[name]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


@functools.cache
def _other(name: str) -> Any:
    from importlib import import_module

    from ddp_lessons.check.dashboard import counted

    thing = getattr(import_module(f"ddp_lessons.{_OTHERS[name]}"), name)

    @functools.wraps(thing)
    def checked(*args: Any, **kwargs: Any) -> Any:
        written = next(iter((*args, *kwargs.values())), None)
        return counted(name, written, None, lambda: thing(*args, **kwargs))

    return thing if name in _NOT_COUNTED else checked


def _exercises() -> dict[str, Any]:
    from ddp_lessons.check.exercises import every

    return every()


def __dir__() -> list[str]:
    return sorted([*_OTHERS, *_exercises()])
