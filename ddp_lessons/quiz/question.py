"""The questions of each lesson, from NN.toml."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ddp_lessons.own_files import read_toml

FILES = sorted(Path(__file__).parent.glob("[0-9][0-9].toml"))


@dataclass(frozen=True)
class Choice:
    choice: str
    why: str  # it is right; or the misconception behind it


@dataclass(frozen=True)
class Question:
    """A question and its choices, in which text between backticks is code.

    If there is a `program`, it defines `f`, which a test launches on `ranks` ranks. The expression `holds` must then be
    true. It may use `results`, `error` if the launch raises one, and `right`, the text of the right choice.
    """

    text: str
    choices: Mapping[str, Choice]  # by letter
    right: str  # its letter
    section: str  # of the lesson, which answers it
    program: str = ""
    holds: str = ""
    ranks: int = 2
    options: Mapping[str, Any] = field(default_factory=dict)  # of launch

    def verdict(self, letter: str, with_invitation: bool = True) -> str:
        """The reply to this choice, with an invitation to try another one."""
        if letter == self.right:
            return f"{letter}) is right. {self.choices[letter].why}"
        told = f'{letter}) is not right. {self.choices[letter].why} Look again at "{self.section}"'
        return f"{told}, and try another choice." if with_invitation else f"{told}."


@functools.cache
def questions_of(lesson: int) -> tuple[Question, ...]:
    """Return the questions of this lesson, or raise ValueError if there is no such lesson."""
    if type(lesson) is not int or not 0 <= lesson < len(FILES):
        raise ValueError(f"there is no lesson {lesson!r}: give its number, 0 to {len(FILES) - 1}")
    return tuple(_question(**one) for one in read_toml(FILES[lesson])["questions"])


def _question(program: str = "", **known: Any) -> Question:
    choices = {letter: Choice(**known.pop(letter)) for letter in "abcd" if letter in known}
    return Question(choices=choices, program=program.strip("\n"), **known)
