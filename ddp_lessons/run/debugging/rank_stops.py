"""Inside a rank: pdb, whose stdin and stdout are messages, and where it stops."""

from __future__ import annotations

import functools
import io
import linecache
import os
import pdb
import queue
import sys
import traceback
from collections.abc import Callable
from types import FrameType, SimpleNamespace, TracebackType
from typing import Any

from ddp_lessons.own_files import RUN
from ddp_lessons.run.rank.run_cell import opened_by
from ddp_lessons.run.wire.messages import AtPrompt, Command, Frame, Task

_PASSED_OVER = ("torch", "torch.*", "ddp_lessons.run.*")  # `step` goes through them into the learner's code


class RankStops:
    """Calls of `breakpoint()`, and failures. Used as a context, around a function."""

    def __init__(self, send: Callable[[AtPrompt], None]) -> None:
        self.commands: queue.SimpleQueue[Command] = queue.SimpleQueue()
        self._send = send
        self.task = Task()
        self._failure: Exception | None = None  # the last one, as Python keeps sys.last_value
        self._process = os.getpid()

    @functools.cached_property
    def _pdb(self) -> _RankPdb:
        """Only when it is needed: it imports readline, which each idle rank would pay for."""
        return _RankPdb(self._send, self.commands)

    def install(self) -> None:
        sys.breakpointhook = self._breakpoint
        pdb.set_trace = self._breakpoint
        opened_by(lambda: self._look_back(is_over=True))

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, path: TracebackType | None
    ) -> None:
        sys.settrace(None)  # `next` after the last line must not lead into what comes after the function
        if isinstance(error, Exception):
            self._failure = error
            if self.task.debug:
                self._look_back(is_over=False)

    def _breakpoint(self, *_: Any, **__: Any) -> None:
        if os.getpid() != self._process:
            raise RuntimeError("breakpoint() works only in the rank itself, not in a process that it started")
        if self.task.why_no_prompt:
            raise RuntimeError(f"breakpoint() cannot open a prompt: {self.task.why_no_prompt}")
        self._pdb.set_trace(sys._getframe(1))

    def _look_back(self, is_over: bool) -> bool:
        """Open the debugger where the last function failed. False: none has."""
        if self._failure is not None:
            self._pdb.look_back_at(self._failure, is_over)
        return self._failure is not None


class _RankPdb(pdb.Pdb):
    def __init__(self, send: Callable[[AtPrompt], None], commands: queue.SimpleQueue[Command]) -> None:
        self._written = io.StringIO()
        stdin: Any = SimpleNamespace(readline=lambda: self._next_command(commands))
        super().__init__(stdin=stdin, stdout=self._written, skip=_PASSED_OVER, nosigint=True, readrc=False)
        self.prompt = ""  # the notebook has its own
        self._send = send
        self._is_over = False  # the function has failed earlier, so quitting ends nothing else

    def set_stepinstr(self) -> None:
        """Called since Python 3.13 by `set_trace`, to stop before the current line has ended: stop as before it."""
        self.set_step()

    def look_back_at(self, error: Exception, is_over: bool) -> None:
        self.reset()
        self.message("".join(traceback.format_exception_only(type(error), error)).rstrip())
        self._is_over = is_over
        self.interaction(None, error.__traceback__)
        self._is_over = False

    def _next_command(self, commands: queue.SimpleQueue[Command]) -> str:
        written = self._written.getvalue()
        self._written.seek(0)
        self._written.truncate()
        frame, line = self.stack[self.curindex]
        code = frame.f_code
        source = linecache.getline(code.co_filename, line, frame.f_globals).strip()
        self._send(AtPrompt(Frame(code.co_filename, line, code.co_name, source), written, self._is_over))
        return f"{commands.get().text}\n"

    def get_stack(self, f: FrameType | None, t: TracebackType | None) -> tuple[list[tuple[FrameType, int]], int]:
        """Without the frames outside of the learner's function, which are ours."""
        stack, index = super().get_stack(f, t)
        are_ours = [frame.f_code.co_filename.startswith(RUN) for frame, _ in stack]
        outside = are_ours.index(False, are_ours.index(True)) if True in are_ours else 0
        return stack[outside:], index - outside

    def format_stack_entry(self, frame_lineno: tuple[FrameType, int], lprefix: str = ": ") -> str:
        """As in a traceback, so that the notebook can replace the file by the name of the cell."""
        frame, line = frame_lineno
        file = self.canonic(frame.f_code.co_filename)
        entry = super().format_stack_entry(frame_lineno, lprefix)
        return entry.replace(f"{file}({line!r})", f'File "{file}", line {line}, in ', 1)
