"""Inside a rank: groups, as they are joined, made and first used."""

from __future__ import annotations

import datetime
import functools
import os
from collections.abc import Callable, Iterable
from sys import _getframe
from time import perf_counter
from typing import Any

from ddp_lessons.run.recorder import Call, Group, Recorder, who_called

_FOR_EVER = float("inf")


def described(group: Any) -> Group:
    """What the recorder wants to know of a group."""
    import torch.distributed as dist

    try:
        ranks = tuple(dist.get_process_group_ranks(group))
    except Exception:  # a group that torch's Python side does not know
        ranks = tuple(range(group.size()))
    try:
        pairs = dict(pair.split(":") for pair in dist.get_backend_config(group).split(","))
        on_cpu = pairs.get("cpu", "")
    except Exception:
        return Group(ranks, "", "", _FOR_EVER)
    return Group(ranks, on_cpu, pairs.get("cuda", on_cpu), _patience_of(group))


def _patience_of(group: Any) -> float:
    """After so many seconds of waiting torch gives up by itself."""
    import torch

    try:
        return float(group._get_backend(torch.device("cpu")).options._timeout.total_seconds())
    except Exception:
        return _FOR_EVER


def shortest_limit(given: Iterable[Any]) -> float:
    """The seconds that a call's arguments allow it."""
    limits = (one.total_seconds() for one in given if isinstance(one, datetime.timedelta))
    return min(limits, default=_FOR_EVER)


def noting_a_new_one(recorder: Recorder, original: Any) -> Any:
    """For the function in which all ways to make a group end."""
    import torch.distributed as dist

    @functools.wraps(original)
    def new_group(ranks: Any = None, *args: Any, **kwargs: Any) -> Any:
        members = tuple(range(dist.get_world_size())) if ranks is None else tuple(sorted(ranks))
        is_local = bool(kwargs.get("use_local_synchronization"))
        call = _noted(recorder, "new_group", "new_local_group" if is_local else "new_group", members)
        call.patience_seconds = shortest_limit((*args, *kwargs.values()))
        group = _made(call, lambda: original(ranks, *args, **kwargs))
        if hasattr(group, "group_name"):  # a rank outside gets none
            call.group = recorder.unique(group.group_name)
        return group

    return new_group


def noting_the_first(recorder: Recorder, original: Any) -> Any:
    """For `init_process_group`: who waits in it waits for as many ranks as it was told of."""
    import torch.distributed as dist

    @functools.wraps(original)
    def init_process_group(*args: Any, **kwargs: Any) -> Any:
        told = kwargs.get("world_size", args[3] if len(args) > 3 else -1)
        world_size = told if isinstance(told, int) and told > 0 else int(os.environ.get("WORLD_SIZE") or 0)
        call = _noted(recorder, "init_process_group", "init_process_group", tuple(range(world_size)))
        call.patience_seconds = shortest_limit((*args, *kwargs.values()))
        rank = kwargs.get("rank", args[4] if len(args) > 4 else -1)
        call.tag = rank if isinstance(rank, int) and rank >= 0 else int(os.environ.get("RANK") or -1)
        made = _made(call, lambda: original(*args, **kwargs))
        recorder.joined += 1
        place = dist.get_rank(), dist.get_world_size()
        recorder.is_in_another_world = place != (recorder.launched_as or place)
        return made

    return init_process_group


def _noted(recorder: Recorder, name: str, operation: str, ranks: tuple[int, ...]) -> Call:
    function, frame = who_called(_getframe(2))
    call = Call(function or name, operation, "", frame, perf_counter())
    call.new_ranks = ranks
    recorder.note(call)
    return call


def _made(call: Call, make: Callable[[], Any]) -> Any:
    call.waited = call.begin
    try:
        made = make()
    except BaseException as error:
        call.error = f"{type(error).__name__}: {error}"
        raise
    call.issued = call.end = perf_counter()
    return made
