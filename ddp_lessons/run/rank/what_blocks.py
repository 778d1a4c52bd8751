"""Inside a rank: what blocks it, read from the stacks of its threads.

A thread is blocked when it waits for the end of a recorded call. Nothing is noted for that in advance: the stack of a
waiting thread contains our wrapper around torch's wait, and the wrapper knows the call.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator, Set
from dataclasses import dataclass
from types import FrameType

from ddp_lessons.own_files import RECORDING, RUN
from ddp_lessons.record.rank_record import Standing
from ddp_lessons.run.recording.callers import is_torchs
from ddp_lessons.run.recording.joined_groups import shortest_limit
from ddp_lessons.run.recording.recorder import Call, Recorder

_OURS = tuple(RECORDING + name for name in ("interception.py", "functional_collectives.py", "joined_groups.py"))
# where torch itself waits for work in the background
_TORCH_WAITS = tuple(
    name.replace("/", os.sep) for name in ("autograd/graph.py", "parallel/distributed.py", "futures/__init__.py")
)
_WAITS_FOR_WORK = ("thread.py", "_worker")  # of concurrent.futures, between two tasks
_HELPERS = {("queues.py", "_feed"), ("_monitor.py", "run")}  # of a multiprocessing queue, and of tqdm
# gloo's and the store's threads wake up only to serve calls that were started; TensorPipe's never sleep
_MOVE_BYTES = ("gloo_tcp_loop", "pt_tcpstore", "pt_tcpstore_uv", "TP_SHM_reactor")
_IN_EPOLL = ("do_epoll_wait", "ep_poll")  # Linux's functions, of newer and older kernels
_seen_in_epoll: set[int] = set()  # threads of this process


@dataclass(frozen=True)
class Surroundings:
    """How to tell a wait from a pause."""

    main_thread: int | None
    idle_in: str  # the function in which the main thread is idle
    patience_seconds: float  # a wait that torch itself ends within this time is not endless


def standing(recorder: Recorder, here: Surroundings) -> Standing:
    """What blocks this rank now. If that cannot be found out, it counts as free: the asking thread must not fail."""
    try:
        return _standing(recorder, here)
    except Exception:
        return Standing(is_free=True)


def _standing(recorder: Recorder, here: Surroundings) -> Standing:
    at, calls, may_compute = _read_stacks(recorder, here)
    moved = None if calls is None else _switches_if_asleep(may_compute)
    if calls is None or moved is None:
        return Standing(is_free=True, at=at)
    moved += [moment for call in calls for moment in (call.begin, call.waited or 0.0)]
    return Standing(False, _numbers(recorder, calls), tuple(moved), at)


def _read_stacks(recorder: Recorder, here: Surroundings) -> tuple[tuple[str, int], list[Call] | None, bool]:
    """The main thread's line, the calls that hold all threads (None: some thread is free), and whether a thread is in
    native code, where its stack does not show whether it waits or computes.

    No frame is kept for longer: it keeps alive what a function leaves behind when it returns.
    """
    frames = sys._current_frames()
    threads = set(frames)
    # this frame would keep alive what all others refer to: their store would outlive `destroy_process_group`
    del frames[threading.get_ident()]
    at = _line_outside_torch(frames.get(here.main_thread or 0))
    if recorder.is_out_of_sight:
        return at, None, False
    calls: list[Call] = []
    may_compute = False
    for thread, frame in frames.items():
        if _is_idle(thread, frame, here) or _joins_one_of(threads, frame):
            continue
        held_in = _waits_for(frame, here.patience_seconds)
        if not held_in:
            held_in, may_compute = _torch_waits_for(frame, recorder, here.patience_seconds), True
        if not held_in or (held_in[0].operation == "init_process_group" and _has_children()):
            return at, None, may_compute
        calls += held_in
    return at, calls, may_compute


def _is_idle(thread: int, frame: FrameType, here: Surroundings) -> bool:
    """It does nothing by itself. An unknown thread may do anything."""
    if thread == here.main_thread:
        return frame.f_code.co_name == here.idle_in and frame.f_code.co_filename.startswith(RUN)
    if (os.path.basename(_file(frame)), frame.f_code.co_name) == _WAITS_FOR_WORK:
        return True
    return any((os.path.basename(_file(one)), one.f_code.co_name) in _HELPERS for one in _outwards(frame))


def _joins_one_of(threads: Set[int], frame: FrameType) -> bool:
    """It waits without a limit for another thread: what blocks that thread blocks both."""
    for one in _outwards(frame):
        if os.path.basename(_file(one)) != "threading.py":
            return False
        if one.f_code.co_name == "join":
            return one.f_locals.get("timeout") is None and one.f_locals["self"].ident in threads
    return False


def _has_children() -> bool:
    """Processes that this rank started may join the group, too."""
    if getattr(sys.modules.get("multiprocessing.process"), "_children", ()):
        return True
    try:
        with open(f"/proc/self/task/{os.getpid()}/children", encoding="ascii") as children:
            return bool(children.read().strip())
    except OSError:
        return False


def _waits_for(frame: FrameType, patience_seconds: float) -> list[Call]:
    for one in _outwards(frame):
        if _file(one) in _OURS:
            call = one.f_locals.get("call")
            if isinstance(call, Call) and call.waited is not None and call.end is None and not call.error:
                return [call] if _seconds_until_it_gives_up(one, call) > patience_seconds else []
        elif not is_torchs(_file(one)):
            return []
    return []


def _seconds_until_it_gives_up(frame: FrameType, call: Call) -> float:
    """The timeout of the call itself, or of its group."""
    given = (*frame.f_locals.get("args", ()), *frame.f_locals.get("kwargs", {}).values())
    return min(shortest_limit(given), call.patience_seconds, call.home.patience_seconds)


def _torch_waits_for(frame: FrameType, recorder: Recorder, patience_seconds: float) -> list[Call]:
    """DistributedDataParallel waits in C++, in backward or forward, for its running calls."""
    is_stand_in = _file(frame) in _OURS and frame.f_code.co_name == "call"
    if not is_stand_in and not _file(frame).endswith(_TORCH_WAITS):
        return []
    waiting = [call for call in list(recorder.seen_from_afar.values()) if call.end is None]
    return waiting if all(call.home.patience_seconds > patience_seconds for call in waiting) else []


def _switches_if_asleep(with_pythons: bool) -> list[float] | None:
    """How often each thread got a processor, if all of them sleep. None: they do not, or it is unknown.

    Threads that torch started in C++ (for RPC, a backward, a forked task) have no Python stack, and may unblock other
    threads. Python's own threads count only if asked for: their stacks show more.
    """
    # after a fork, Python does not know the id of the main thread
    pythons = {os.getpid(), *(thread.native_id for thread in threading.enumerate())}
    left_out = {threading.get_native_id(), *(() if with_pythons else pythons)}
    switches = []
    try:
        for thread in sorted(os.listdir("/proc/self/task")):
            with open(f"/proc/self/task/{thread}/status", encoding="utf-8") as told:
                facts = dict(line.split(":", 1) for line in told if ":" in line)
            if int(thread) in left_out or (int(thread) not in pythons and _moves_bytes(thread, facts["Name"].strip())):
                continue
            if facts["State"].split()[0] != "S":
                return None
            kinds = ("voluntary_ctxt_switches", "nonvoluntary_ctxt_switches")
            switches.append(float(sum(int(facts[kind]) for kind in kinds)))
    except (OSError, KeyError, ValueError):  # a thread has just ended, or this system does not list threads
        return None if with_pythons or os.path.isdir("/proc/self/task") or _uses_rpc() else []
    return switches


def _moves_bytes(thread: str, name: str) -> bool:
    """Before torch 2.12 gloo's thread has no name of its own. It waits for its sockets; other such threads do not.

    It is recognized once, because it wakes up every 10 ms, and may be awake when it is looked at again.
    """
    if name in _MOVE_BYTES or int(thread) in _seen_in_epoll:
        return True
    with open("/proc/self/comm", encoding="utf-8") as named, open(f"/proc/self/task/{thread}/wchan") as waits:
        if name != named.read().strip() or waits.read() not in _IN_EPOLL:
            return False
    _seen_in_epoll.add(int(thread))
    return True


def _uses_rpc() -> bool:
    agent = getattr(sys.modules.get("torch.distributed.rpc.api"), "_is_current_rpc_agent_set", None)
    return agent is not None and bool(agent())


def _numbers(recorder: Recorder, calls: list[Call]) -> tuple[int, ...]:
    count, kept = recorder.count, list(recorder.calls)
    numbers = {id(call): count - back for back, call in enumerate(reversed(kept), start=1)} if calls else {}
    return tuple(numbers.get(id(call), -1) for call in calls)


def _line_outside_torch(frame: FrameType | None) -> tuple[str, int]:
    for one in _outwards(frame):
        if not is_torchs(_file(one)):
            return _file(one), one.f_lineno
    return "", 0


def _file(frame: FrameType) -> str:
    return frame.f_code.co_filename


def _outwards(frame: FrameType | None) -> Iterator[FrameType]:
    while frame is not None:
        yield frame
        frame = frame.f_back
