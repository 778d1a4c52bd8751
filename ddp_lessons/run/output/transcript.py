"""The output of a rank: its first and last lines. One that prints in an endless loop must not fill the memory."""

from __future__ import annotations

import codecs
import re
from collections import deque

_TERMINAL_CODES = re.compile(
    r"\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)"  # titles and links
    r"|\x1b\[[0-9;?]*[ -/]*[@-~]"  # colors and movements
    r"|[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]"  # the last ones reverse the direction of text
)
LINES_KEPT = 2_000  # at the beginning, and as many at the end
BYTES_KEPT = 1_000_000  # likewise
LONGEST_LINE = 1_000_000


class Transcript:
    """The lines of one rank, as they come."""

    def __init__(self) -> None:
        self.lines_seen = 0
        self.bytes_seen = 0
        self._head: list[str] = []
        self._head_bytes = 0
        self._tail: deque[str] = deque()
        self._tail_bytes = 0
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        self._unfinished = ""
        self._is_finished = False

    def feed(self, data: bytes) -> None:
        if self._is_finished:
            return  # output of a thread that the function left behind
        self.bytes_seen += len(data)
        *complete, unfinished = (self._unfinished + self._decoder.decode(data)).split("\n")
        for line in complete:
            self._add(line)
        self._unfinished = _as_seen(unfinished) + "\r" * unfinished.endswith("\r")
        while len(self._unfinished) > LONGEST_LINE:
            self._keep(self._unfinished[:LONGEST_LINE])
            self._unfinished = self._unfinished[LONGEST_LINE:]

    def finish(self) -> None:
        """No more output: the last line counts even without a line end."""
        self._is_finished = True
        self._unfinished += self._decoder.decode(b"", final=True)
        if self._unfinished:
            self._add(self._unfinished)
            self._unfinished = ""

    def lines(self) -> tuple[str, ...]:
        return self.shortened(len(self._head), len(self._tail))

    def latest(self, already_shown: int) -> tuple[list[str], int]:
        """The lines that came after so many, and how many there are now. What came too fast is left out, and said."""
        new = self.lines_seen - already_shown
        kept = [*self._head, *self._tail][-new:] if new else []
        if len(kept) < new:
            kept.insert(0, self._note(new - len(kept)))
        return kept, self.lines_seen

    def shortened(self, first: int, last: int) -> tuple[str, ...]:
        """This many lines from the beginning and the end, with a note between them on what was left out."""
        kept = [*self._head, *self._tail]
        if self._unfinished:
            kept.append(_as_seen(self._unfinished))
        if len(kept) <= first + last and not self._left_out():
            return tuple(kept)
        head, tail = kept[: min(first, len(self._head))], kept[-last:] if last else []
        left_out = self.lines_seen + bool(self._unfinished) - len(head) - len(tail)
        return (*head, self._note(left_out), *tail) if left_out > 0 else tuple(kept)

    def _left_out(self) -> int:
        return self.lines_seen - len(self._head) - len(self._tail)

    def _note(self, left_out: int) -> str:
        where = "" if self._left_out() else "; all of them are in results.lines"
        return f"[... {left_out:,} lines left out{where}]"

    def _add(self, line: str) -> None:
        line = _as_seen(line)
        while len(line) > LONGEST_LINE:
            self._keep(line[:LONGEST_LINE])
            line = line[LONGEST_LINE:]
        self._keep(line)

    def _keep(self, line: str) -> None:
        self.lines_seen += 1
        if not self._tail and len(self._head) < LINES_KEPT and self._head_bytes < BYTES_KEPT:
            self._head.append(line)
            self._head_bytes += len(line)
            return
        self._tail.append(line)
        self._tail_bytes += len(line)
        while len(self._tail) > LINES_KEPT or self._tail_bytes > BYTES_KEPT:
            self._tail_bytes -= len(self._tail.popleft())


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
