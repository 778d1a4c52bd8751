"""The result of a measurement: numbers, or one word that says why there are none."""

from dataclasses import dataclass, field
from statistics import median

HANG = "hang"
NOT_INSTALLED = "not installed"
DIGITS = {"s": ".3f", "x": ".3f", "MB": ".1f", "GiB": ".1f", "": ".0f"}


@dataclass(frozen=True)
class Sample:
    """One call: its seconds and the ranks' answers, or the failure."""

    seconds: float = 0.0
    answers: tuple[float, ...] = ()
    trouble: str = ""
    detail: str = ""

    def checked(self, world_size: int) -> "Sample":
        """The same sample, marked as failed if a rank does not hold 0 + 1 + ... + (world_size - 1)."""
        right = (world_size * (world_size - 1) / 2,) * world_size
        if self.trouble or self.answers == right:
            return self
        return Sample(trouble="wrong answer", detail=f"{self.answers} instead of {right}")


@dataclass
class Series:
    """All calls of one tool with one world size."""

    samples: list[Sample] = field(default_factory=list)

    @property
    def troubles(self) -> list[str]:
        return [sample.trouble for sample in self.samples if sample.trouble]

    @property
    def trouble(self) -> str:
        """One word for the failure, and how often it happened if other calls were right."""
        if not self.troubles:
            return ""
        return f"{len(self.troubles)} x {self.troubles[0]}" if self.seconds else self.troubles[0]

    @property
    def detail(self) -> str:
        return next((sample.detail for sample in self.samples if sample.detail), "")

    @property
    def seconds(self) -> list[float]:
        return [sample.seconds for sample in self.samples if not sample.trouble]

    @property
    def median(self) -> float | None:
        """The median of the calls that were right."""
        return median(self.seconds) if self.seconds else None


@dataclass(frozen=True)
class Target:
    """A promise and its measurement; `met` is None if a needed measurement is missing."""

    promise: str
    measured: str
    limit: str
    met: bool | None


def at_most(promise: str, measured: float | None, limit: float | None, unit: str = "s") -> Target:
    """Compare one number with its limit."""
    met = None if measured is None or limit is None else measured <= limit
    return Target(promise, with_unit(measured, unit), with_unit(limit, unit), met)


def with_unit(number: float | None, unit: str) -> str:
    return "not measured" if number is None else f"{number:{DIGITS[unit]}} {unit}".rstrip()
