"""Long lines, broken as ruff breaks them."""

from __future__ import annotations

from collections.abc import Sequence

WIDTH = 120


def call(head: str, arguments: Sequence[str], indent: int, tail: str = ")") -> list[str]:
    """`head` + arguments + `tail`: in one line, or with the arguments in one line, or with one line per argument."""
    space = " " * indent
    inner = ", ".join(arguments)
    if len(line := f"{space}{head}{inner}{tail}") <= WIDTH or not arguments:
        return [line]
    if len(line := f"{space}    {inner}") <= WIDTH:
        return [space + head, line, space + tail]
    return [space + head, *(f"{space}    {argument}," for argument in arguments), space + tail]
