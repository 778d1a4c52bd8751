"""What a check says: passed, not started, or what is wrong; yours beside the expected, and the traffic."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ddp_lessons.run.output.transcript import without_middle

_LONGEST_MISTAKE, _LONGEST_LINE, _MOST_LINES = 600, 200, 40  # an error of the learner's may have a message of megabytes
Rows = Sequence[Sequence[str]]


@dataclass(frozen=True, repr=False)
class Report:
    """The outcome of a check. It shows itself as the last line of a cell.

    `passed` is its claim, `mistake` names in one sentence what is likely wrong, "" if nothing is.
    """

    exercise: str
    passed: bool
    verdict: str  # "passed", "not started yet", "not right yet"
    mistake: str = ""
    details: tuple[str, ...] = ()

    @property
    def is_a_try(self) -> bool:
        """Something was written, and judged."""
        return self.passed or self.verdict == "not right yet"

    @property
    def text(self) -> str:
        mistake = [f"  {self.mistake}"] if self.mistake else []
        return "\n".join([f"check.{self.exercise}: {self.verdict}", *mistake, *self.details])

    def __repr__(self) -> str:
        return self.text


def not_started(exercise: str) -> Report:
    return Report(exercise, False, "not started yet")


def not_right(exercise: str, mistake: str, details: Sequence[str] = ()) -> Report:
    lines = [without_middle(line, _LONGEST_LINE) for line in details[:_MOST_LINES]]
    if len(details) > _MOST_LINES:
        lines.append(f"    [... {len(details) - _MOST_LINES:,} lines left out]")
    return Report(exercise, False, "not right yet", without_middle(mistake, _LONGEST_MISTAKE), tuple(lines))


def table(rows: Rows) -> list[str]:
    """Columns of text, the first one to the left, numbers and words below each other."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = []
    for first, *others in rows:
        cells = [other.rjust(width) for other, width in zip(others, widths[1:], strict=True)]
        lines.append("    " + "   ".join([first.ljust(widths[0]), *cells]).rstrip())
    return lines
