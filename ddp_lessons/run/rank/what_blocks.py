"""Inside a rank: what blocks it, read from the stacks of its threads.

A rank is blocked when its main thread waits for the end of a recorded call, and nothing else of the learner runs in it.
Nothing is noted for that in advance: the stack of the waiting thread contains our wrapper around torch's wait, and the
wrapper knows the call.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from types import FrameType
from typing import Any

from ddp_lessons.own_files import RECORDING, RUN
from ddp_lessons.record.rank_record import Standing
from ddp_lessons.run.recording.callers import is_torchs
from ddp_lessons.run.recording.recorder import Call, Recorder

_OURS = tuple(RECORDING + name for name in ("interception.py", "functional_collectives.py", "joined_groups.py"))
# where torch itself waits for work in the background
_TORCH_WAITS = tuple(
    name.replace("/", os.sep) for name in ("autograd/graph.py", "parallel/distributed.py", "futures/__init__.py")
)
_WAITS_FOR_WORK = ("thread.py", "_worker")  # of concurrent.futures, between two tasks
# of a multiprocessing queue, of tqdm, and of a DataLoader
_HELPERS = {("queues.py", "_feed"), ("_monitor.py", "run"), ("pin_memory.py", "_pin_memory_loop")}


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
    """No frame is kept for longer: it keeps alive what a function leaves behind when it returns."""
    frames = sys._current_frames()
    # this frame would keep alive what all others refer to: their store would outlive `destroy_process_group`
    del frames[threading.get_ident()]
    main = frames.pop(here.main_thread or 0, None)
    at = next(((_file(one), one.f_lineno) for one in _outwards(main) if not is_torchs(_file(one))), ("", 0))
    if main is None or recorder.is_out_of_sight or _has_help(frames.values()):
        return Standing(is_free=True, at=at)
    if main.f_code.co_name == here.idle_in and _file(main).startswith(RUN):
        return Standing(is_free=False, at=at)
    call = _waits_for(main)
    calls = [call] if call is not None else _torch_waits_for(main, recorder)
    # in C++ it waits or computes: what its clock shows in the next look tells these apart
    moved = 0.0 if call is not None else recorder.gap_clock.main_seconds()
    if not calls or moved is None or any(_may_end_by_itself(one, here) for one in calls):
        return Standing(is_free=True, at=at)
    moments = [moment for one in calls for moment in (one.begin, one.waited or 0.0)]
    return Standing(False, _numbers(recorder, calls), (moved, *moments), at)


def _has_help(frames: Iterable[FrameType]) -> bool:
    """Another thread or a remote call may do what its main thread waits for."""
    uses_rpc: Any = getattr(sys.modules.get("torch.distributed.rpc.api"), "_is_current_rpc_agent_set", bool)
    return not all(map(_is_helper, frames)) or uses_rpc()


def _is_helper(frame: FrameType) -> bool:
    """A thread of a library, which calls nothing. An unknown thread may do anything."""
    functions = [(os.path.basename(_file(one)), one.f_code.co_name) for one in _outwards(frame)]
    return functions[0] == _WAITS_FOR_WORK or not _HELPERS.isdisjoint(functions)


def _may_end_by_itself(call: Call, here: Surroundings) -> bool:
    """torch gives it up soon, or a process that this rank started joins its group. Later, children can't help."""
    if min(call.patience_seconds, call.home.patience_seconds) <= here.patience_seconds:
        return True
    if call.operation != "init_process_group":
        return False
    if getattr(sys.modules.get("multiprocessing.process"), "_children", ()):
        return True
    with contextlib.suppress(OSError), open(f"/proc/self/task/{os.getpid()}/children", encoding="ascii") as children:
        return bool(children.read().strip())
    return False  # this system has no such file


def _waits_for(frame: FrameType) -> Call | None:
    for one in _outwards(frame):
        if _file(one) in _OURS:
            call = one.f_locals.get("call")
            if isinstance(call, Call) and call.waited is not None and call.end is None and not call.error:
                return call
        elif not is_torchs(_file(one)):
            return None
    return None


def _torch_waits_for(frame: FrameType, recorder: Recorder) -> list[Call]:
    """DistributedDataParallel waits in C++, in backward or forward, for its running calls."""
    is_stand_in = _file(frame) in _OURS and frame.f_code.co_name == "call"
    if not is_stand_in and not _file(frame).endswith(_TORCH_WAITS):
        return []
    return [call for call in list(recorder.seen_from_afar.values()) if call.end is None]


def _numbers(recorder: Recorder, calls: list[Call]) -> tuple[int, ...]:
    """Counted from the first call of the rank."""
    count, kept = recorder.count, list(recorder.calls)
    numbers = {id(call): count - back for back, call in enumerate(reversed(kept), start=1)}
    return tuple(numbers.get(id(call), -1) for call in calls)


def _file(frame: FrameType) -> str:
    return frame.f_code.co_filename


def _outwards(frame: FrameType | None) -> Iterator[FrameType]:
    while frame is not None:
        yield frame
        frame = frame.f_back
