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
from ddp_lessons.run.rank import travelled_modules
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
from ddp_lessons.run.recording.interception import forget_groups, install, recorder, uninstall
from ddp_lessons.run.wire.channel import Channel
from ddp_lessons.run.wire.messages import (
    Answer,
    Ask,
    Buffer,
    Command,
    Frame,
    Go,
    Loaded,
    Meeting,
    Raised,
    Returned,
    Start,
    Task,
)
from ddp_lessons.run.wire.travel import CannotTravel, from_notebook, pack_value, unpack_call

# longer than the time limit of any launch, so that the launcher reports before gloo does
_GROUP_PATIENCE = datetime.timedelta(days=1)
# a look opens files, which get the numbers 1 and 2 if the function has closed its output
_LOOKING = threading.Lock()
_kept_ports: set[int] = set()  # the launcher reserved them for the store of these ranks
_SECONDS_TO_LEAVE = 1.0
Inbox: TypeAlias = "queue.SimpleQueue[tuple[Task | Go, list[bytearray]] | None]"  # None: the notebook is gone


def serve(channel: Channel, output: int, orphaned: Callable[[], NoReturn]) -> NoReturn:
    """Run as one rank. `output` receives what it prints; `orphaned` ends it when the notebook exits."""
    try:
        start, _ = channel.receive()
    except EOFError:
        orphaned()
    assert isinstance(start, Start)
    os.register_at_fork(after_in_child=channel.leave)  # a child must not keep it open: a closed one shows a dead rank
    rank = _Rank(channel, output, start)
    here = Surroundings(threading.main_thread().ident, _Rank._next.__name__, start.patience_seconds)

    def left_alone() -> NoReturn:
        rank.inbox.put(None)
        if not rank.is_busy:
            time.sleep(_SECONDS_TO_LEAVE)  # it runs its exit handlers
        orphaned()

    threading.Thread(target=lambda: listen(channel, rank.inbox, here, left_alone, rank.stops), daemon=True).start()
    print_to(output)
    buffer_c_output_by_line()
    keep_freed_memory()
    listen_to_what_is_told(channel.send)
    rank.live()
    atexit._run_exitfuncs()
    flush()
    os._exit(0)


def listen(
    channel: Channel,
    inbox: Inbox,
    here: Surroundings,
    left_alone: Callable[[], NoReturn],
    stops: RankStops | None = None,
) -> None:
    """Answer the notebook, in a thread of its own. What the main thread has to do goes into its inbox."""
    try:
        while True:
            message, buffers = channel.receive()
            if isinstance(message, Task | Go):
                inbox.put((message, buffers))
            elif isinstance(message, Ask):
                channel.send(_answer(message, here))
            elif isinstance(message, Command) and stops is not None:
                stops.commands.put(message)
    except (EOFError, OSError):
        left_alone()


def _answer(ask: Ask, here: Surroundings) -> Answer:
    with _LOOKING, nothing_collected():
        held = standing(recorder, here)
        stack = _frames(sys._current_frames().get(here.main_thread or 0)) if ask.stack else None
    return Answer(ask.number, held, stack, recorder.recorded(ask.calls, held) if ask.calls else None)


class _Rank:
    """The main thread of a rank: it joins, and runs one task after the other."""

    def __init__(self, channel: Channel, output: int, start: Start) -> None:
        self.inbox: Inbox = queue.SimpleQueue()
        self.stops = RankStops(channel.send)
        self.is_busy = True  # it starts, or runs a function
        self._channel, self._output, self._start = channel, output, start
        self._has_limit = False

    def live(self) -> None:
        """Until the notebook needs it no longer."""
        failure = self._failure_of(lambda: _become(self._start))
        if failure is not None:
            threading.Event().wait()  # others may still wait for this rank
        self.stops.install()
        received = self._next()
        while received is not None:
            task, buffers = received
            assert isinstance(task, Task)
            # keep a failure, with its references, until the next task: other ranks may still wait for its messages
            failure = self._failure_of(lambda: self._load(task, buffers))  # noqa: B023  called at once
            received = self._next()
            if failure is None and received is not None and isinstance(received[0], Go):
                failure = self._failure_of(lambda: self._run(task))  # noqa: B023
                received = self._next()
        del failure

    def _next(self) -> tuple[Task | Go, list[bytearray]] | None:
        self.is_busy = False
        received = self.inbox.get()
        self.is_busy = received is not None
        return received

    def _load(self, task: Task, buffers: list[bytearray]) -> None:
        with _LOOKING:
            print_to(self._output)  # the previous function may have closed or replaced its output
        if task.meeting is not None:
            _join(self._start, task.meeting)
        if self._start.memory_bytes is not None and not self._has_limit:
            take_no_more_than(self._start.memory_bytes)
            self._has_limit = True
        if buffers:
            try:
                self._function, self._args = unpack_call(buffers, task.sources)
            except Exception as error:
                raise CannotTravel(f"could not load the function ({type(error).__name__}: {error})") from error
        self._channel.send(Loaded())

    def _run(self, task: Task) -> None:
        start, arrived = self._start, from_notebook()
        self.stops.task = task
        recorder.begin(keeps_values=start.record == "values")
        with self.stops:
            value = self._function(start.rank, start.world_size, *self._args)
        flush()
        answer: list[Buffer] = pack_value(value, arrived)
        self._channel.send(Returned(type(value).__name__, recorder.finish()), answer)

    def _failure_of(self, step: Callable[[], None]) -> BaseException | None:
        """Take one step. If it fails, report that to the notebook."""
        try:
            step()
        except BaseException as error:
            moment = time.monotonic()
            flush()
            self._channel.send(raised(error, moment))
            return error
        return None


def _become(start: Start) -> None:
    """Take over the notebook's environment."""
    os.environ.clear()
    os.environ.update(start.environment)
    sys.path[:] = start.module_path
    travelled_modules.install()
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
    _kept_ports.add(port)


def _join(start: Start, meeting: Meeting) -> None:
    """Join the process group of all ranks; after a failure, a new one."""
    import torch
    import torch.distributed as dist
    from torch._C._distributed_c10d import FileStore, Store, TCPStore

    if dist.is_initialized():
        with contextlib.suppress(Exception):
            dist.destroy_process_group()
        forget_groups()
    if meeting.port:
        _kept_ports.add(meeting.port)
        os.environ["MASTER_PORT"] = str(meeting.port)
    if start.backend is None:
        return
    if "nccl" in start.backend:
        # else "cuda" means the first GPU on every rank, which NCCL refuses
        torch.cuda.set_device(int(start.environment["LOCAL_RANK"]))
    store: Store
    if meeting.file:
        # as bytes, because a locale may lack letters of the path
        recorder.home = os.path.realpath(meeting.file)
        store = FileStore(os.fsencode(meeting.file), start.world_size)  # type: ignore[arg-type]
    else:  # the ranks run on several nodes
        recorder.home = f"port {meeting.port}"
        address = start.environment["MASTER_ADDR"]
        if start.rank > 0:
            wait_until_it_listens(address, meeting.port)
        store = TCPStore(address, meeting.port, start.world_size, is_master=start.rank == 0)
    dist.init_process_group(
        start.backend, store=store, rank=start.rank, world_size=start.world_size, timeout=_GROUP_PATIENCE
    )


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
