"""The questions of a lesson as text, and as an HTML page that needs no kernel, in which a script asks them.

Without the script, the reader unfolds a choice to see the reply.
"""

from __future__ import annotations

import html
import json
import pathlib
import re
import textwrap
from collections.abc import Sequence
from typing import Any

from ddp_lessons.quiz.question import Question

HERE = pathlib.Path(__file__).parent
WIDTH = 100
CODE_STYLE = "white-space:pre-wrap;padding:0.4em 0.8em;border-left:3px solid #7A8798;margin:0.4em 0"


def title(lesson: int, questions: Sequence[Question]) -> str:
    return f"Lesson {lesson}: {len(questions)} questions"


def as_text(lesson: int, questions: Sequence[Question]) -> str:
    parts = [title(lesson, questions) + "."]
    for number, question in enumerate(questions, 1):
        parts.append(_folded(f"{number}. ", question.text))
        if question.program:
            parts.append(textwrap.indent(question.program, "       "))
        parts.append("\n".join(_folded(f"   {letter}) ", one.choice) for letter, one in question.choices.items()))
    parts.append(f'To answer question 1 with b: quiz.answer({lesson}, question=1, choice="b")')
    return "\n\n".join(parts)


def as_interactive_page(lesson: int, questions: Sequence[Question]) -> str:
    """Return the page and the script that replaces it by buttons. Elements with `data-ddp` aren't stored."""
    data = json.dumps(as_document(lesson, questions), ensure_ascii=False).replace("<", "\\u003c")
    style, script = ((HERE / f"questions.{kind}").read_text(encoding="utf-8") for kind in ("css", "js"))
    return (
        f"{as_page(lesson, questions)}"
        f'<script data-ddp type="application/json" class="ddp-questions">{data}</script>'
        f"<style data-ddp>{style}</style><script data-ddp>{script}</script>"
    )


def as_document(lesson: int, questions: Sequence[Question]) -> dict[str, Any]:
    """For questions.js. It contains every answer."""
    return {
        "title": title(lesson, questions),
        "alt": "Click a choice, or type its letter. If it is wrong, you can try again.",
        "questions": [
            {
                "text": question.text,
                "program": question.program,
                "choices": [
                    {
                        "letter": letter,
                        "text": one.choice,
                        "is_right": letter == question.right,
                        "said": question.verdict(letter, with_invitation=False),
                    }
                    for letter, one in question.choices.items()
                ],
            }
            for question in questions
        ],
    }


def as_page(lesson: int, questions: Sequence[Question]) -> str:
    how = "Open a choice (with the mouse, or with Tab and Space) to see whether it is right."
    parts = [f"<p><strong>{title(lesson, questions)}.</strong> {how}</p>"]
    for number, question in enumerate(questions, 1):
        parts.append(as_paragraph(number, question))
        for letter, one in question.choices.items():
            said = marked_up(question.verdict(letter))
            parts.append(f"<details><summary>{letter}) {marked_up(one.choice)}</summary><p>{said}</p></details>")
    return "\n".join(["<div>", *parts, "</div>"])


def as_paragraph(number: int, question: Question) -> str:
    """The question without choices."""
    code = f'<pre style="{CODE_STYLE}">{html.escape(question.program)}</pre>' if question.program else ""
    return f"<p style='margin:1em 0 0.4em'><strong>{number}.</strong> {marked_up(question.text)}</p>{code}"


def marked_up(text: str) -> str:
    """As HTML, with the text between backticks as code."""
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", html.escape(text, quote=False))


def _folded(mark: str, text: str) -> str:
    return textwrap.fill(text, WIDTH, initial_indent=mark, subsequent_indent=" " * len(mark), break_on_hyphens=False)
