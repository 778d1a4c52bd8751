"""Inside a rank: become the rank that the notebook names, join the group, run functions, report how they ended.

The main thread runs the learner's functions. A second thread reads messages: it answers "where are you?" from the main
thread's stack, even while that is blocked in a collective, and ends the process as soon as the notebook exits.
"""

from __future__ import annotations

import atexit
import contextlib
import datetime
import faulthandler
import itertools
import os
import queue
import shutil
import signal
import socket
import sys
import threading
import time
import traceback
import types
from collections.abc import Callable
from typing import NoReturn, TypeAlias

from ddp_lessons.own_files import RUN
from ddp_lessons.record.garbage import nothing_collected
from ddp_lessons.run.debugging.rank_stops import RankStops
from ddp_lessons.run.rank.call_out import Freedom, cut_connections
from ddp_lessons.run.rank.common_begin import wait_for_the_others
from ddp_lessons.run.rank.own_process import (
    buffer_c_output_by_line,
    end_group,
    flush,
    keep_freed_memory,
    keep_sockets_in,
    leave_when_orphaned,
    linger_before_an_abort,
    print_to,
    stay_when_orphaned,
    take_no_more_than,
)
from ddp_lessons.run.rank.private_store import keep_stores_private, wait_until_it_listens
from ddp_lessons.run.rank.tell import listen as listen_to_what_is_told
from ddp_lessons.run.rank.what_blocks import Surroundings, standing
from ddp_lessons.run.recording.announced_calls import SharedPages, StoredPages
from ddp_lessons.run.recording.compare_before import Guard
from ddp_lessons.run.recording.interception import forget_groups, install, recorder, uninstall
from ddp_lessons.run.wire.channel import Channel
from ddp_lessons.run.wire.messages import (
    Buffer,
    Command,
    Evaluate,
    Frame,
    Free,
    Freed,
    Halt,
    Joined,
    Leave,
    Loaded,
    Look,
    Position,
    Raised,
    Rejoin,
    Returned,
    Start,
    Task,
    Where,
)
from ddp_lessons.run.wire.travel import CannotTravel, from_notebook, pack_value, unpack_call

# longer than the time limit of any launch, so that the launcher reports before gloo does
_GROUP_PATIENCE = datetime.timedelta(days=1)
# a look opens files, which get the numbers 1 and 2 if the function has closed its output
_LOOKING = threading.Lock()
_kept_ports: set[int] = set()  # the launcher reserved them for the store of these ranks
_Tasks: TypeAlias = "queue.SimpleQueue[tuple[Task | Rejoin, list[bytearray]] | None]"


def serve(channel: Channel, output: int, orphaned: Callable[[], NoReturn]) -> NoReturn:
    """Run as one rank. `output` receives what it prints; `orphaned` ends it when the notebook exits."""
    tasks: _Tasks = queue.SimpleQueue()
    try:
        start, _ = channel.receive()
    except EOFError:
        orphaned()
    assert isinstance(start, Start)
    freedom, stops = Freedom(start.addresses), RankStops(channel.send)
    _stay_out_of_children(channel)
    here = Surroundings(threading.main_thread().ident, serve.__name__, start.patience_seconds)
    reading = threading.Thread(target=lambda: listen(channel, tasks, here, freedom, orphaned, stops), daemon=True)
    reading.start()
    print_to(output)
    buffer_c_output_by_line()
    keep_freed_memory()
    listen_to_what_is_told(channel.send)
    if _failure(channel, lambda: _become(start)) is not None:
        threading.Event().wait()  # others may still wait for this rank
    stops.install()
    channel.send(Joined())
    failure = None  # keep it, with its references, until the next task: other ranks may still wait for its messages
    while (received := tasks.get()) is not None:
        task, buffers = received
        if isinstance(task, Rejoin):
            failure = _failure(channel, lambda: _rejoin(channel, start, task))  # noqa: B023  called at once
            continue
        with _LOOKING:
            print_to(output)  # the previous function may have closed or replaced them
        failure = _failure(channel, lambda: _run(channel, start, task, buffers, freedom, stops))  # noqa: B023  at once
    del failure
    _leave()


def listen(
    channel: Channel,
    tasks: _Tasks,
    here: Surroundings,
    freedom: Freedom,
    orphaned: Callable[[], NoReturn],
    stops: RankStops | None = None,
) -> None:
    try:
        while True:
            message, buffers = channel.receive()
            if isinstance(message, Task | Rejoin):
                if stops is not None and isinstance(message, Rejoin):
                    stops.is_called_off = True
                recorder.is_loading = isinstance(message, Task)
                tasks.put((message, buffers))
            elif isinstance(message, Free):
                freedom.call_out()
            elif isinstance(message, Look):
                with _LOOKING, nothing_collected():
                    held = standing(recorder, here, message.number)
                channel.send(recorder.recorded(message.calls, held) if message.calls else held)
            elif isinstance(message, Where):
                with _LOOKING, nothing_collected():
                    position = _frames(sys._current_frames().get(here.main_thread or 0))
                    held = standing(recorder, here)
                channel.send(Position(position, recorder.recorded(standing=held) if message.with_calls else None))
            elif isinstance(message, Halt | Command | Evaluate) and stops is not None:
                stops.take(message)
            elif isinstance(message, Leave):
                tasks.put(None)
    except (EOFError, OSError):
        orphaned()


def _become(start: Start) -> None:
    """Take over the notebook's environment and join the group."""
    os.environ.clear()
    os.environ.update(start.environment)
    sys.path[:] = start.module_path
    sys.modules["__main__"] = types.ModuleType("__main__")
    for folder in (start.current_folder, os.environ.get("HOME", "")):
        with contextlib.suppress(OSError):  # deleted meanwhile, for the notebook, too; or not on this node
            os.chdir(folder)
            break
    crash_file = open(start.crash_file, "wb")  # noqa: SIM115  written when no file can be opened any more
    linger_before_an_abort()
    faulthandler.enable(crash_file)
    faulthandler.register(signal.SIGUSR1, crash_file, all_threads=False)

    import torch
    import torch.distributed as dist

    if not start.record:
        uninstall()
    torch.set_num_threads(start.threads)
    dist.set_debug_level_from_env()  # type: ignore[attr-defined]
    address, port = start.environment["MASTER_ADDR"], int(start.environment["MASTER_PORT"])
    keep_stores_private(address, _kept_ports, os.path.dirname(start.crash_file))
    _join(start, Rejoin(start.meeting_file, start.guard_file, port))
    if start.memory_bytes is not None:
        take_no_more_than(start.memory_bytes)


def _join(start: Start, meeting: Rejoin) -> None:
    import torch
    import torch.distributed as dist
    from torch._C._distributed_c10d import FileStore, Store, TCPStore

    guard_file, meeting_file = meeting.guard_file, meeting.meeting_file
    recorder.guard = None
    if guard_file:
        recorder.guard = Guard(SharedPages(guard_file, start.rank, start.world_size), recorder, start.rank)
    if meeting.port:
        _kept_ports.add(meeting.port)
        os.environ["MASTER_PORT"] = str(meeting.port)
    if start.backend is not None:
        if "nccl" in start.backend:
            # else "cuda" means the first GPU on every rank, which NCCL refuses
            torch.cuda.set_device(int(start.environment["LOCAL_RANK"]))
        store: Store
        if meeting_file:
            # as bytes, because a locale may lack letters of the path
            recorder.home = os.path.realpath(meeting_file)
            store = FileStore(os.fsencode(meeting_file), start.world_size)  # type: ignore[arg-type]
        else:  # the ranks run on several nodes
            recorder.home = f"port {meeting.port}"
            address = start.environment["MASTER_ADDR"]
            if start.rank > 0:
                wait_until_it_listens(address, meeting.port)
            store = TCPStore(address, meeting.port, start.world_size, is_master=start.rank == 0)
            if start.outlives_failures:
                recorder.guard = Guard(StoredPages(address, meeting.port, start.rank), recorder, start.rank)
        dist.init_process_group(
            start.backend, store=store, rank=start.rank, world_size=start.world_size, timeout=_GROUP_PATIENCE
        )


def _rejoin(channel: Channel, start: Start, rejoin: Rejoin) -> None:
    """No call of the old group may match one of the new group: its connections are closed."""
    import torch.distributed as dist

    channel.send(Freed())
    cut_connections(start.addresses)
    if dist.is_initialized():
        with contextlib.suppress(Exception):
            dist.destroy_process_group()
    forget_groups()
    _join(start, rejoin)
    channel.send(Joined())


def _run(
    channel: Channel, start: Start, task: Task, buffers: list[bytearray], freedom: Freedom, stops: RankStops
) -> None:
    try:
        function, args = unpack_call(buffers, task.sources)
    except Exception as error:
        raise CannotTravel(f"could not load the function ({type(error).__name__}: {error})") from error
    channel.send(Loaded())
    arrived = from_notebook()
    if start.meeting_file:  # all ranks are on this node
        begin = os.path.join(os.path.dirname(start.crash_file), "begin")
        wait_for_the_others(begin, start.rank, start.world_size, task)
    stops.begin(task)
    recorder.begin(keeps_values=start.record == "values")
    with freedom if start.outlives_failures else contextlib.nullcontext():
        with stops:
            value = function(start.rank, start.world_size, *args)
        flush()
        answer: list[Buffer] = pack_value(value, arrived)
    channel.send(Returned(type(value).__name__, recorder.finish()), answer)


def _failure(channel: Channel, step: Callable[[], None]) -> BaseException | None:
    """Run one step. If it fails, report that to the notebook."""
    try:
        step()
    except BaseException as error:
        moment = time.monotonic()
        flush()
        channel.send(raised(error, moment))
        return error
    return None


def raised(error: BaseException, moment: float) -> Raised:
    kind = type(error).__name__
    try:
        message = str(error).strip()
        told = traceback.TracebackException.from_exception(error)
    except BaseException as worse:  # even str() of the exception fails; report its class and its stack
        message = f"(no message: str() of it raises {type(worse).__name__})"
        told = traceback.TracebackException(RuntimeError, RuntimeError(f"{kind} {message}"), error.__traceback__)
    _forget_our_frames(told)
    frames = tuple(Frame(f.filename, f.lineno or 0, f.name, f.line or "") for f in told.stack)
    return Raised(kind, message, frames, "".join(told.format()), moment, recorder.recorded())


def _forget_our_frames(told: traceback.TracebackException) -> None:
    seen: traceback.TracebackException | None = told
    while seen is not None:
        while seen.stack and seen.stack[0].filename.startswith((RUN, "<frozen runpy")):
            seen.stack.pop(0)
        seen = seen.__cause__ or seen.__context__


def _frames(frame: types.FrameType | None) -> tuple[Frame, ...]:
    stack = traceback.extract_stack(frame) if frame is not None else []
    inside_us = itertools.dropwhile(lambda f: not f.filename.startswith(RUN), stack)  # not what started this process
    outside = [f for f in inside_us if not f.filename.startswith(RUN)]
    return tuple(Frame(f.filename, f.lineno or 0, f.name, f.line or "") for f in outside)


def _stay_out_of_children(channel: Channel) -> None:
    """A child process must not keep the channel open, because a closed channel shows that a rank died."""
    os.register_at_fork(after_in_child=channel.leave)


def _leave() -> NoReturn:
    atexit._run_exitfuncs()
    flush()
    os._exit(0)


def main(channel_number: int, notebook: int, folder: str) -> NoReturn:
    """Run a rank in a process that was spawned for it (if processes are not forked)."""

    def orphaned() -> NoReturn:
        end = time.monotonic() + 1
        while os.getppid() == notebook and time.monotonic() < end:
            time.sleep(0.01)  # its channels close a moment before it exits
        if os.getppid() != notebook:  # remove its private folder, since there is no template to do so
            shutil.rmtree(folder, ignore_errors=True)
        end_group()

    leave_when_orphaned(notebook, folder)
    import torch.distributed  # noqa: F401  the slow part, done in advance

    install()
    stay_when_orphaned()
    keep_sockets_in(folder)
    serve(Channel(socket.socket(fileno=channel_number)), os.dup(1), orphaned)
