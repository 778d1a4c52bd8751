"""Messages to read: a small program that goes wrong, its message, and the question which line is wrong.

They are in readings.json. Each message is exactly what `launch` says of the program: a test runs it and compares.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from ddp_lessons.check.report import Report

BEGIN = "Start with the message: which rank waits, on which line and for which rank, and what did that one do instead?"


@dataclass(frozen=True)
class Reading:
    program: str
    message: str
    wrong: tuple[int, ...]  # the wrong lines, counted from 1
    why: str
    hints: Mapping[int, str]  # about other lines


READINGS = tuple(
    Reading(
        program="\n".join(one["program"]),
        message="\n".join(one["message"]),
        wrong=tuple(one["wrong"]),
        why=one["why"],
        hints={int(line): hint for line, hint in one["hints"].items()},
    )
    for one in json.loads(Path(__file__).with_name("readings.json").read_text(encoding="utf-8"))
)


def reading(number: int, line: int | None = None) -> Report:
    """Show a program and its error message. With `line`, report whether the mistake is in that line of the program.

    Raises:
        ValueError: there is no reading with this number.
    """
    if type(number) is not int or not 1 <= number <= len(READINGS):
        raise ValueError(f"there is no reading {number!r}: choose a number from 1 to {len(READINGS)}")
    one, name = READINGS[number - 1], f"reading({number})"
    if line is None:
        return Report(name, False, "which line is wrong?", "", tuple(_question(one, number)))
    if line in one.wrong:
        return Report(name, True, "passed", f"Correct, line {line}. {one.why}")
    return Report(name, False, "not right yet", _hint(one, line))


def _question(one: Reading, number: int) -> list[str]:
    program = [f"    {place:>2}  {text}".rstrip() for place, text in enumerate(one.program.split("\n"), 1)]
    message = [f"    {text}" for text in one.message.split("\n")]
    asked = f"  Which line is wrong? Answer with check.reading({number}, line=...)."
    return [*program, "", "  The message:", *message, "", asked]


def _hint(one: Reading, line: object) -> str:
    lines = one.program.count("\n") + 1
    if not isinstance(line, int) or not 1 <= line <= lines:
        return f"The program has lines 1 to {lines}, so {line!r} is not one of them."
    return f"It isn't line {line}. {one.hints.get(line, BEGIN)}"
