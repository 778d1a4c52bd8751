"""In the notebook: the dialogue between a person and the ranks that stopped at a breakpoint.

A command goes to one rank, whose pdb carries it out. The commands about several ranks are carried out here.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from ddp_lessons.record.line_names import name_place
from ddp_lessons.run.debugging.keyboard import Interrupt, asked
from ddp_lessons.run.diagnosis.failures import with_names_of_cells
from ddp_lessons.run.diagnosis.source_lines import name_line
from ddp_lessons.run.diagnosis.wording import ranks_named
from ddp_lessons.run.launcher.follow import Ending
from ddp_lessons.run.launcher.patience import (
    SECONDS_FOR_OTHERS_TO_STOP,
    SECONDS_TO_ANSWER_THE_PROMPT,
    SECONDS_TO_STOP_AGAIN,
)
from ddp_lessons.run.launcher.rank_states import Died
from ddp_lessons.run.output.transcript import without_middle
from ddp_lessons.run.wire.messages import (
    AtPrompt,
    Command,
    Evaluate,
    Evaluated,
    Halt,
    QuitDebugger,
    Raised,
    RunsOn,
    ToDebugger,
)

_TICK_SECONDS = 0.02
_LONGEST_VALUE = 4_000  # characters
_ANOTHER_RANK = re.compile(r"rank (\d+)")
_ALL = re.compile(r"(\w+)\s+all(\s.*)?")
_STEPS = ("n", "next", "s", "step", "r", "return", "c", "cont", "continue")
_PENDING = "It stops as soon as it gets to another line. `where all` and `print all x` also ask a rank that waits."
_HELP = """\
rank 1        talk to rank 1; if it runs, it stops at its next line
where all     the line and call of every rank
print all x   the value of x on every rank
next all      `next` on every rank that is stopped; also step, return and continue
go            let all ranks run to the end, past further breakpoints
quit          end the call on all ranks
All other commands are those of pdb, for one rank:
"""


@dataclass
class Dialogue:
    """Pass it what the ranks report, and give it a `turn()` often."""

    world_size: int
    say: Callable[[int, ToDebugger], None]
    listen: Callable[[float], object]  # read messages for so long; they arrive in `heard`
    is_running: Callable[[int], bool]  # its function has not ended
    is_held: Callable[[int], bool]  # it waits for other ranks
    where_each_is: Callable[[], Sequence[str]]
    ended: Mapping[int, Raised | Died]
    _at_prompt: dict[int, AtPrompt] = field(default_factory=dict)
    _answering: set[int] = field(default_factory=set)  # ranks that got a command, and still carry it out
    _expected: dict[int, float] = field(default_factory=dict)  # until when to wait for a rank that runs on
    _news: dict[int, str] = field(default_factory=dict)  # what ranks wrote, not shown yet
    _told: set[int] = field(default_factory=set)  # whose end was reported
    _values: dict[int, Evaluated] = field(default_factory=dict)
    _questions: int = 0
    _current: int | None = None
    _not_before: float = 0.0
    _lets_go: bool = False
    _ending: Ending | None = None

    def heard(self, rank: int, message: object) -> None:
        if isinstance(message, AtPrompt):
            if self._lets_go:
                self.say(rank, Command("continue"))
                return
            if rank in self._expected or not self.is_open:
                self._not_before = time.monotonic() + SECONDS_FOR_OTHERS_TO_STOP
            self._at_prompt[rank], self._news[rank] = message, message.text
            self._answering.discard(rank)
            self._expected.pop(rank, None)
        elif isinstance(message, RunsOn) and rank in self._answering:
            self._answering.discard(rank)
            self._expected[rank] = time.monotonic() + SECONDS_TO_STOP_AGAIN
        elif isinstance(message, QuitDebugger):
            self._ending = Ending.QUIT
        elif isinstance(message, Evaluated) and message.number == self._questions:
            self._values[rank] = message

    @property
    def is_open(self) -> bool:
        """A person thinks about a rank, so the call cannot end by itself."""
        return any(map(self.is_running, self._at_prompt)) or any(map(self._is_busy, self._answering))

    def turn(self) -> Ending | None:
        """Ask for a command, if it is time to. Not None: that ended the call."""
        if self._ending is None and self._is_due():
            self._show_news()
            self._ask()
        return self._ending

    def _is_due(self) -> bool:
        now = time.monotonic()
        self._at_prompt = {rank: at for rank, at in self._at_prompt.items() if self.is_running(rank)}
        if not self._at_prompt or now < self._not_before or any(map(self._is_busy, self._answering)):
            return False
        return not any(self._is_busy(rank) and now < until for rank, until in self._expected.items())

    def _is_busy(self, rank: int) -> bool:
        return self.is_running(rank) and not self.is_held(rank)

    def _show_news(self) -> None:
        before = self._current
        if self._current not in self._at_prompt:
            self._current = min(self._at_prompt)
        for rank in sorted(self.ended.keys() - self._told):
            self._told.add(rank)
            how = self.ended[rank]
            print(f"rank {rank} {f'raised {how.kind}: {how.message}' if isinstance(how, Raised) else 'died'}")
        missing = sorted(filter(self.is_running, {*self._expected, *self._answering}))
        if missing:
            print(self._where(missing))
        self._expected.clear()
        for ranks, text in self._news_by_text():
            if ranks != [self._current] or before != self._current:
                print(f"{ranks_named(ranks)}:")
            print(with_names_of_cells(text), end="")
        self._news.clear()

    def _news_by_text(self) -> list[tuple[list[int], str]]:
        """What ranks wrote, with the ranks that wrote the same; that of the current rank comes last."""
        by_text: dict[str, list[int]] = {}
        for rank, text in sorted(self._news.items()):
            if text:
                by_text.setdefault(text, []).append(rank)
        return sorted(((ranks, text) for text, ranks in by_text.items()), key=lambda each: self._current in each[0])

    def _ask(self) -> None:
        assert self._current is not None
        current, at = self._current, self._at_prompt[self._current].frame
        prompt = f"rank {current} of {self.world_size}, {name_place(at.file, at.line)}> "
        try:
            line = asked(prompt, self.listen, lambda: not self.is_running(current)).strip()
        except Interrupt:
            self._ending = Ending.INTERRUPTED
        except EOFError:
            self._ending = Ending.QUIT
        else:
            if self.is_running(current):
                self._carry_out(line, current)

    def _carry_out(self, line: str, current: int) -> None:
        about_all, another = _ALL.fullmatch(line), _ANOTHER_RANK.fullmatch(line)
        if another:
            self._turn_to(int(another[1]))
        elif about_all and about_all[1] in ("where", "w", "bt"):
            print(self._where(range(self.world_size)))
        elif about_all and about_all[1] in ("print", "p", "pp"):
            self._print_of_all((about_all[2] or "").strip())
        elif about_all and about_all[1] in _STEPS:
            self._command(sorted(self._at_prompt), about_all[1])
        elif line == "go":
            self._lets_go = True
            self._command(sorted(self._at_prompt), "continue")
        else:
            if line in ("h", "help", "?"):
                print(_HELP, end="")
            self._command([current], line)

    def _command(self, ranks: Sequence[int], text: str) -> None:
        for rank in ranks:
            del self._at_prompt[rank]
            self._answering.add(rank)
            self.say(rank, Command(text))

    def _turn_to(self, rank: int) -> None:
        if rank >= self.world_size:
            print(f"there is no rank {rank} in a world of {self.world_size}")
        elif rank in self._at_prompt:
            self._current = rank
        elif not self.is_running(rank):
            print(self._where([rank]))
        else:
            self.say(rank, Halt())
            self._wait_until(lambda: rank in self._at_prompt or not self.is_running(rank) or self.is_held(rank))
            if rank in self._at_prompt:
                self._current = rank
            else:
                print(f"{self._where([rank])}\n{_PENDING}")

    def _where(self, ranks: Sequence[int]) -> str:
        lines = [line.strip() for line in self.where_each_is()]
        for rank, at in self._at_prompt.items():
            lines[rank] = f"{lines[rank].partition('   ')[0]}   stopped at {name_line(at.frame)}"
        return "\n".join(lines[rank] for rank in ranks)

    def _print_of_all(self, expression: str) -> None:
        if not expression:
            print("write print all x, for the value of x on every rank")
            return
        self._questions += 1
        self._values = {}
        ranks = list(filter(self.is_running, range(self.world_size)))
        for rank in ranks:
            self.say(rank, Evaluate(expression, self._questions))
        self._wait_until(lambda: all(rank in self._values or not self.is_running(rank) for rank in ranks))
        for rank in range(self.world_size):
            text = self._values[rank].text if rank in self._values else "no answer" if rank in ranks else "has ended"
            print(*(f"rank {rank} | {line}" for line in without_middle(text, _LONGEST_VALUE).split("\n")), sep="\n")

    def _wait_until(self, claim: Callable[[], bool]) -> None:
        end = time.monotonic() + SECONDS_TO_ANSWER_THE_PROMPT
        while not claim() and time.monotonic() < end:
            self.listen(_TICK_SECONDS)
