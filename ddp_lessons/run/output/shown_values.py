"""What the ranks display for the last line of a cell, as one output with a block per rank."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from typing import TypeAlias

from ddp_lessons.run.output.screen import block, preformatted
from ddp_lessons.run.output.transcript import without_middle

Shown: TypeAlias = Mapping[str, str]  # by MIME type
_MOST_LETTERS = 20_000


def bundle_of(shown_by_rank: Sequence[Sequence[Shown]]) -> dict[str, str]:
    """The same content as HTML and as plain text; nothing if no rank displays anything."""
    plain, blocks = [], []
    for rank, shown in enumerate(shown_by_rank):
        for one in shown:
            text = without_middle(one["text/plain"], _MOST_LETTERS)
            plain += [f"rank {rank} | {line}" for line in text.split("\n")]
            blocks.append(block(rank, _as_html(one, text)))
    return {"text/plain": "\n".join(plain), "text/html": "\n".join(blocks)} if plain else {}


def _as_html(shown: Shown, text: str) -> str:
    """The richest form that HTML can contain."""
    if "text/html" in shown:
        return f'<div style="overflow-x:auto">{shown["text/html"]}</div>'
    if "image/svg+xml" in shown:
        return shown["image/svg+xml"]
    if "image/png" in shown:
        name = html.escape(text, quote=True)
        return f'<img alt="{name}" style="max-width:100%" src="data:image/png;base64,{shown["image/png"]}">'
    return preformatted(text)
