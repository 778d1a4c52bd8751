"""The causes by their keys, with the sentences of causes.toml."""

from __future__ import annotations

import functools
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from ddp_lessons.own_files import read_toml
from ddp_lessons.run.diagnosis.wording import count, joined


@dataclass(frozen=True)
class Finding:
    """A cause that the numbers fit: a short key, a sentence or two, and what to do."""

    key: str
    because: str
    advice: str


def finding(key: str, **facts: object) -> Finding:
    row = _table()[key]
    return Finding(key, row["because"].format(**facts), row["next"].format(**facts))


@functools.cache
def _table() -> dict[str, dict[str, str]]:
    return read_toml(Path(__file__).with_name("causes.toml"))


def names_of(parameters: Iterable[str]) -> str:
    items = [f"`{name}`" for name in sorted(parameters)]
    return joined(items if len(items) <= 3 else [*items[:3], count(len(items) - 3, "more parameter")])
