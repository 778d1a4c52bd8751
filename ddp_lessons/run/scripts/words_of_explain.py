"""The messages of `launch` as `explain` prints them: about a script, for a person at a terminal."""

from __future__ import annotations

import re

from ddp_lessons.run.diagnosis import torchs_words
from ddp_lessons.run.diagnosis.failure_messages import LOST_CONNECTION
from ddp_lessons.run.diagnosis.failures import WorkerFailed, WorkersStuck

_INSTEAD = (
    (r"`error\.traceback\(\d+\)` shows the full stack", "the full stack is above"),
    (r"launch\(\.\.\., timeout_seconds=(.+?)\)", r"--timeout \1"),
    (
        r"let the function return instead; launch ends the rank's process",
        "find out what ends it: os._exit(), or a signal",
    ),
    (r"remove init_process_group, since .* join=False\)", "call init_process_group only once"),
    (r"pass the data as an argument of launch, or use", "use"),
    (r"as an argument of launch", "as an argument of the script"),
    (r"in the function that you launch", "in the script"),
    (r"^\[Errno \d+\] ", ""),
    (r"\bthis notebook\b", "this machine"),
    (r"\b(then )?launch again\b", r"\1run it again"),
    (r"\blaunch fewer ranks\b", "start fewer ranks"),
)


def in_a_terminal(message: str) -> str:
    message = torchs_words.under_explain(message)
    for pattern, words in _INSTEAD:
        message = re.sub(pattern, words, message)
    return message


def told(failure: WorkerFailed | WorkersStuck) -> str:
    """Also the full stack of an exception, which a script's own start would show."""
    text = in_a_terminal(str(failure))
    stack = f"{failure.traceback(failure.rank)}\n" if failure.is_exception and LOST_CONNECTION not in text else ""
    return f"{stack}{type(failure).__name__}: {text}"
