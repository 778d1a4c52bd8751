"""Inside a rank: pdb, whose stdin and stdout are messages."""

from __future__ import annotations

import io
import linecache
import pdb
import traceback
from types import FrameType, TracebackType
from typing import TYPE_CHECKING, Any

from ddp_lessons.own_files import RUN
from ddp_lessons.run.debugging.rank_stops import evaluated
from ddp_lessons.run.wire.messages import AtPrompt, Evaluate, Frame, QuitDebugger, RunsOn

if TYPE_CHECKING:
    from ddp_lessons.run.debugging.rank_stops import RankStops

_PASSED_OVER = ("torch", "torch.*", "ddp_lessons.run.*")  # `step` goes through them into the learner's code


class _Dialogue(io.StringIO):
    """Keeps what pdb writes until it reads its next command."""

    def __init__(self, debugger: RankPdb) -> None:
        super().__init__()
        self._debugger = debugger

    def readline(self, size: int | None = -1, /) -> str:  # type: ignore[override]
        written = self.getvalue()
        self.seek(0)
        self.truncate()
        return f"{self._debugger.next_command(written)}\n"


class RankPdb(pdb.Pdb):
    def __init__(self, stops: RankStops) -> None:
        dialogue = _Dialogue(self)
        super().__init__(stdin=dialogue, stdout=dialogue, skip=_PASSED_OVER, nosigint=True, readrc=False)
        self.prompt = ""  # the notebook has its own
        self._stops = stops
        self._is_idle = False

    def set_stepinstr(self) -> None:
        """Called since Python 3.13 by `set_trace`, to stop before the current line has ended: stop as before it."""
        self.set_step()

    def look_back_at(self, error: Exception, is_idle: bool) -> None:
        """`is_idle`: the call that failed is over, so there is nothing to end by quitting."""
        self.reset()
        self.message("".join(traceback.format_exception_only(type(error), error)).rstrip())
        self._is_idle = is_idle
        try:
            self.interaction(None, error.__traceback__)
        finally:
            self._is_idle = False

    def next_command(self, written: str) -> str:
        frame, line = self.stack[self.curindex]
        code = frame.f_code
        source = linecache.getline(code.co_filename, line, frame.f_globals).strip()
        self._stops.send(AtPrompt(Frame(code.co_filename, line, code.co_name, source), written))
        while True:
            order = self._stops.orders.get()
            if not isinstance(order, Evaluate):
                return order.text
            self._stops.send(evaluated(order, frame))

    def _cmdloop(self) -> None:
        """Without pdb's own reaction to an interrupt, which is to ask again: the notebook interrupts to end this."""
        self._stops.is_at_prompt = True
        try:
            self.cmdloop()
        finally:
            self._stops.is_at_prompt = False
            self._stops.send(RunsOn())

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

    def user_call(self, frame: FrameType, argument_list: None) -> None:
        if frame.f_lineno:  # the value of a cell's last line is a call without a line
            super().user_call(frame, argument_list)

    def user_return(self, frame: FrameType, return_value: Any) -> None:
        super().user_return(frame, return_value)
        if frame.f_locals is frame.f_globals:  # of a cell, whose names stay
            frame.f_globals.pop("__return__", None)

    def do_quit(self, arg: str) -> bool:
        """q(uit) | exit
        End the call on all ranks.
        """
        if self._is_idle:
            return True
        self._stops.send(QuitDebugger())
        while True:
            self._stops.orders.get()

    do_q = do_exit = do_EOF = do_quit

    def _refuse(self, arg: str) -> None:
        """Not available in a rank."""
        self.error("this command is not available in a rank")

    do_run = do_restart = do_debug = do_interact = _refuse
