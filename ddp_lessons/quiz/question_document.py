"""The questions of a lesson as data for `show/figures/questions.js`, which asks them in the page.

The data contains every answer, so a page needs no kernel.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ddp_lessons.quiz.question import Question
from ddp_lessons.quiz.question_text import title


def as_document(lesson: int, questions: Sequence[Question]) -> dict[str, Any]:
    return {
        "kind": "questions",
        "title": title(lesson, questions),
        "alt": "Press a choice, or type its letter. You can try again after a wrong choice.",
        "questions": [_one(question) for question in questions],
    }


def _one(question: Question) -> dict[str, Any]:
    choices = [
        {
            "letter": letter,
            "text": text,
            "is_right": question.is_right(letter),
            "said": question.verdict(letter, with_invitation=False),
        }
        for letter, text in question.choices.items()
    ]
    program = question.program.text if question.program else ""
    return {"text": question.text, "program": program, "choices": choices}
