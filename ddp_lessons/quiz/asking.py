"""The two functions for learners: show the questions of a lesson, and answer one without buttons."""

from __future__ import annotations

from ddp_lessons.quiz.question import questions_of
from ddp_lessons.quiz.question_text import as_interactive_page, as_text


class Questions:
    """The questions of one lesson. A notebook displays them with buttons."""

    def __init__(self, lesson: int) -> None:
        self.questions = questions_of(lesson)
        self.lesson = lesson
        self.text = as_text(lesson, self.questions)

    def __repr__(self) -> str:
        return self.text

    def _ipython_display_(self) -> None:
        from IPython.display import publish_display_data

        page = as_interactive_page(self.lesson, self.questions)
        publish_display_data({"text/plain": self.text, "text/html": page})


class Verdict:
    """The reply to a choice; `right` says whether the choice was correct."""

    def __init__(self, right: bool, text: str) -> None:
        self.right, self.text = right, text

    def __repr__(self) -> str:
        return self.text


def questions(lesson: int) -> Questions:
    """Show the questions of a lesson.

    Raises:
        ValueError: there is no such lesson.
    """
    return Questions(lesson)


def answer(lesson: int, question: int, choice: str) -> Verdict:
    """Say whether a choice is correct; if not, explain the misconception and where to look. You can try again.

    Raises:
        ValueError: there is no such lesson, question or choice.
    """
    asked = questions_of(lesson)
    if type(question) is not int or not 1 <= question <= len(asked):
        raise ValueError(f"lesson {lesson} has no question {question!r}: give its number, 1 to {len(asked)}")
    one = asked[question - 1]
    letter = choice.strip().rstrip(").").lower() if isinstance(choice, str) else choice
    if letter not in one.choices:
        raise ValueError(f"question {question} has no choice {choice!r}: give one of {', '.join(one.choices)}")
    return Verdict(letter == one.right, one.verdict(letter))
