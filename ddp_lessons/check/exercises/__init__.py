"""The exercises of the lessons, one declaration each; the name of the variable is the name of the check."""

from __future__ import annotations

import functools
from importlib import import_module
from pkgutil import iter_modules

from ddp_lessons.check.exercise import Exercise


@functools.cache
def every() -> dict[str, Exercise]:
    found = {}
    for module in iter_modules(__path__, f"{__name__}."):
        for name, thing in vars(import_module(module.name)).items():
            if isinstance(thing, Exercise):
                found[name], thing.name = thing, name
    return found
