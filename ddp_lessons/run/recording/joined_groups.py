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
from ddp_lessons.run.recording.recorder import NO_LIMIT, Call, Group, Recorder

_OF_INIT = ("backend", "init_method", "timeout", "world_size", "rank", "store")


def described(group: Any) -> Group:
    """What the recorder needs to know about a group."""
    import torch
    import torch.distributed as dist

    try:
        ranks = tuple(dist.get_process_group_ranks(group))
    except Exception:  # a group unknown to torch's Python code
        ranks = tuple(range(group.size()))
    try:
        backends = dict(pair.split(":") for pair in dist.get_backend_config(group).split(","))
    except Exception:
        return Group(ranks, "", "", NO_LIMIT)
    on_cpu = backends.get("cpu", "")
    try:
        patience_seconds = float(group._get_backend(torch.device("cpu")).options._timeout.total_seconds())
    except Exception:  # a backend without a timeout
        patience_seconds = NO_LIMIT
    return Group(ranks, on_cpu, backends.get("cuda", on_cpu), patience_seconds)


def shortest_limit(given: Iterable[Any]) -> float:
    """The timeout among the arguments of a call, in seconds."""
    return min((one.total_seconds() for one in given if isinstance(one, datetime.timedelta)), default=NO_LIMIT)


def no_such_peer(call: Call) -> str:
    """gloo would look for that rank until its timeout, half an hour in plain torch, and then report a store key."""
    size = len(call.home.ranks)
    if call.peer is None or not size or call.home.backend == "fake" or 0 <= call.peer < size:
        return ""
    where = "a world" if call.group.partition(",")[0] == "0" else "this group"
    return f"there is no rank {call.peer} in {where} of {size} (ranks 0 to {size - 1})"


def noting_a_new_one(recorder: Recorder, original: Any) -> Any:
    """Wraps the function that every way to create a group calls."""
    import torch.distributed as dist

    @functools.wraps(original)
    def new_group(ranks: Any = None, *args: Any, **kwargs: Any) -> Any:
        members = tuple(range(dist.get_world_size())) if ranks is None else tuple(sorted(ranks))
        operation = "new_local_group" if kwargs.get("use_local_synchronization") else "new_group"
        call = _noted(recorder, "new_group", operation, members, (*args, *kwargs.values()))
        recorder.unnamed = call
        try:
            group = _made(recorder, call, lambda: original(ranks, *args, **kwargs))
        finally:
            recorder.unnamed = None
            if call.error and not call.group:  # torch rejected it before it had a name
                call.waited = None
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
        name = "init_process_group"
        call = _noted(recorder, name, name, tuple(range(world_size)), given.values())
        call.tag = rank if isinstance(rank, int) and rank >= 0 else int(os.environ.get("RANK") or -1)
        call.group = recorder.name_of_world(_meeting_place(given))
        made = _made(recorder, call, lambda: original(*args, **kwargs))
        recorder.worlds[call.group] = dist.get_rank(), dist.get_world_size()
        return made

    return init_process_group


def _meeting_place(given: Mapping[str, Any]) -> str:
    """Where ranks join a world: the same text on all of them, however each specifies it."""
    store, url = given.get("store"), urlparse(str(given.get("init_method") or "env://"))
    while (inner := getattr(store, "underlying_store", None)) is not None:
        store = inner
    path = getattr(store, "path", None) or (url.path if store is None and url.scheme == "file" else None)
    if path:  # torch returns paths as UTF-8, even if the locale of this process has another encoding
        return os.fsdecode(os.path.realpath(path.encode(errors="surrogateescape")))
    port = getattr(store, "port", None) if store is not None else url.port or os.environ.get("MASTER_PORT")
    return f"port {port}" if port or store is None else type(store).__name__


def _noted(recorder: Recorder, name: str, operation: str, ranks: tuple[int, ...], given: Iterable[Any]) -> Call:
    function, frame = who_called(_getframe(2))
    call = Call(function or name, operation, "", frame, perf_counter())
    call.new_ranks, call.patience_seconds = ranks, shortest_limit(given)
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
