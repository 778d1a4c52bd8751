"""Is it a class that partitions data, is it started, and how does it take its seed?"""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ddp_lessons.check.judging.unwritten_functions import is_untouched


@dataclass(frozen=True)
class Seeding:
    """How to pass the seed to the class."""

    way: str = "by keyword"  # or "as third argument"; "" if it takes none
    is_needed: bool = False
    is_none_at_first: bool = False  # seed=None


def seeding_of(partitioner: Any) -> Seeding:
    try:
        signature = inspect.signature(partitioner)
    except (ValueError, TypeError):
        return Seeding()
    by_keyword, as_third, plainly = (_binds(signature, *given) for given in _CALLS)
    if by_keyword:
        named_so = signature.parameters.get("seed")
        return Seeding("by keyword", not plainly, named_so is not None and named_so.default is None)
    third = [*signature.parameters.values()][2:3]
    if as_third and not (third and isinstance(third[0].default, bool | float | str)):
        return Seeding("as third argument", not plainly, bool(third) and third[0].default is None)
    return Seeding("")


def why_not_a_partitioner(partitioner: Any) -> str:
    if partitioner is None:
        return "It got None instead of a class. Write check.data_partitioner(DataPartitioner)."
    if not callable(partitioner):
        kind = type(partitioner).__name__
        if hasattr(partitioner, "use"):
            return f"It needs the class, not an instance. Write check.data_partitioner({kind})."
        return f"It needs a class that every rank can call, but got the {kind} {partitioner!r}."
    if inspect.isclass(partitioner) and "__init__" in vars(partitioner) and not hasattr(partitioner, "use"):
        return f"{partitioner.__name__} has no method use(rank). Add one that returns the partition of the given rank."
    with contextlib.suppress(ValueError, TypeError):
        signature = inspect.signature(partitioner)
        if not any(_binds(signature, *given) for given in _CALLS) and not is_stub(partitioner):
            name = getattr(partitioner, "__name__", type(partitioner).__name__)
            return f"The check calls {name}(data, sizes, seed=1234), but the definition is {name}{signature}."
    return ""


def is_stub(partitioner: Any) -> bool:
    if not inspect.isclass(partitioner):
        return is_untouched(partitioner)
    written = [name for name in ("__init__", "use") if name in vars(partitioner)]
    return untouched(partitioner) == written if written else not hasattr(partitioner, "use")


def untouched(partitioner: Any, methods: Sequence[str] = ("__init__", "use")) -> list[str]:
    """The methods of a class that are still empty."""
    own = vars(partitioner) if inspect.isclass(partitioner) else {}
    return [name for name in methods if name in own and is_untouched(own[name])]


_CALLS: tuple[tuple[tuple[object, ...], dict[str, object]], ...] = (
    ((0, [1.0]), {"seed": 1}),
    ((0, [1.0], 1), {}),
    ((0, [1.0]), {}),
)


def _binds(signature: inspect.Signature, arguments: Sequence[object], keywords: dict[str, object]) -> bool:
    try:
        signature.bind(*arguments, **keywords)
    except TypeError:
        return False
    return True
