"""What a reader can turn in an explorer: each control as plain data, without any widget."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Values = Mapping[str, Any]
Options = Sequence[Any] | Mapping[str, Any]  # a mapping names them: {"16 KB": 16_000}


@dataclass(frozen=True)
class Choice:
    """One of some values: a number field for a `range`, else a list to choose from.

    `options` may be a function of the values of the controls before it: `lambda values: range(values["world_size"])`.
    """

    label: str
    options: Options | Callable[[Values], Options]
    value: Any = None  # None: the first

    def options_for(self, values: Values) -> dict[str, Any]:
        """Every value by the name under which it is shown."""
        options = self.options(values) if callable(self.options) else self.options
        return dict(options) if isinstance(options, Mapping) else {str(option): option for option in options}


@dataclass(frozen=True)
class Slider(Choice):
    """The same with a slider next to it, for ordered values."""


@dataclass(frozen=True)
class Steps(Slider):
    """The same with Play, Back and Step: values that follow each other in time."""

    seconds: float = 1.0  # between two of them while it plays


@dataclass(frozen=True)
class Tick(Choice):
    """A box to tick: True or False."""

    options: Options | Callable[[Values], Options] = (False, True)
    value: Any = False


def nearest(value: Any, options: Sequence[Any]) -> Any:
    """This value if it is one of them; a number that is out of bounds goes to the bound; else the first."""
    if value in options or not options:
        return value
    numbers = [option for option in options if isinstance(option, (int, float))]
    if isinstance(value, (int, float)) and len(numbers) == len(options):
        return min(options, key=lambda option: abs(option - value))
    return options[0]
