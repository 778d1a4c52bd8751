"""How messages name ranks, calls and lines of the learner."""

from __future__ import annotations

import linecache
import os
import re
import site
import stat
import sys
import sysconfig
from collections.abc import Mapping, Sequence

from ddp_lessons.own_files import PACKAGE
from ddp_lessons.record.event import Event
from ddp_lessons.record.line_names import is_cell, name_place
from ddp_lessons.record.rank_record import NEW_GROUPS
from ddp_lessons.run.output.transcript import without_middle
from ddp_lessons.run.wire.messages import Frame

DDP = "DistributedDataParallel"
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


def listed(ranks: Sequence[int]) -> str:
    """As in: 1; 0 and 2; 0, 1 and 3; 0 and 2 to 7."""
    runs: list[list[int]] = []
    for rank in ranks:
        if runs and rank == runs[-1][-1] + 1:
            runs[-1].append(rank)
        else:
            runs.append([rank])
    return joined([part for run in runs for part in ([f"{run[0]} to {run[-1]}"] if len(run) > 3 else run)])


def joined(parts: Sequence[object]) -> str:
    """As in: 1; 1 and 4; 1, 2 and 3."""
    *front, last = map(str, parts)
    return f"{', '.join(front)} and {last}" if front else last


def count(number: int, noun: str) -> str:
    """As in: 1 rank; 2,000 ranks."""
    return f"{number:,} {noun}{'s' * (number != 1)}"


def ranks_named(ranks: Sequence[int]) -> str:
    """As in: rank 1; ranks 0 and 2."""
    return f"{'rank' if len(ranks) == 1 else 'ranks'} {listed(ranks)}"


def told_by_rank(told: Mapping[int, str], between: str = ", ") -> str:
    """As in: rank 0 sum, ranks 1 and 2 max."""
    alike: dict[str, list[int]] = {}
    for rank, what in sorted(told.items()):
        alike.setdefault(what, []).append(rank)
    return between.join(f"{ranks_named(ranks)} {what}" for what, ranks in alike.items())


def name_of(event: Event) -> str:
    """The name that a learner knows it by."""
    return f"DDP's {event.operation}" if event.call == DDP else event.call


def called(event: Event) -> str:
    """As in: all_reduce of float32 [2]; send to rank 1; recv from any rank with tag 3."""
    tag = f" with tag {event.tag}" if event.tag else ""
    if event.operation in ("send", "recv"):
        name = f"the {event.operation} of a batch" if event.call == "batch_isend_irecv" else event.call
        other = "any rank" if event.peer is None else f"rank {event.peer}"
        return f"{name} {'to' if event.operation == 'send' else 'from'} {other}{tag}"
    brought = f" of {event.dtype} {list(event.shape)}" if event.dtype and "object" not in event.call else ""
    of_all = event.group.partition(",")[0] in ("", "0")  # torch calls the group of all ranks "0"
    is_part = not of_all and event.operation not in (*NEW_GROUPS, "init_process_group") and len(event.group_ranks) > 0
    return f"{name_of(event)}{brought}" + f" in the group of {ranks_named(event.group_ranks)}" * is_part


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
