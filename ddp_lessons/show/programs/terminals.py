"""What a program printed: times, names of machines and process numbers, which differ from run to run."""

from __future__ import annotations

from collections.abc import Sequence

from ddp_lessons.show.page.printed import Printed, caption, lines_as_html, shortened

MOST_LINES, MOST_LETTERS = 40, 500
TEXT = "What was printed."


def terminal(printed: str | Sequence[str], title: str = TEXT) -> Printed:
    """Show the lines that a program printed; of very many, the first and the last.

    Args:
        printed: a text, or its lines.
        title: what is stored as text, too, and so has to be the same in every run.
    """
    lines = [_fitted(line) for line in _in_the_middle_cut(_lines(printed))]
    return Printed(f"{caption(title)}\n{lines_as_html(lines)}", title, title)


def _lines(printed: str | Sequence[str]) -> list[str]:
    if isinstance(printed, str):
        printed = printed.splitlines()
    return [str(line).expandtabs(4).rstrip() for line in printed] or ["(nothing)"]


def _in_the_middle_cut(lines: Sequence[str]) -> list[str]:
    left_out = len(lines) - MOST_LINES
    if left_out <= 0:
        return list(lines)
    half = MOST_LINES // 2
    return [*lines[:half], f"... {left_out:,} lines ...", *lines[-half:]]


def _fitted(line: str) -> str:
    return shortened("".join(letter if letter.isprintable() else " " for letter in line), MOST_LETTERS)
