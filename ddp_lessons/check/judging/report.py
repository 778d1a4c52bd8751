"""The report of a check: passed, not started, or what is wrong, with yours next to expected, and the traffic."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ddp_lessons.check.judging.report_card import as_card, kind_of
from ddp_lessons.run.output.terminal_text import message_on_terminal
from ddp_lessons.run.output.transcript import without_middle

_LONGEST_MISTAKE, _LONGEST_LINE, _MOST_LINES = 600, 200, 40  # a learner's exception may have a message of megabytes


@dataclass(frozen=True, repr=False)
class Report:
    """The outcome of a check. It displays itself as the last line of a cell.

    `passed` says whether it is right; `mistake` names the likely mistake, or is "".
    """

    exercise: str
    passed: bool
    verdict: str  # "passed", "not started yet", "not right yet"
    mistake: str = ""
    details: tuple[str, ...] = ()
    next_step: str = ""  # where to go once it is passed, or where to look when you are stuck

    @property
    def is_a_try(self) -> bool:
        """Something was written and judged."""
        return self.passed or self.verdict == "not right yet"

    @property
    def text(self) -> str:
        around = [[f"  {sentence}"] if sentence else [] for sentence in (self.mistake, self.next_step)]
        return "\n".join([f"check.{self.exercise}: {self.verdict}", *around[0], *self.details, *around[1]])

    def _repr_html_(self) -> str:
        return as_card(self.exercise, self.verdict, self.mistake, self.details, self.next_step)

    def __repr__(self) -> str:
        """Colored on a terminal; `text` is plain everywhere."""
        return message_on_terminal(self.text, kind_of(self.verdict))


def not_started(exercise: str) -> Report:
    return Report(exercise, False, "not started yet")


def check_failed(exercise: str, traceback: str) -> Report:
    lines = [without_middle(f"    {line}", _LONGEST_LINE) for line in traceback.rstrip().split("\n")]
    mistake = "The check itself failed. This is a defect of ddp_lessons, not a mistake in your code."
    step = "  Next: show this traceback to your instructor, or report it to the authors of the course."
    return Report(exercise, False, "could not judge", mistake, (*lines[-_MOST_LINES:], step))


def not_right(exercise: str, mistake: str, details: Sequence[str] = ()) -> Report:
    lines = [without_middle(line, _LONGEST_LINE) for line in details[:_MOST_LINES]]
    if len(details) > _MOST_LINES:
        lines.append(f"    [... {len(details) - _MOST_LINES:,} lines left out]")
    return Report(exercise, False, "not right yet", without_middle(mistake, _LONGEST_MISTAKE), tuple(lines))
