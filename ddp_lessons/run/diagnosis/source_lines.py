"""Where something happened: the line of the learner's cell or file."""

from __future__ import annotations

import linecache
import os
import re
import site
import stat
import sys
import sysconfig
from collections.abc import Sequence

from ddp_lessons.own_files import PACKAGE
from ddp_lessons.record.line_names import is_cell, name_place
from ddp_lessons.run.output.transcript import without_middle
from ddp_lessons.run.wire.messages import Frame

# torch may be in the user's site-packages, or in another Python's: then only sys.path names its folder
_OF_PACKAGES = [path for path in sys.path if os.path.basename(path) in ("site-packages", "dist-packages")]
_NOT_LEARNERS = tuple(
    os.path.abspath(folder) + os.sep
    for folder in {
        *(PACKAGE, sysconfig.get_path("stdlib"), sysconfig.get_path("purelib")),
        *(*site.getsitepackages(), *_OF_PACKAGES),
    }
)

_INSTALLED_ANYWHERE = re.compile(r"/(site|dist)-packages/|/lib/python3\.\d+/")  # the Python of a node may be elsewhere


_LARGEST_SOURCE = 4_000_000  # bytes


def learners_frame(frames: Sequence[Frame]) -> Frame | None:
    """The innermost line that the learner wrote."""
    own = _learners_frames(frames)
    return own[-1] if own else None


def called_from(frames: Sequence[Frame]) -> str:
    """The learner's calls that led to the innermost line, at most two: "" if there are none."""
    callers = _learners_frames(frames)[-2:-4:-1]
    return ", from ".join(f"{name_place(frame.file, frame.line)} in {frame.function}" for frame in callers)


def _learners_frames(frames: Sequence[Frame]) -> list[Frame]:
    own = [frame for frame in frames if not frame.file.startswith((*_NOT_LEARNERS, "<frozen"))]
    own = [frame for frame in own if not _INSTALLED_ANYWHERE.search(frame.file)]
    written = [frame for frame in own if not frame.file.startswith("<") or is_cell(frame.file)]  # not made by exec
    return written or own


def name_line(frame: Frame) -> str:
    return f"{name_place(frame.file, frame.line)}:   {without_middle(frame.text.strip(), 200)}".rstrip(": ")


def lines_of(file: str) -> list[str]:
    """The lines of a cell or of an ordinary file: a dump may name a device or a pipe, which never ends."""
    try:
        about = os.stat(file)
        is_ordinary = stat.S_ISREG(about.st_mode) and about.st_size <= _LARGEST_SOURCE
    except (OSError, ValueError):
        is_ordinary = False
    return linecache.getlines(file) if is_ordinary or file in linecache.cache else []
