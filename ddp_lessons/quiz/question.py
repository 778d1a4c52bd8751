"""Questions as plain data, one object for each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

LETTERS = "abcd"


@dataclass(frozen=True)
class Program:
    """A program in a question. It defines `f`, which a test launches on so many ranks.

    The test evaluates `holds`, an expression that must be true. It may use `results`, `error` if the launch raises
    one, and `right`, the text of the right choice.
    """

    code: str
    holds: str
    ranks: int = 2
    options: Mapping[str, Any] = field(default_factory=dict)  # of launch

    @property
    def text(self) -> str:
        return self.code.strip("\n")


@dataclass(frozen=True)
class Question:
    """One right choice, and wrong ones that have a misconception behind them.

    Text between backticks is code. `letter` is the position of the right choice; the others keep their order.
    """

    text: str
    right: str
    letter: str
    why: str
    wrong: Mapping[str, str]  # each wrong choice, and the misconception behind it
    look_at: str  # the section of the lesson that answers it
    program: Program | None = None

    def __post_init__(self) -> None:
        if self.letter not in LETTERS[: len(self.wrong) + 1]:
            raise ValueError(
                f"with {len(self.wrong)} wrong choices the right one cannot be {self.letter}: {self.text!r}"
            )

    @property
    def choices(self) -> dict[str, str]:
        """Every choice by its letter."""
        texts = list(self.wrong)
        texts.insert(LETTERS.index(self.letter), self.right)
        return dict(zip(LETTERS, texts, strict=False))

    def is_right(self, letter: str) -> bool:
        return letter == self.letter

    def verdict(self, letter: str, with_invitation: bool = True) -> str:
        """The reply to this choice, with an invitation to try another one."""
        if self.is_right(letter):
            return f"{letter}) is right. {self.why}"
        misconception = self.wrong[self.choices[letter]]
        told = f'{letter}) is not right. {misconception} Look again at "{self.look_at}"'
        return f"{told}, and try another choice." if with_invitation else f"{told}."
