"""Check the arguments of a launch before any process starts, and refuse them in the learner's terms."""

from __future__ import annotations

import contextlib
import glob
import inspect
import operator
import sys
import traceback
from collections.abc import Callable, Collection, Iterator, Sequence
from numbers import Real
from typing import Any, TypeVar

from ddp_lessons.own_files import RUN
from ddp_lessons.run.diagnosis.wording import name_line
from ddp_lessons.run.launcher.limits import LARGEST_ON_NODES, LARGEST_WORLD, limits
from ddp_lessons.run.wire.messages import Frame

T = TypeVar("T")
_DEVICES = ("/dev/nvidia[0-9]*", "/dev/dxg")  # a GPU, on Linux and in WSL
_SWITCH: tuple[Callable[[Any], bool], str] = (lambda value: value in (True, False), "True or False")
_OPTIONS: dict[str, tuple[Callable[[Any], bool], str]] = {
    "world_size": (lambda value: hasattr(value, "__index__"), "an integer, the number of ranks"),
    "timeout_seconds": (
        lambda value: value is None or (isinstance(value, Real) and float(value) > 0),
        "a positive number of seconds, or None for no limit",
    ),
    "backend": (lambda value: value is None or isinstance(value, str), 'a name such as "gloo" or "nccl"'),
    "record": (lambda value: value in (True, False, "values"), 'True, False or "values"'),
    "live": (lambda value: value is None or callable(value), "a function that draws, such as show.training"),
    "on": (
        lambda value: value is None or (hasattr(value, "commands") and not isinstance(value, type)),
        'nodes, such as Hosts("alpha", "beta")',
    ),
    **dict.fromkeys(("join", "quiet", "debug", "standing"), _SWITCH),
}


@contextlib.contextmanager
def refused_plainly() -> Iterator[None]:
    """In a notebook, show only the sentence of a refusal and the learner's line, without the stack of the launcher."""
    try:
        yield
    except (TypeError, ValueError, RuntimeError) as refusal:
        ours = (RUN, contextlib.__file__)
        line = next(f for f in reversed(traceback.extract_stack()) if not f.filename.startswith(ours))
        named = name_line(Frame(line.filename, line.lineno or 0, line.name, line.line or ""))
        sentence = f"{type(refusal).__name__}: {refusal}\n    {named}"
        refusal._render_traceback_ = lambda: [sentence]  # type: ignore[union-attr]
        raise


def checked(option: str, value: T) -> T:
    """The value of this option, if it is of the right kind."""
    is_right, kind = _OPTIONS[option]
    if not is_right(value):
        raise TypeError(f"{option} must be {kind}, not {getattr(value, '__name__', repr(value))}")
    return value


def checked_world_size(world_size: object, on: object = None) -> int:
    size = operator.index(checked("world_size", world_size))  # type: ignore[arg-type]
    most, allowed = LARGEST_WORLD if on is None else LARGEST_ON_NODES, limits().ranks
    if size < 1:
        raise ValueError(f"world_size must be at least 1, not {size}")
    if size > most:
        where, instead = ("here", "nodes, launch(..., on=...), or torchrun") if on is None else ("on nodes", "torchrun")
        raise ValueError(f"world_size is {size:,}, but at most {most} ranks can start {where}; for more, use {instead}")
    if size > allowed:
        raise ValueError(
            f"world_size is {size}, but your instructor allows at most {allowed} ranks in a launch on this "
            f"machine; use {allowed} or fewer"
        )
    return size


def not_asked(only: object, world_size: int) -> frozenset[int]:
    """The ranks that `only` leaves out. It selects one rank or several; None selects all."""
    everyone = frozenset(range(world_size))
    asked = everyone if only is None else frozenset(only if isinstance(only, Collection) else [only])
    if not asked or not asked <= everyone:
        raise ValueError(f"only={only!r} must select from ranks 0 to {world_size - 1}, as in only=0 or only=[0, 1]")
    return everyone - asked


def check_function(function: object, world_size: int, args: Sequence[object]) -> None:
    """A function that every rank can call with (rank, world_size, *args)."""
    if not callable(function):
        hint = "; pass the function itself, without parentheses: launch(f), not launch(f())" if function is None else ""
        raise TypeError(f"launch needs a function that every rank calls, not {function!r}{hint}")
    name = getattr(function, "__name__", type(function).__name__)
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return  # written in C: a wrong call fails in the rank
    try:
        signature.bind(0, world_size, *args)
    except TypeError as mismatch:
        given = ", ".join(["rank", "world_size", *(f"<{type(value).__name__}>" for value in args)])
        raise TypeError(f"launch calls {name}({given}), but it is defined as {name}{signature}: {mismatch}") from None


def check_backend_is_known(backend: str | None) -> None:
    """Whether torch has one of this name, on any machine."""
    if checked("backend", backend) is not None:
        import torch.distributed as dist

        known = set(dist.Backend.backend_list) - {"undefined"}
        if not set(_names_in(str(backend))) <= known:
            raise ValueError(f"unknown backend {backend!r}; torch has {', '.join(sorted(known))}")


def _names_in(backend: str) -> list[str]:
    """As in "gloo", or in "cpu:gloo,cuda:nccl"."""
    return [part.rpartition(":")[2].lower() for part in backend.split(",")]


def checked_backend(backend: str | None, world_size: int, gpus_there: int | None = None) -> str:
    """The one asked for, if there are GPUs for it, or the best one.

    `gpus_there`: how many ranks have a GPU of their own on their nodes; None if all ranks run on this machine.
    """
    gpus = _gpus() if gpus_there is None else gpus_there
    if backend is None:
        return "cpu:gloo,cuda:nccl" if gpus >= world_size else "gloo"
    if "nccl" in _names_in(backend) and gpus < world_size:
        counted = (
            f"torch sees {gpus} GPU{'s' * (gpus != 1)}"
            if gpus_there is None
            else f"the nodes have GPUs for {gpus} of them"
        )
        raise ValueError(f'NCCL needs one GPU per rank: {world_size} ranks, but {counted}; use backend="gloo"')
    return backend.lower()


def _gpus() -> int:
    """Those that NCCL can use. Importing torch takes seconds, so only if the notebook did so, or if there is one."""
    if "torch" not in sys.modules and not any(glob.glob(device) for device in _DEVICES):
        return 0
    import torch
    import torch.distributed as dist

    return torch.cuda.device_count() if dist.is_nccl_available() else 0


def is_inside_a_rank() -> bool:
    return "ddp_lessons.run.rank.rank_main" in sys.modules


def check_not_inside_a_rank() -> None:
    if is_inside_a_rank():
        raise RuntimeError("launch cannot be called inside a rank: call it in the notebook instead")
