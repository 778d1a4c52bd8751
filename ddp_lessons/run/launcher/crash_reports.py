"""Where a rank was when it crashed or received our signal, from the output of Python's faulthandler."""

from __future__ import annotations

import linecache
import re

from ddp_lessons.run.wire.messages import Frame

_CRASH_LINE = re.compile(r'^  File "(.*)", line (\d+) in (.*)$', re.M)


def has_aborted(file: str) -> bool:
    """Did this process abort? A process killed in another way writes nothing, or something else."""
    try:
        with open(file, "rb") as written:
            return written.read(40).startswith(b"Fatal Python error: Aborted")
    except OSError:
        return False


def frames_of_crash(file: str) -> tuple[Frame, ...]:
    """The stack that faulthandler wrote, outermost frame first."""
    try:
        with open(file, encoding="ascii", errors="backslashreplace") as written:
            text = written.read()
    except OSError:
        return ()
    headed = re.split(r"^(.*) \(most recent call first\):\n", text, flags=re.M)[1:]
    stacks = list(zip(headed[::2], headed[1::2], strict=True))
    # the thread that crashed; if it was one of gloo's, the main thread, which comes last
    stack = next(
        (stack for head, stack in stacks if head.startswith("Current thread")), stacks[-1][1] if stacks else ""
    )
    frames = [_frame(_unescaped(file), int(line), function) for file, line, function in _CRASH_LINE.findall(stack)]
    if frames and frames[-1].file == "<string>":  # the command that started this process
        frames.pop()
    return tuple(reversed(frames))


def _frame(file: str, line: int, function: str) -> Frame:
    return Frame(file, line, function, linecache.getline(file, line).strip())


def _unescaped(name: str) -> str:
    return name.encode("ascii", "backslashreplace").decode("unicode_escape") if "\\" in name else name
