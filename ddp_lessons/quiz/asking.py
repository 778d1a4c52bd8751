"""The two calls of a learner: show the questions of a lesson, and answer one without buttons."""

from __future__ import annotations

from ddp_lessons.quiz.bank import questions_of
from ddp_lessons.quiz.question_document import as_document
from ddp_lessons.quiz.question_text import as_page, as_text


class Questions:
    """The questions of one lesson. In a notebook they show themselves, with choices to press."""

    def __init__(self, lesson: int) -> None:
        self.questions = questions_of(lesson)
        self.lesson = lesson
        self.text = as_text(lesson, self.questions)

    def __repr__(self) -> str:
        return self.text

    def _ipython_display_(self) -> None:
        """One output: choices to press where there are widgets; for all other readers a page, and the same as text."""
        from IPython.display import publish_display_data

        from ddp_lessons.show.figures.living import view_of

        stays = {"text/plain": self.text, "text/html": as_page(self.lesson, self.questions)}
        publish_display_data({**stays, **view_of(as_document(self.lesson, self.questions))})


class Verdict:
    """What is said to a choice; `right` tells whether it was the right one."""

    def __init__(self, right: bool, text: str) -> None:
        self.right, self.text = right, text

    def __repr__(self) -> str:
        return self.text


def questions(lesson: int) -> Questions:
    """Show the questions of this lesson.

    Raises:
        ValueError: there is no such lesson.
    """
    return Questions(lesson)


def answer(lesson: int, question: int, choice: str) -> Verdict:
    """Say whether this choice is right; if not, what is behind it and where to look. One may try as often as one likes.

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
    return Verdict(one.is_right(letter), one.verdict(letter))
