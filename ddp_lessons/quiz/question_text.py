"""The questions of a lesson as text, and as a page without a kernel, in which a choice unfolds when it is selected."""

from __future__ import annotations

import html
import re
import textwrap
from collections.abc import Sequence

from ddp_lessons.quiz.question import Question

WIDTH = 100
CODE_STYLE = "white-space:pre-wrap;padding:0.4em 0.8em;border-left:3px solid #7A8798;margin:0.4em 0"


def title(lesson: int, questions: Sequence[Question]) -> str:
    return f"Lesson {lesson}: {len(questions)} questions"


def as_text(lesson: int, questions: Sequence[Question]) -> str:
    parts = [title(lesson, questions) + "."]
    for number, question in enumerate(questions, 1):
        parts.append(_folded(f"{number}. ", question.text))
        if question.program:
            parts.append(textwrap.indent(question.program.text, "       "))
        parts.append("\n".join(_folded(f"   {letter}) ", choice) for letter, choice in question.choices.items()))
    parts.append(f'To answer question 1 with b: quiz.answer({lesson}, question=1, choice="b")')
    return "\n\n".join(parts)


def as_page(lesson: int, questions: Sequence[Question]) -> str:
    how = "Open a choice to see whether it is right: by mouse, or by Tab and Space."
    parts = [f"<p><strong>{title(lesson, questions)}.</strong> {how}</p>"]
    for number, question in enumerate(questions, 1):
        parts.append(as_paragraph(number, question))
        for letter, choice in question.choices.items():
            said = marked_up(question.verdict(letter))
            parts.append(f"<details><summary>{letter}) {marked_up(choice)}</summary><p>{said}</p></details>")
    return "\n".join(["<div>", *parts, "</div>"])


def as_paragraph(number: int, question: Question) -> str:
    """The question without choices."""
    code = f'<pre style="{CODE_STYLE}">{html.escape(question.program.text)}</pre>' if question.program else ""
    return f"<p style='margin:1em 0 0.4em'><strong>{number}.</strong> {marked_up(question.text)}</p>{code}"


def marked_up(text: str) -> str:
    """As HTML, with the text between backticks as code."""
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", html.escape(text, quote=False))


def _folded(mark: str, text: str) -> str:
    return textwrap.fill(text, WIDTH, initial_indent=mark, subsequent_indent=" " * len(mark), break_on_hyphens=False)
