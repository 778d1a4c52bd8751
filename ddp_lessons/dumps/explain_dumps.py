"""Explain the dumps of a job: read them, find what is wrong, say it, and draw it if asked."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from ddp_lessons.dumps.dump_files import Unreadable
from ddp_lessons.dumps.dump_findings import Finding, Verdict, find_fault
from ddp_lessons.dumps.dump_report import STATUS, as_json, in_words
from ddp_lessons.dumps.left_behind import read_left_behind
from ddp_lessons.run.output.terminal_text import message_on_terminal

UNREADABLE = 2
_NEXT = (
    "pass the folder of the dumps, or the beginning of their names (what TORCH_NCCL_DEBUG_INFO_TEMP_FILE is set to)."
)


def explain_dumps(place: str, is_json: bool = False, timeline: str | None = None, trace: str | None = None) -> int:
    """Print what is wrong and return the exit status: 0 if nothing hangs, 1 for a hang, 2 if it cannot be told."""
    try:
        left = read_left_behind(place)
    except Unreadable as reason:
        message = f"no dump could be read: {reason}\n  Next: {_NEXT}"
        print(message_on_terminal(message, "wrong", sys.stderr), file=sys.stderr)
        return UNREADABLE
    finding = find_fault(left)
    if is_json:
        print(json.dumps(as_json(finding, left), indent=1))
    else:
        is_good = finding.verdict is Verdict.NOTHING
        print(message_on_terminal(in_words(finding, left), "passed" if is_good else "wrong", sys.stdout))
    try:
        _draw(finding, timeline, trace)
    except (OSError, ValueError) as reason:
        print(f"the picture or trace was not written: {reason}", file=sys.stderr)
        return UNREADABLE
    return STATUS[finding.verdict]


def _draw(finding: Finding, timeline: str | None, trace: str | None) -> None:
    if trace is not None:
        finding.events.to_chrome_trace(trace)
    if timeline is not None:
        from ddp_lessons.show.timelines.timeline_figure import timeline as draw

        draw(finding.events).save(Path(timeline))
