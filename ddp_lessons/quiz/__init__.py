"""The questions at the end of each lesson, with the misconception behind every wrong choice.

`questions(3)` shows those of lesson 3; `answer(3, question=2, choice="b")` answers one without buttons.
"""

from __future__ import annotations

from ddp_lessons.quiz.asking import answer as answer, questions as questions

__all__ = ["answer", "questions"]
