"""Lines of a report's tables that remember their cells."""

from __future__ import annotations

from collections.abc import Sequence

Rows = Sequence[Sequence[str]]


class Row(str):
    """A line of a table: aligned text, and its cells."""

    cells: tuple[str, ...]
    is_head: bool

    @classmethod
    def of(cls, cells: Sequence[str], widths: Sequence[int], is_head: bool) -> Row:
        first, *others = cells
        padded = [other.rjust(width) for other, width in zip(others, widths[1:], strict=True)]
        row = cls("    " + "   ".join([first.ljust(widths[0]), *padded]).rstrip())
        row.cells, row.is_head = tuple(cells), is_head
        return row


def table(rows: Rows) -> list[str]:
    """Aligned columns with a head: the first one left-aligned, the others right-aligned."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return [Row.of(row, widths, is_head=place == 0) for place, row in enumerate(rows)]
