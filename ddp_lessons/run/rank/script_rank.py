"""Inside a rank of a plain script: run the script as Python would, and report its calls to `explain`.

A rank that is done does not exit at once, because torch would then report only lost connections on the other ranks. It
stays until all ranks are done, or until the fault is found.
"""

from __future__ import annotations

import contextlib
import faulthandler
import functools
import multiprocessing.process
import multiprocessing.spawn
import os
import queue
import runpy
import socket
import sys
import threading
import time
import urllib.parse
from collections.abc import Callable
from typing import Any, NoReturn

from ddp_lessons.run.rank.call_out import Freedom
from ddp_lessons.run.rank.own_process import linger_before_an_abort
from ddp_lessons.run.rank.rank_main import listen, raised
from ddp_lessons.run.rank.what_blocks import Surroundings
from ddp_lessons.run.recording.interception import install, recorder
from ddp_lessons.run.wire.channel import Channel
from ddp_lessons.run.wire.messages import WITNESSED, Present, Raised, Returned

_LONG_SECONDS = 600.0  # a wait with a shorter timeout of torch is left to torch
_told: list[Channel] = []  # the channel of this process, once it is a rank
_may_go: queue.SimpleQueue[Any] = queue.SimpleQueue()


def main() -> None:
    """Run the script given on the command line."""
    script = sys.argv[1]
    look_out()
    if "RANK" in os.environ and "WORLD_SIZE" in os.environ:
        _become_known(int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"]), os.environ.get("MASTER_PORT", ""))
    else:
        _look_after_children()
    del sys.argv[0]
    sys.path[0] = os.path.dirname(os.path.abspath(script))
    telling(runpy.run_path, script, run_name="__main__")


def telling(function: Callable[..., Any], *args: Any, **kwargs: Any) -> None:
    """Call a function, report how it ended, and stay until all ranks may exit."""
    try:
        function(*args, **kwargs)
    except BaseException as error:
        if isinstance(error, SystemExit) and error.code in (None, 0):
            _stay(Returned("NoneType", recorder.recorded()))
        else:  # torch's spawn ends a child with an exit, after it reported the reason
            reason = error.__context__ if isinstance(error, SystemExit) and error.__context__ else error
            _stay(raised(reason, time.monotonic()))
        raise
    _stay(Returned("NoneType", recorder.recorded()))


def _stay(last_word: Returned | Raised) -> None:
    if _told:
        with contextlib.suppress(OSError):
            _told[0].send(last_word)
            linger()


def linger() -> None:
    """The function is over; stay for the other ranks."""
    _may_go.get()


class Witnessed:
    """The target of a child process, observed. It is pickled if children are spawned."""

    def __init__(self, target: Callable[..., Any]) -> None:
        self.target = target

    def __call__(self, *args: Any, **kwargs: Any) -> None:
        look_out()
        telling(self.target, *args, **kwargs)


class _LookOutFirst:
    """Unpickled in a spawned child before it imports the script, which may take functions out of torch by name."""

    def __reduce__(self) -> tuple[Any, ...]:
        return exec, (f"import sys; sys.path[:] = {sys.path}; from {__name__} import look_out; look_out()",)


def _look_after_children() -> None:
    """Observe child processes: scripts that start their ranks use multiprocessing, as torch's own spawn does."""
    prepared = multiprocessing.spawn.get_preparation_data
    multiprocessing.spawn.get_preparation_data = lambda name: {"look out": _LookOutFirst(), **prepared(name)}
    process: Any = multiprocessing.process.BaseProcess
    start = process.start

    def start_seen(child: Any) -> None:
        if child._target is not None and not _told:
            child._target = Witnessed(child._target)
        start(child)

    process.start = start_seen


def look_out() -> None:
    """Record calls, and note when this process joins a group, since it is a rank then. A forked child does both."""
    import torch.distributed as dist

    first: Any = dist.init_process_group
    if hasattr(first, "is_witnessed"):
        return
    install()
    first = dist.init_process_group

    @functools.wraps(first)
    def init_process_group(*args: Any, **kwargs: Any) -> Any:
        _become_known(*_rank_and_world_size(args, kwargs), _meeting_place(args, kwargs))
        return first(*args, **kwargs)

    init_process_group.is_witnessed = True  # type: ignore[attr-defined]
    for module in (dist, dist.distributed_c10d):
        module.init_process_group = init_process_group  # type: ignore[attr-defined]


def _become_known(rank: int, world_size: int, meets_at: str) -> None:
    """Called once: from now on this process is a rank."""
    if _told or rank < 0 or WITNESSED not in os.environ:
        return
    stream = socket.socket(socket.AF_UNIX)
    try:
        stream.connect(os.environ[WITNESSED])
    except OSError:  # `explain` has exited
        return
    channel = Channel(stream)
    _told.append(channel)
    os.register_at_fork(after_in_child=channel.leave)
    crash_file = f"{os.environ[WITNESSED]}-crash-{os.getpid()}"
    linger_before_an_abort()
    faulthandler.enable(open(crash_file, "wb"))  # noqa: SIM115  written when no file can be opened any more
    channel.send(Present(rank, world_size, meets_at, os.getpid(), os.getppid(), crash_file))
    recorder.begin(keeps_values=False)
    here = Surroundings(threading.main_thread().ident, linger.__name__, _LONG_SECONDS)
    freedom = Freedom(())
    threading.Thread(target=lambda: listen(channel, _may_go, here, freedom, _nobody_listens), daemon=True).start()


def _nobody_listens() -> NoReturn:
    """`explain` has exited: the script goes on without it."""
    _may_go.put(None)
    sys.exit()


def _rank_and_world_size(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[int, int]:
    names = ("backend", "init_method", "timeout", "world_size", "rank")
    given = {**dict(zip(names, args, strict=False)), **kwargs}
    found = []
    for name in ("rank", "world_size"):
        value = given.get(name, -1)
        found.append(value if isinstance(value, int) and value >= 0 else int(os.environ.get(name.upper(), -1)))
    return found[0], found[1]


def _meeting_place(args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
    """Equal on all ranks of a world: the port, whatever host name each uses, or the file."""
    given = {**dict(zip(("backend", "init_method"), args, strict=False)), **kwargs}
    if given.get("store") is not None:
        return str(getattr(given["store"], "port", ""))
    where = urllib.parse.urlparse(str(given.get("init_method") or "env://"))
    return os.environ.get("MASTER_PORT", "") if where.scheme == "env" else str(where.port or where.path)


if __name__ == "__main__":  # what is pickled for spawned children must be importable by its name
    from ddp_lessons.run.rank import script_rank

    script_rank.main()
