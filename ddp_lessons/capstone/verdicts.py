"""What a part of a judgment says, with the sentences of verdicts.toml."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ddp_lessons.own_files import read_toml


@dataclass(frozen=True)
class Part:
    """The outcome of one part: what was seen, and what to do. `passed` is None where it waits for an answer."""

    passed: bool | None
    said: str
    advice: str = ""
    lines: tuple[str, ...] = ()  # more of what was seen
    picture: Any = None  # a figure, with `svg` and `alt`


class NotYet(Exception):
    """A part or a section fails."""

    def __init__(self, part: Part) -> None:
        super().__init__(part.said)
        self.part = part


def refuse(rows: Mapping[str, object], lines: Iterable[str] = (), picture: Any = None, **facts: object) -> None:
    """Fail with the first row that holds, if there is one."""
    for key, holds in rows.items():
        if holds:
            raise NotYet(part_of(key, False, lines, picture, **facts))


def part_of(key: str, passed: bool | None, lines: Iterable[str] = (), picture: Any = None, **facts: object) -> Part:
    row = table()[key]
    said, advice = (row["passed"], "") if passed else (row["said"], row["next"])
    return Part(passed, said.format(**facts), advice.format(**facts), tuple(lines), picture)


@functools.cache
def table() -> dict[str, dict[str, Any]]:
    return read_toml(Path(__file__).with_name("verdicts.toml"))
