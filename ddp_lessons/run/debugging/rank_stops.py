"""Inside a rank: where and how it stops for the debugger. pdb itself is loaded at the first stop."""

from __future__ import annotations

import os
import queue
import signal
import sys
import sysconfig
import threading
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import TYPE_CHECKING, Any

from ddp_lessons.run.debugging.post_mortem import opened_by
from ddp_lessons.run.recording.callers import is_torchs
from ddp_lessons.run.wire.messages import Command, Evaluate, Evaluated, FromDebugger, Halt, Task, ToDebugger

if TYPE_CHECKING:
    from ddp_lessons.run.debugging.rank_pdb import RankPdb

_STDLIB = (sysconfig.get_path("stdlib") + os.sep, "<frozen")


class RankStops:
    """Calls of `breakpoint()`, and requests of the notebook to stop. Used as a context, around a function."""

    def __init__(self, send: Callable[[FromDebugger], None]) -> None:
        self.send = send
        self.orders: queue.SimpleQueue[Command | Evaluate] = queue.SimpleQueue()  # to the thread that is at the prompt
        self.is_at_prompt = False
        self.is_called_off = False  # the notebook aborted the call: what is raised then is no failure of this rank
        self._task = Task()
        self._failure: Exception | None = None  # the last one, as Python keeps sys.last_value
        self._process = os.getpid()
        self._pdb: RankPdb | None = None

    def install(self) -> None:
        """In the main thread, once torch, which imports pdb, is there."""
        if os.environ.get("PYTHONBREAKPOINT") != "0":
            sys.breakpointhook = self._breakpoint
            if (pdb := sys.modules.get("pdb")) is not None:
                pdb.set_trace = self._breakpoint  # type: ignore[attr-defined]
        signal.signal(signal.SIGUSR2, self._halted)
        opened_by(self._open_post_mortem)

    def begin(self, task: Task) -> None:
        self._task, self.is_called_off = task, False
        while not self.orders.empty():  # the task before may have been interrupted at the prompt
            self.orders.get()

    def take(self, order: ToDebugger) -> None:
        """Called from the thread that reads messages."""
        if isinstance(order, Halt):
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGUSR2)
        elif isinstance(order, Command) or self.is_at_prompt:
            self.orders.put(order)
        else:
            # not in this thread, which must stay able to answer
            threading.Thread(target=self._evaluate_in_passing, args=[order], daemon=True).start()

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, path: TracebackType | None
    ) -> None:
        if self._pdb is not None:
            sys.settrace(None)  # `next` after the last line must not lead into what comes after the function
        if isinstance(error, Exception) and not self.is_called_off:
            self._failure = error
            if self._task.debug:
                self._open_post_mortem()

    def _breakpoint(self, *_: Any, **__: Any) -> None:
        if os.getpid() != self._process:
            raise RuntimeError("breakpoint() works only in the rank itself, not in a process that it started")
        if self._task.why_no_prompt:
            raise RuntimeError(f"breakpoint() cannot ask what to do: {self._task.why_no_prompt}")
        self._debugger().set_trace(sys._getframe(1))

    def _halted(self, number: int, frame: FrameType | None) -> None:
        if not self.is_at_prompt and (learners := _learners(frame)) is not None:
            self._debugger().set_trace(learners)

    def _open_post_mortem(self) -> bool:
        if self._failure is not None:
            self._debugger().look_back_at(self._failure, is_idle=not self._task.debug)
        return self._failure is not None

    def _debugger(self) -> RankPdb:
        if self._pdb is None:
            from ddp_lessons.run.debugging.rank_pdb import RankPdb

            self._pdb = RankPdb(self)
        return self._pdb

    def _evaluate_in_passing(self, order: Evaluate) -> None:
        """The rank computes or waits meanwhile."""
        frame = _learners(sys._current_frames().get(threading.main_thread().ident or 0))
        self.send(evaluated(order, frame) if frame is not None else Evaluated("it runs no function", order.number))


def evaluated(order: Evaluate, frame: FrameType) -> Evaluated:
    try:
        text = repr(eval(order.expression, frame.f_globals, frame.f_locals))
    except BaseException as error:
        text = f"*** {type(error).__name__}: {error}"
    return Evaluated(text, order.number)


def _learners(frame: FrameType | None) -> FrameType | None:
    """The innermost frame that is neither torch's, nor ours, nor Python's."""
    while frame is not None and (is_torchs(frame.f_code.co_filename) or frame.f_code.co_filename.startswith(_STDLIB)):
        frame = frame.f_back
    return frame
