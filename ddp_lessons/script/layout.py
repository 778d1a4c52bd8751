"""Long lines, broken as ruff breaks them."""

from __future__ import annotations

from collections.abc import Sequence

WIDTH = 120


def call(head: str, arguments: Sequence[str], indent: int, tail: str = ")") -> list[str]:
    """The lines of `head` + arguments + `tail`: in one line, else the arguments in one, else one line for each."""
    space = " " * indent
    inner = ", ".join(arguments)
    if len(line := f"{space}{head}{inner}{tail}") <= WIDTH or not arguments:
        return [line]
    if len(line := f"{space}    {inner}") <= WIDTH:
        return [space + head, line, space + tail]
    return [space + head, *(f"{space}    {argument}," for argument in arguments), space + tail]
