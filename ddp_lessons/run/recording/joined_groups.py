"""Inside a rank: groups, when they are joined, created and first used."""

from __future__ import annotations

import datetime
import functools
import os
from collections.abc import Callable, Iterable, Mapping
from sys import _getframe
from time import perf_counter
from typing import Any
from urllib.parse import urlparse

from ddp_lessons.run.recording.callers import who_called
from ddp_lessons.run.recording.recorder import Call, Group, Recorder

_FOR_EVER = float("inf")


def described(group: Any) -> Group:
    """What the recorder needs to know about a group."""
    import torch.distributed as dist

    try:
        ranks = tuple(dist.get_process_group_ranks(group))
    except Exception:  # a group unknown to torch's Python code
        ranks = tuple(range(group.size()))
    try:
        pairs = dict(pair.split(":") for pair in dist.get_backend_config(group).split(","))
        on_cpu = pairs.get("cpu", "")
    except Exception:
        return Group(ranks, "", "", _FOR_EVER)
    return Group(ranks, on_cpu, pairs.get("cuda", on_cpu), _patience_of(group))


def _patience_of(group: Any) -> float:
    """torch's own timeout of the group, in seconds."""
    import torch

    try:
        return float(group._get_backend(torch.device("cpu")).options._timeout.total_seconds())
    except Exception:
        return _FOR_EVER


def shortest_limit(given: Iterable[Any]) -> float:
    """The timeout among the arguments of a call, in seconds."""
    limits = (one.total_seconds() for one in given if isinstance(one, datetime.timedelta))
    return min(limits, default=_FOR_EVER)


def no_such_peer(call: Call) -> str:
    """gloo would look for that rank until its timeout, half an hour in plain torch, and then report a store key."""
    group = call.home
    if call.peer is None or not group.ranks or group.backend == "fake" or 0 <= call.peer < len(group.ranks):
        return ""
    ranks = f"{len(group.ranks)} (ranks 0 to {len(group.ranks) - 1})"
    where = f"a world of {ranks}" if call.group.partition(",")[0] == "0" else f"this group of {ranks}"
    return f"there is no rank {call.peer} in {where}"


def noting_a_new_one(recorder: Recorder, original: Any) -> Any:
    """Wraps the function that every way to create a group calls."""
    import torch.distributed as dist

    @functools.wraps(original)
    def new_group(ranks: Any = None, *args: Any, **kwargs: Any) -> Any:
        members = tuple(range(dist.get_world_size())) if ranks is None else tuple(sorted(ranks))
        is_local = bool(kwargs.get("use_local_synchronization"))
        call = _noted(recorder, "new_group", "new_local_group" if is_local else "new_group", members)
        call.patience_seconds = shortest_limit((*args, *kwargs.values()))
        recorder.unnamed = call
        try:
            group = _made(recorder, call, lambda: original(ranks, *args, **kwargs))
        except BaseException:
            if not call.group:  # torch rejected it before it had a name
                call.waited = None
            raise
        finally:
            recorder.unnamed = None
        if hasattr(group, "group_name"):  # its tag may refer to an existing group
            call.group = recorder.unique(group.group_name)
        return group

    return new_group


def noting_the_name(recorder: Recorder, original: Any) -> Any:
    """Ranks meet by the name that torch gives a group before it connects them, even a rank outside the group.

    It depends on how many groups this rank has created. Ranks that created another number do not meet.
    """

    @functools.wraps(original)
    def name_of_group(*args: Any, **kwargs: Any) -> Any:
        name = original(*args, **kwargs)
        if recorder.unnamed is not None:
            recorder.unnamed.group = recorder.unique(str(name))
        return name

    return name_of_group


def noting_the_first(recorder: Recorder, original: Any) -> Any:
    """For `init_process_group`, which waits for as many ranks as its world_size says."""
    import torch.distributed as dist

    @functools.wraps(original)
    def init_process_group(*args: Any, **kwargs: Any) -> Any:
        given = {**dict(zip(_OF_INIT, args, strict=False)), **kwargs}
        told, rank = given.get("world_size", -1), given.get("rank", -1)
        world_size = told if isinstance(told, int) and told > 0 else int(os.environ.get("WORLD_SIZE") or 0)
        call = _noted(recorder, "init_process_group", "init_process_group", tuple(range(world_size)))
        call.patience_seconds = shortest_limit((*args, *kwargs.values()))
        call.tag = rank if isinstance(rank, int) and rank >= 0 else int(os.environ.get("RANK") or -1)
        call.group = recorder.name_of_world(_meeting_place(given))
        made = _made(recorder, call, lambda: original(*args, **kwargs))
        recorder.worlds[call.group] = dist.get_rank(), dist.get_world_size()
        return made

    return init_process_group


_OF_INIT = ("backend", "init_method", "timeout", "world_size", "rank", "store")


def _meeting_place(given: Mapping[str, Any]) -> str:
    """Where ranks join a world: the same text on all of them, however each specifies it."""
    store, url = given.get("store"), given.get("init_method") or "env://"
    while (inner := getattr(store, "underlying_store", None)) is not None:
        store = inner
    if store is not None:
        path, port = getattr(store, "path", None), getattr(store, "port", None)
        return _real(path) if path else f"port {port}" if port else type(store).__name__
    place = urlparse(str(url))
    if place.scheme == "file":
        return _real(place.path)
    return f"port {place.port or os.environ.get('MASTER_PORT')}"


def _real(path: str) -> str:
    """torch returns paths as UTF-8, even if the locale of this process has another encoding."""
    return os.fsdecode(os.path.realpath(path.encode(errors="surrogateescape")))


def _noted(recorder: Recorder, name: str, operation: str, ranks: tuple[int, ...]) -> Call:
    function, frame = who_called(_getframe(2))
    call = Call(function or name, operation, "", frame, perf_counter())
    call.new_ranks = ranks
    recorder.note(call)
    return call


def _made(recorder: Recorder, call: Call, make: Callable[[], Any]) -> Any:
    call.waited = call.begin
    try:
        made = make()
    except BaseException as error:
        call.error = f"{type(error).__name__}: {error}"
        raise
    finally:
        call.issued = perf_counter()
        recorder.gap_clock.free(call.issued)
    call.end = call.issued
    return made
