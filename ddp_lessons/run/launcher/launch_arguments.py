"""Check the arguments of a launch before any process starts, and refuse them in the learner's terms."""

from __future__ import annotations

import contextlib
import glob
import inspect
import linecache
import numbers
import operator
import sys
from collections.abc import Callable, Collection, Iterator, Sequence
from types import FrameType
from typing import Any

from ddp_lessons.own_files import RUN
from ddp_lessons.run.diagnosis.source_lines import name_line
from ddp_lessons.run.launcher.limits import LARGEST_ON_NODES, LARGEST_WORLD, limits
from ddp_lessons.run.wire.messages import Frame

_DEVICES = ("/dev/nvidia[0-9]*", "/dev/dxg")  # a GPU, on Linux and in WSL


@contextlib.contextmanager
def refused_plainly() -> Iterator[None]:
    """In a notebook, show only the sentence of a refusal, without the stack of the launcher."""
    try:
        yield
    except (TypeError, ValueError, RuntimeError) as refusal:
        sentence = f"{type(refusal).__name__}: {refusal}\n    {name_line(_calling_line())}"
        refusal._render_traceback_ = lambda: [sentence]  # type: ignore[union-attr]
        raise


def _calling_line() -> Frame:
    """The innermost line outside this package: the learner's."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename.startswith((RUN, contextlib.__file__)):
        frame = frame.f_back
    assert frame is not None
    file, line = frame.f_code.co_filename, frame.f_lineno
    return Frame(file, line, frame.f_code.co_name, linecache.getline(file, line).strip())


def checked_world_size(world_size: object, on: object = None) -> int:
    try:
        if isinstance(world_size, bool):
            raise TypeError
        size = operator.index(world_size)  # type: ignore[arg-type]
    except TypeError:
        hint = f"; write {int(world_size)}" if isinstance(world_size, str) and world_size.isdecimal() else ""
        given = getattr(world_size, "__name__", repr(world_size))
        raise TypeError(
            f"world_size must be an integer, the number of ranks, not {given} ({type(world_size).__name__}){hint}"
        ) from None
    if size < 1:
        raise ValueError(f"world_size must be at least 1, not {size}")
    if on is not None and size > LARGEST_ON_NODES:
        raise ValueError(
            f"world_size is {size:,}, but launch starts at most {LARGEST_ON_NODES} ranks on nodes: this notebook "
            "follows each of them. For more ranks, use torchrun"
        )
    if on is None and size > LARGEST_WORLD:
        raise ValueError(
            f"world_size is {size:,}, but launch starts at most {LARGEST_WORLD} ranks: each is a process on this "
            "machine with a connection to every other rank. For more ranks, use several nodes: launch(..., on=...), "
            "or torchrun"
        )
    if size > (most := limits().ranks):
        raise ValueError(
            f"world_size is {size}, but the instructor of this machine allows each learner at most {most} "
            f"rank{'s' if most > 1 else ''} in a launch; use {most}{' or fewer' if most > 1 else ''}"
        )
    return size


def checked_record(record: object) -> bool | str:
    if not isinstance(record, bool) and record != "values":
        raise ValueError(f'record must be True, False or "values", not {record!r}')
    return record


def checked_switch(name: str, value: object) -> bool:
    """True or False: a word such as "no" would count as true."""
    if not isinstance(value, int) or value not in (0, 1):
        raise TypeError(f"{name} must be True or False, not {value!r}")
    return bool(value)


def checked_debug(debug: object, why_no_prompt: str) -> bool:
    if checked_switch("debug", debug) and why_no_prompt:
        raise ValueError(f"debug=True needs a person who answers, but {why_no_prompt}")
    return bool(debug)


def not_asked(only: object, world_size: int) -> frozenset[int]:
    """The ranks that `only` leaves out. It selects one rank or several; None selects all."""
    everyone = frozenset(range(world_size))
    if only is None:
        return frozenset()
    asked: list[Any] = list(only) if isinstance(only, Collection) and not isinstance(only, str) else [only]
    if not all(isinstance(rank, numbers.Integral) and not isinstance(rank, bool) for rank in asked):
        raise TypeError(f"only must be a rank or a list of ranks, such as only=0 or only=[0, 1], not {only!r}")
    ranks = frozenset(int(rank) for rank in asked)
    if not ranks or not everyone >= ranks:
        there = f"the ranks 0 to {world_size - 1}" if world_size > 1 else "rank 0"
        raise ValueError(f"only={only!r} must select from {there}")
    return everyone - ranks


def checked_live(live: Any) -> Any:
    if live is not None and not callable(live):
        raise TypeError(f"live must be a function that draws, such as show.training, not {live!r}")
    return live


def checked_nodes(on: Any) -> Any:
    if not callable(getattr(on, "commands", None)) or isinstance(on, type):
        given = getattr(on, "__name__", repr(on))
        raise TypeError(f'on must be nodes, such as Hosts("alpha", "beta") or Slurm(nodes=2), not {given}')
    return on


def checked_timeout(timeout_seconds: object) -> float | None:
    if timeout_seconds is None:
        return None
    if isinstance(timeout_seconds, bool) or not isinstance(timeout_seconds, numbers.Real):
        raise TypeError(f"timeout_seconds must be a number of seconds, or None for no limit, not {timeout_seconds!r}")
    seconds = float(timeout_seconds)
    if not seconds > 0:
        raise ValueError(f"timeout_seconds must be greater than 0 (None: no limit), not {timeout_seconds}")
    return seconds


def check_function(function: object, world_size: int, args: Sequence[object]) -> None:
    """A function that every rank can call with (rank, world_size, *args)."""
    if not callable(function):
        hint = "; pass the function itself, without parentheses: launch(f), not launch(f())" if function is None else ""
        raise TypeError(f"launch needs a function that every rank calls, not {function!r}{hint}")
    name = getattr(function, "__name__", type(function).__name__)
    if inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function):
        raise TypeError(f"{name} is a coroutine (async def), which a rank does not await; define it with def")
    if inspect.isgeneratorfunction(function):
        raise TypeError(
            f"{name} is a generator (it has a yield), which a rank does not iterate over; return a list instead"
        )
    _check_arguments(function, name, world_size, args)


def _check_arguments(function: Callable[..., object], name: str, world_size: int, args: Sequence[object]) -> None:
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return  # written in C: a wrong call fails in the rank
    try:
        signature.bind(0, world_size, *args)
    except TypeError as mismatch:
        given = ", ".join(["rank", "world_size", *(f"<{type(value).__name__}>" for value in args)])
        raise TypeError(f"launch calls {name}({given}), but it is defined as {name}{signature}: {mismatch}") from None


def check_backend_is_known(backend: object) -> None:
    """Whether torch has one of this name, on any machine."""
    if backend is None:
        return
    if not isinstance(backend, str):
        raise TypeError(f'backend must be a name such as "gloo" or "nccl", not {backend!r}')
    import torch.distributed as dist

    known = [known for known in dist.Backend.backend_list if known != "undefined"]
    if not set(_names_in(backend)) <= set(known):
        raise ValueError(f"unknown backend {backend!r}; torch has {', '.join(known)}")


def _names_in(backend: str) -> list[str]:
    """As in "gloo", or in "cpu:gloo,cuda:nccl"."""
    return [part.rpartition(":")[2].lower() for part in backend.split(",")]


def checked_backend(backend: str | None, world_size: int, gpus_there: int | None = None) -> str:
    """The backend to join with: the one asked for, which torch knows, if it is there; or the best one.

    `gpus_there`: how many ranks have a GPU of their own on their nodes; None if all ranks run on this machine, whose
    torch can be asked.
    """
    is_here = gpus_there is None
    if backend is None:
        has_all = _gpus() >= world_size and _has_nccl() if is_here else gpus_there == world_size
        return "cpu:gloo,cuda:nccl" if has_all else "gloo"
    import torch.distributed as dist

    for name in _names_in(backend):
        if is_here and not getattr(dist, f"is_{name}_available", lambda: True)():
            raise ValueError(f'this build of torch has no backend {backend!r}; use "gloo", which works everywhere')
        gpus = _gpus() if gpus_there is None else gpus_there
        if name == "nccl" and gpus < world_size:
            counted = f"torch sees {gpus} GPUs" if is_here else f"the nodes have GPUs for {gpus} of them"
            raise ValueError(
                f'NCCL needs one GPU per rank: {world_size} ranks, but {counted}; use backend="gloo" or fewer ranks'
            )
    return backend.lower()


def check_torch_is_pytorch() -> None:
    torch = sys.modules.get("torch")
    if torch is not None and not hasattr(torch, "cuda"):
        found = getattr(torch, "__file__", torch)
        raise RuntimeError(f"`import torch` found {found}, which is not PyTorch; rename that file")


def _gpus() -> int:
    """Importing torch takes seconds, so only if the notebook did so, or if there is a device."""
    if "torch" not in sys.modules and not any(glob.glob(device) for device in _DEVICES):
        return 0
    import torch

    check_torch_is_pytorch()
    return torch.cuda.device_count()


def _has_nccl() -> bool:
    return bool(sys.modules["torch"].distributed.is_nccl_available())


def is_inside_a_rank() -> bool:
    return "ddp_lessons.run.rank.rank_main" in sys.modules


def check_not_inside_a_rank() -> None:
    if is_inside_a_rank():
        raise RuntimeError(
            "launch was called inside a rank, and ranks cannot launch ranks: "
            "call launch in the notebook, not in the function that it runs"
        )
