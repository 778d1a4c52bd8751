"""Plain-text tables, and targets."""

from collections.abc import Sequence
from dataclasses import dataclass

_DIGITS = {"s": ".3f", "x": ".3f", "MB": ".1f", "GiB": ".1f", "%": ".2f", "us": ".1f", "": ".0f"}


@dataclass(frozen=True)
class Target:
    """A number and its limit: the maximum, or the minimum if the claim ends with "at least"."""

    claim: str
    measured: float | None
    limit: float | None
    unit: str = "s"

    @property
    def is_met(self) -> bool | None:
        if self.measured is None or self.limit is None:
            return None
        return self.measured >= self.limit if self.claim.endswith("at least") else self.measured <= self.limit

    def row(self) -> tuple[str, str, str, str]:
        words = {True: "met", False: "NOT MET", None: "not measured"}
        return self.claim, self._in_unit(self.measured), self._in_unit(self.limit), words[self.is_met]

    def _in_unit(self, number: float | None) -> str:
        return "-" if number is None else f"{number:{_DIGITS[self.unit]}} {self.unit}".rstrip()


def print_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a table with a left-aligned first column and right-aligned others, which are mostly numbers."""
    widths = [max(map(len, column)) for column in zip(header, *rows, strict=True)]
    for first, *rest in (header, ["-" * width for width in widths], *rows):
        numbers = (cell.rjust(width) for cell, width in zip(rest, widths[1:], strict=True))
        print("  ".join([first.ljust(widths[0]), *numbers]).rstrip())
    print(flush=True)
