"""The output of a rank, line by line: of a rank that prints in an endless loop, the first and last lines."""

from __future__ import annotations

import codecs
import re
from collections import deque

_TERMINAL_CODES = re.compile(
    r"\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)"  # titles and links
    r"|\x1b\[[0-9;?]*[ -/]*[@-~]"  # colors and movements
    r"|[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]"  # the last ones reverse the direction of text
)
_LINES_KEPT = 2_000  # at the beginning, and as many at the end
_LETTERS_KEPT = 2_000_000  # at the beginning
_LONGEST_LINE = 1_000_000  # the rest counts as a new line
_LONGEST_LAST_LINE = 10_000


class Transcript:
    """The lines of one rank, as they come."""

    def __init__(self) -> None:
        self.lines_seen = 0
        self.bytes_seen = 0
        self._head: list[str] = []
        self._room = _LETTERS_KEPT
        self._tail: deque[str] = deque(maxlen=_LINES_KEPT)
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        self._unfinished = ""
        self._is_finished = False

    def feed(self, data: bytes) -> None:
        if self._is_finished:
            return  # output of a thread that the function left behind
        self.bytes_seen += len(data)
        *complete, unfinished = (self._unfinished + self._decoder.decode(data)).split("\n")
        for line in complete:
            self._keep(line)
        self._unfinished = _as_seen(unfinished) + "\r" * unfinished.endswith("\r")
        if len(self._unfinished) > _LONGEST_LINE:
            self._keep(self._unfinished)
            self._unfinished = ""

    def finish(self) -> None:
        """No more output: the last line counts even without a line end."""
        self._is_finished = True
        if rest := self._unfinished + self._decoder.decode(b"", final=True):
            self._keep(rest)
        self._unfinished = ""

    def lines(self, first: int = _LINES_KEPT, last: int = _LINES_KEPT) -> tuple[str, ...]:
        """This many lines from the beginning and the end, with a note between them on what was left out."""
        rest = [_as_seen(self._unfinished)] if self._unfinished else []
        kept = [*self._head, *self._tail, *rest]
        left_out = self.lines_seen - len(self._head) - len(self._tail)
        if len(kept) <= first + last and not left_out:
            return tuple(kept)
        head = kept[: min(first, len(self._head))]
        tail = kept[max(len(head), len(kept) - last) :]
        return (*head, self._note(left_out + len(kept) - len(head) - len(tail)), *tail)

    def latest(self, already_shown: int) -> tuple[list[str], int]:
        """The lines that came after so many, and how many there are now."""
        new = self.lines_seen - already_shown
        kept = [*self._head, *self._tail][-new:] if new else []
        note = [self._note(new - len(kept))] if len(kept) < new else []
        return note + kept, self.lines_seen

    def _note(self, left_out: int) -> str:
        is_kept = self.lines_seen == len(self._head) + len(self._tail)
        return f"[... {left_out:,} lines left out{'; all of them are in results.lines' if is_kept else ''}]"

    def _keep(self, line: str) -> None:
        line = _as_seen(line)
        self.lines_seen += 1
        if len(self._head) < _LINES_KEPT and self._room > 0:
            self._head.append(line)
            self._room -= len(line)
        else:
            self._tail.append(without_middle(line, _LONGEST_LAST_LINE))


def without_terminal_codes(text: str) -> str:
    """Remove colors and cursor movements, which are meant for terminals."""
    return _TERMINAL_CODES.sub("", text)


def without_middle(text: str, longest: int) -> str:
    half = longest // 2
    if len(text) <= longest:
        return text
    return f"{text[:half]} [... {len(text) - 2 * half:,} characters left out] {text[-half:]}"


def _as_seen(line: str) -> str:
    """A progress bar overwrites its line: keep the last version."""
    return line.rstrip("\r").rpartition("\r")[2]
