"""The content of a slide: blocks with known heights, stacked until a slide is full.

A slide is a page of 1280 x 720 pixels that never scrolls. Text is at least 24 pixels high. Code and its output are too,
or 20 pixels if they don't fit. What is still too long continues on the next slide, split where a function or at least a
block ends.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

WIDTH, ROOM = 1152, 628  # within the margins: a title, and the blocks below it
TITLE, TITLE_LETTERS, BELOW_TITLE = 46, 46, 18
SIZES = (24, 20)  # of code and its output
GAP = 16  # below a block
LINE, LETTERS = 34, 78  # of text
FRAME = 26  # around code
LEAST_PICTURE = 380
LONGEST_LEAD = 320  # characters


@dataclass(frozen=True)
class Block:
    """`kind` is lead, point, choice, table, code, output or picture; a picture takes the remaining space."""

    kind: str
    text: str
    size: int = SIZES[0]
    is_shown_later: bool = False  # appears with the next key, so that a room can predict it

    @property
    def height(self) -> int:
        if self.kind == "picture":
            return LEAST_PICTURE
        if self.kind in ("code", "output"):
            return FRAME + GAP + round(1.3 * self.size * rows(self.text, columns(self.size)))
        if self.kind == "table":
            return GAP + sum(8 + LINE * lines_of_row(row) for row in self.text.splitlines() if set(row) - set("|-: "))
        return GAP // (2 if self.kind in ("point", "choice") else 1) + LINE * rows(self.text, LETTERS)

    @property
    def broken_lines(self) -> int:
        """The number of extra lines from wrapping."""
        return sum(len(line) > columns(self.size) for line in self.text.splitlines())


@dataclass
class Slide:
    title: str
    blocks: list[Block] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def room(self) -> int:
        lines = -(-len(self.title) // TITLE_LETTERS)
        return ROOM - TITLE * lines - BELOW_TITLE - sum(block.height for block in self.blocks)

    def is_full_for(self, block: Block) -> bool:
        has_picture = bool(self.blocks) and self.blocks[-1].kind == "picture"
        return has_picture or (bool(self.blocks) and replace(block, size=SIZES[1]).height > self.room)


def columns(size: int) -> int:
    """Characters in a line of code."""
    return int((WIDTH - FRAME) / (0.605 * size))


def rows(text: str, letters: int) -> int:
    """Rows of text, including wrapped lines."""
    return sum(max(1, -(-len(line) // letters)) for line in text.rstrip().splitlines())


def lines_of_row(row: str) -> int:
    """The lines of a table row with equally wide columns."""
    cells = row.strip("| ").split("|")
    return max(rows(cell.strip() or "-", LETTERS // len(cells) - 3) for cell in cells)


def lay_out(title: str, blocks: Sequence[Block], notes: Sequence[str]) -> list[Slide]:
    """The blocks on as few slides as possible. A picture is the last on its slide. The first slide has the notes."""
    slides = [Slide(title, notes=list(notes))]
    for block in blocks:
        for part in parts(block, Slide(title).room):
            if slides[-1].is_full_for(part):
                slides.append(Slide(title))
            is_too_high = part.height > slides[-1].room
            slides[-1].blocks.append(replace(part, size=SIZES[1]) if is_too_high else part)
    return slides


def parts(block: Block, room: int) -> Iterator[Block]:
    """The block itself; code that is too long for one slide is split."""
    if block.kind not in ("code", "output"):
        yield block
        return
    sized = [replace(block, size=size) for size in SIZES]
    fits = [one for one in sized if one.height <= room]
    if fits:
        yield min(fits, key=lambda one: one.broken_lines)
        return
    lines = block.text.splitlines()
    first = cut_at(lines, room, block)
    yield replace(block, text="\n".join(lines[:first]).rstrip(), size=SIZES[1])
    yield from parts(replace(block, text="\n".join(lines[first:]).strip("\n")), room)


def cut_at(lines: Sequence[str], room: int, block: Block) -> int:
    """After how many lines to split: as late as possible, before a line with little indentation."""
    fits = max((end for end in range(1, len(lines)) if height_of(lines[:end], block) <= room), default=1)
    return min(range(fits, max(fits // 2, 1) - 1, -1), key=lambda end: depth(lines, end))


def height_of(lines: Sequence[str], block: Block) -> int:
    return replace(block, text="\n".join(lines), size=SIZES[1]).height


def depth(lines: Sequence[str], end: int) -> tuple[int, bool]:
    """The indentation of the next slide's first line, and whether the line before it is not empty."""
    line = lines[end]
    indent = len(line) - len(line.lstrip()) if line.strip() else 99
    return indent, bool(lines[end - 1].strip())
