"""Plain-text tables that can be pasted into a README."""

from collections.abc import Sequence

from .measurement import Target

Row = Sequence[str]


def plain_table(header: Row, rows: Sequence[Row]) -> str:
    """Columns aligned by spaces: the first one left-aligned, numbers right-aligned."""
    widths = [max(len(cell) for cell in column) for column in zip(header, *rows, strict=True)]
    lines = [header, ["-" * width for width in widths], *rows]
    return "\n".join(aligned(line, widths, "  ") for line in lines)


def markdown_table(header: Row, rows: Sequence[Row]) -> str:
    """The same as a Markdown table, with aligned source."""
    widths = [max(3, *(len(cell) for cell in column)) for column in zip(header, *rows, strict=True)]
    rule = ["-" * widths[0], *("-" * (width - 1) + ":" for width in widths[1:])]
    return "\n".join(f"| {aligned(line, widths, ' | ')} |" for line in [header, rule, *rows])


def aligned(line: Row, widths: Sequence[int], gap: str) -> str:
    first, *rest = line
    cells = [first.ljust(widths[0])] + [cell.rjust(width) for cell, width in zip(rest, widths[1:], strict=True)]
    return gap.join(cells)


def table(header: Row, rows: Sequence[Row], markdown: bool) -> str:
    return markdown_table(header, rows) if markdown else plain_table(header, rows)


def target_table(targets: Sequence[Target], markdown: bool) -> str:
    """One line for each promise: met or not."""
    words = {True: "met", False: "NOT MET", None: "not measured"}
    rows = [(target.promise, target.measured, target.limit, words[target.met]) for target in targets]
    return table(("target", "measured", "at most", ""), rows, markdown)
