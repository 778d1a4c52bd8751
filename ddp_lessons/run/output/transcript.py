"""The output of a rank: its first and last lines in memory, and everything in a file once it is long.

A rank that prints in an endless loop must fill neither the notebook's memory nor the disk.
"""

from __future__ import annotations

import codecs
import contextlib
import os
import re
import shutil
from collections import deque
from typing import BinaryIO

_TERMINAL_CODES = re.compile(
    r"\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)"  # titles and links
    r"|\x1b\[[0-9;?]*[ -/]*[@-~]"  # colors and movements
    r"|[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]"  # the last ones reverse the direction of text
)
LINES_KEPT = 2_000  # at the beginning, and as many at the end
BYTES_KEPT = 1_000_000  # likewise
LONGEST_LINE = 1_000_000
DISK_LEFT_ALONE = 1_000_000_000
FILES_KEPT = 32  # files of long output: the newest, whose names are shown in the notebook
_files: deque[str] = deque()


class Transcript:
    """The lines of one rank, as they come."""

    def __init__(self, whole_output_file: str) -> None:
        self.lines_seen = 0
        self.bytes_seen = 0
        self._head: list[str] = []
        self._head_bytes = 0
        self._tail: deque[str] = deque()
        self._tail_bytes = 0
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        self._unfinished = ""
        self._raw = bytearray()  # everything, while it is short; later it goes into the file
        self._file_name = whole_output_file
        self._file: BinaryIO | None = None
        self._file_is_whole = True
        self._is_finished = False

    def feed(self, data: bytes) -> None:
        if self._is_finished:
            return  # output of a thread that the function left behind
        self.bytes_seen += len(data)
        if self._file is None:
            self._raw += data
        else:
            self._write(data)
        *complete, unfinished = (self._unfinished + self._decoder.decode(data)).split("\n")
        for line in complete:
            self._add(line)
        self._unfinished = _as_seen(unfinished) + "\r" * unfinished.endswith("\r")
        while len(self._unfinished) > LONGEST_LINE:
            self._keep(self._unfinished[:LONGEST_LINE])
            self._unfinished = self._unfinished[LONGEST_LINE:]
        if self._file is None and (self._left_out() or len(self._raw) > 2 * BYTES_KEPT):
            self._begin_file()

    def finish(self) -> None:
        """No more output: the last line counts even without a line end."""
        self._is_finished = True
        self._unfinished += self._decoder.decode(b"", final=True)
        if self._unfinished:
            self._add(self._unfinished)
            self._unfinished = ""
        if self._file is not None:
            self._file.close()

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
        if self._file is None:
            where = "all of them are in results.lines"
        elif self._file_is_whole:
            where = f"all of them are in {self._file_name}"
        else:
            where = f"those that fitted on the disk are in {self._file_name}"
        return f"[... {left_out:,} lines left out; {where}]"

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

    def _begin_file(self) -> None:
        try:
            self._file = open(self._file_name, "wb")  # noqa: SIM115  open as long as the rank prints
            _keep_newest(self._file_name)
        except OSError:
            self._file, self._file_is_whole = open(os.devnull, "wb"), False  # noqa: SIM115
        self._write(self._raw)
        self._raw.clear()

    def _write(self, data: bytes | bytearray) -> None:
        assert self._file is not None
        if not self._file_is_whole:
            return
        try:
            if shutil.disk_usage(os.path.dirname(self._file_name)).free < DISK_LEFT_ALONE:
                raise OSError("the disk is almost full")
            self._file.write(data)
        except OSError:
            self._file_is_whole = False


def _keep_newest(file: str) -> None:
    _files.append(file)
    while len(_files) > FILES_KEPT:
        with contextlib.suppress(OSError):
            os.unlink(_files.popleft())


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
