"""In the notebook: the dialogue between a person and the ranks that stopped at a breakpoint.

A command goes to one rank, whose pdb carries it out. While a person thinks, the other ranks run until they wait for
that one.
"""

from __future__ import annotations

import os
import re
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import FrameType

from ddp_lessons.record.line_names import name_place, notebook_shell
from ddp_lessons.run.diagnosis.failures import with_names_of_cells
from ddp_lessons.run.diagnosis.wording import name_line, ranks_named
from ddp_lessons.run.launcher.follow import Ending
from ddp_lessons.run.launcher.patience import SECONDS_FOR_OTHERS_TO_STOP, SECONDS_TO_STOP_AGAIN
from ddp_lessons.run.launcher.rank_states import Died
from ddp_lessons.run.wire.messages import AtPrompt, Command, Raised

_ANOTHER_RANK = re.compile(r"rank (\d+)")
_HELP = """\
rank 1        switch to rank 1, if it is stopped
where all     show the line and call of every rank
quit          end the call on all ranks
All other commands are pdb's, and apply to the current rank:
"""


@dataclass
class Dialogue:
    """Pass it what the ranks report, and give it a `turn()` from time to time while it `is_open`."""

    world_size: int
    say: Callable[[int, Command], None]
    is_running: Callable[[int], bool]  # its function has not ended
    where_each_is: Callable[[], Sequence[str]]
    ended: Mapping[int, Raised | Died]
    _at_prompt: dict[int, AtPrompt] = field(default_factory=dict)
    _news: dict[int, str] = field(default_factory=dict)  # what ranks wrote, not shown yet
    _current: int | None = None  # the rank that the person talks to
    _not_before: float = 0.0  # the current rank may stop again, and others may be about to stop, too

    def heard(self, rank: int, message: AtPrompt) -> None:
        self._at_prompt[rank], self._news[rank] = message, message.text
        soon = time.monotonic() + SECONDS_FOR_OTHERS_TO_STOP
        self._not_before = soon if rank == self._current else max(soon, self._not_before)

    @property
    def is_open(self) -> bool:
        """A rank is stopped, so the call cannot end by itself."""
        return any(map(self.is_running, self._at_prompt))

    def turn(self) -> Ending | None:
        """Ask for a command, if it is time to. Not None: that ended the call."""
        self._at_prompt = {rank: at for rank, at in self._at_prompt.items() if self.is_running(rank)}
        may_change = self._current is None or self.is_running(self._current)
        if not self._at_prompt or (may_change and time.monotonic() < self._not_before):
            return None
        before = self._current
        current = before if before is not None and before in self._at_prompt else min(self._at_prompt)
        if before is not None and before != current:
            print(self._where([before]))
        self._current = current
        self._show_news(before)
        return self._ask(current)

    def _show_news(self, before: int | None) -> None:
        """What ranks wrote, with the ranks that wrote the same; that of the current rank comes last."""
        by_text: dict[str, list[int]] = {}
        for rank, text in sorted(self._news.items()):
            by_text.setdefault(text, []).append(rank)
        for text, ranks in sorted(by_text.items(), key=lambda each: self._current in each[1]):
            if text and (ranks != [self._current] or before != self._current):
                print(f"{ranks_named(ranks)}:")
            print(with_names_of_cells(text), end="")
        self._news.clear()

    def _ask(self, current: int) -> Ending | None:
        at = self._at_prompt[current]
        try:
            line = asked(f"rank {current} of {self.world_size}, {name_place(at.frame.file, at.frame.line)}> ").strip()
        except KeyboardInterrupt:
            return Ending.INTERRUPTED
        except EOFError:
            line = "quit"
        if line in ("q", "quit", "exit") and not at.is_over:
            return Ending.QUIT
        if another := _ANOTHER_RANK.fullmatch(line):
            self._turn_to(int(another[1]))
        elif line == "where all":
            print(self._where(range(self.world_size)))
        else:
            if line in ("h", "help", "?"):
                print(_HELP, end="")
            del self._at_prompt[current]
            self._not_before = time.monotonic() + SECONDS_TO_STOP_AGAIN
            self.say(current, Command(line))
        return None

    def _turn_to(self, rank: int) -> None:
        if rank in self._at_prompt:
            self._current = rank
        else:
            print(self._where([rank]) or f"there is no rank {rank} in a world of {self.world_size}")

    def _where(self, ranks: Iterable[int]) -> str:
        lines = [line.strip() for line in self.where_each_is()]
        states = {rank: f"stopped at {name_line(at.frame)}" for rank, at in self._at_prompt.items()}
        for rank, how in self.ended.items():
            states[rank] = f"raised {how.kind}: {how.message}" if isinstance(how, Raised) else "has died"
        for rank, state in states.items():
            lines[rank] = f"{lines[rank].partition('   ')[0]}   {state}"
        return "\n".join(lines[rank] for rank in ranks if rank < len(lines))


def why_no_prompt() -> str:
    """Why nobody can answer; "" if a person can."""
    shell = notebook_shell()
    if shell is not None:
        is_deaf = not getattr(shell.kernel, "_allow_stdin", True)
        return "this notebook runs without input, as under papermill or nbconvert" if is_deaf else ""
    try:
        return "" if sys.stdin is not None and os.isatty(sys.stdin.fileno()) else "stdin is not a terminal"
    except (OSError, ValueError):
        return "stdin is not a terminal"


def asked(prompt: str) -> str:
    """What the person types.

    Raises:
        KeyboardInterrupt: the person pressed the stop button or Ctrl+C, which a launch otherwise only notes.
        EOFError: there is no more input.
    """
    if threading.current_thread() is not threading.main_thread():
        return input(prompt)
    before = signal.getsignal(signal.SIGINT)

    def stop(number: int, frame: FrameType | None) -> None:
        signal.signal(signal.SIGINT, before)  # a second press must not interrupt what follows
        raise KeyboardInterrupt

    signal.signal(signal.SIGINT, stop)
    try:
        return input(prompt)
    finally:
        signal.signal(signal.SIGINT, before)
