"""The questions of a lesson as ipywidgets: a button for each choice, and what is said to it below.

Buttons, not radio buttons: JupyterLab takes the arrow keys for itself, so that the second of a group could not be
reached by keyboard. Tab leads from choice to choice; Space or Enter chooses.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import ipywidgets

from ddp_lessons.quiz.question import Question
from ddp_lessons.quiz.question_text import as_paragraph, marked_up, title

# a button of ipywidgets is one line high and cuts off what is longer; a choice may be a sentence
STYLE = """<style>
.ddp-quiz .jupyter-button { white-space: normal; height: auto; min-height: 2em; line-height: 1.4; text-align: left;
  justify-content: flex-start; padding: 0.25em 0.8em; overflow: visible; max-width: 100%; flex-shrink: 0; }
.ddp-quiz .ddp-right { border-left: 5px solid #009E73; }
.ddp-quiz .ddp-tried { border-left: 5px solid #7A8798; }
.ddp-quiz .widget-html-content { line-height: 1.5; }
.ddp-quiz p { max-width: 46em; }
</style>"""


class Panel:
    """One lesson's widgets."""

    def __init__(self, lesson: int, questions: Sequence[Question]) -> None:
        # each made once: a saved notebook keeps every one that there is
        self._wide = ipywidgets.Layout(width="auto")
        self._narrow = ipywidgets.Layout(width="auto", align_self="flex-start")
        self._text_style, self._button_style = _style_of(ipywidgets.HTML), _style_of(ipywidgets.Button)
        how = "Choose by mouse, or by Tab and Space. What is not right can be tried again."
        head = self._html(f'{STYLE}<p role="heading" aria-level="4"><b>{title(lesson, questions)}</b></p><p>{how}</p>')
        self._score = self._html()
        self._tries = [0] * len(questions)
        self._solved: dict[int, bool] = {}  # if at the first try
        rows = [row for place, question in enumerate(questions) for row in self._rows(place, question)]
        self._box = ipywidgets.VBox([head, *rows, self._score], layout=self._wide)
        self._box.add_class("ddp-quiz")
        self._count()

    def view(self) -> dict[str, Any]:
        """What a front end with widgets shows."""
        model = {"version_major": 2, "version_minor": 0, "model_id": self._box.model_id}
        return {"application/vnd.jupyter.widget-view+json": model}

    def close(self) -> None:
        shared = [self._wide, self._narrow, self._text_style, self._button_style]
        for widget in [*self._box.children, self._box, *shared]:
            widget.close()

    def _rows(self, place: int, question: Question) -> Iterator[Any]:
        yield self._html(as_paragraph(place + 1, question))
        said = self._html('<div role="status" aria-live="polite"></div>')
        for letter, choice in question.choices.items():
            label = f"{letter}) {choice.replace('`', '')}"
            button = ipywidgets.Button(description=label, layout=self._narrow, style=self._button_style)
            button.on_click(lambda clicked, letter=letter: self._choose(place, question, letter, clicked, said))
            yield button
        yield said

    def _choose(self, place: int, question: Question, letter: str, button: Any, said: Any) -> None:
        self._tries[place] += 1
        right = question.is_right(letter)
        if right:
            self._solved.setdefault(place, self._tries[place] == 1)
        mark = "right" if right else "tried"
        button.description = button.description.removesuffix(f" ({mark})") + f" ({mark})"
        button.add_class(f"ddp-{mark}")
        verdict = marked_up(question.verdict(letter, place in self._solved))
        said.value = f'<div role="status" aria-live="polite"><p>{verdict}</p></div>'
        self._count()

    def _count(self) -> None:
        at_once = sum(self._solved.values())
        self._score.value = (
            f"<p>Answered right: {len(self._solved)} of {len(self._tries)}, {at_once} of them at the first try.</p>"
        )

    def _html(self, text: str = "") -> Any:
        return ipywidgets.HTML(value=text, layout=self._wide, style=self._text_style)


def _style_of(kind: Any) -> Any:
    """A new style for widgets of this kind. For a text it is of another class in ipywidgets 7 than in 8."""
    return kind.style.klass()
