"""The page that a judgment leaves: one file with the parts and their pictures, to show to others."""

from __future__ import annotations

import base64
import html
from collections.abc import Sequence
from datetime import date
from typing import Any

from ddp_lessons.capstone.capstone_parts import Part
from ddp_lessons.capstone.injected_hang import NAME
from ddp_lessons.run.output.cards import Kind, framed, in_words, lines_of_text, mark

STATES: dict[bool | None, tuple[str, Kind]] = {
    True: ("passed", "passed"),
    False: ("not yet", "wrong"),
    None: ("open", "open"),
}
TESTED = {  # on the page, for people who do not know the course
    "the same as one process": "Are the samples, gradients and weights of each step those of the plain program on one "
    "process?",
    "killed and resumed": "One rank is killed in the middle of the training. Does a second start resume from the "
    "checkpoint and end with the same weights?",
    "uneven data": "Neither the training nor the test data can be divided by the number of ranks. Does each sample "
    "count once, in the training and in the results?",
    "a slow rank": "One rank starts and saves late, the other is slower in each step. Is the result still the same?",
    NAME: "A fault was injected into a copy, which then hangs. Does the author recognize it from where the ranks wait?",
}
TIMELINE_TITLE = "The last calls of both ranks: rank 0 saves one second late, rank 1 is a little slower in each step"
_EVENTS = 60  # of the newest calls, in the timeline
REPEATED = "the same failure as in part"


def without_repeats(parts: Sequence[Part]) -> list[Part]:
    """One mistake can end the script in each part: it is told once."""
    places: dict[tuple[str, str], int] = {}
    shown = []
    for place, part in enumerate(parts, start=1):
        first = places.setdefault((part.said, part.advice), place)
        is_repeated = part.passed is False and first != place
        shown.append(part if not is_repeated else Part(part.name, part.passed, f"{REPEATED} {first}"))
    return shown


def sentence(said: str) -> str:
    return said if said.endswith(".") else f"{said}."


_PAGE = """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>{title}</title>
<style>
:root {{ color-scheme: light dark; }}
body {{ font: 16px/1.5 system-ui, sans-serif; max-width: 62em; margin: 2em auto; padding: 0 1em; }}
h1 {{ font-size: 1.7em; margin-bottom: .1em; }} h2 {{ font-size: 1.15em; margin: 1.6em 0 .4em; }}
figure {{ margin: .8em 0; }} figure img {{ display: block; max-width: 100%; height: auto; }}
@media (max-width: 44em) {{ figure {{ overflow-x: auto; }} figure img {{ max-width: none; }} }}
</style></head><body>
<h1>{title}</h1>
<p>{outcome} ddp-lessons, capstone: a training script on 1, 2 and 4 ranks. {day}</p>
{parts}
</body></html>
"""


def as_page(parts: Sequence[Part], name: str, script: str) -> str:
    """One file, which needs nothing else."""
    number = sum(part.passed is True for part in parts)
    outcome = "All parts passed." if number == len(parts) else f"{number} of {len(parts)} parts passed."
    title = html.escape(f"{name}: {script}" if name else script)
    shown = "".join(_shown(place, part) for place, part in enumerate(without_repeats(parts), start=1))
    return _PAGE.format(title=title, outcome=outcome, day=date.today().isoformat(), parts=shown)


def _shown(place: int, part: Part) -> str:
    state, kind = STATES[part.passed]
    said = "".join(lines_of_text([sentence(part.said), *part.lines]))
    advice = f"<p><strong>Next:</strong> {in_words(part.advice)}</p>" if part.advice else ""
    card = framed(f"<p>{mark(kind)}<strong>{state}</strong></p>{said}{advice}", kind)
    about = f"<p>{html.escape(TESTED[part.name])}</p>" if part.name in TESTED else ""
    return f"<section><h2>{place}. {html.escape(part.name)}</h2>{about}{card}{_picture(part)}</section>\n"


def _picture(part: Part) -> str:
    """The distance per step, or a timeline."""
    if part.picture is None:
        return ""
    figure = part.picture if hasattr(part.picture, "svg") else _timeline(part.picture)
    data = base64.b64encode(figure.svg.encode()).decode()
    return f'<figure><img alt="{html.escape(figure.alt)}" src="data:image/svg+xml;base64,{data}"></figure>'


def _timeline(calls: Any) -> Any:
    import dataclasses

    from ddp_lessons.show.timelines.timeline_figure import timeline

    newest = dataclasses.replace(calls, events=calls.events.newest(_EVENTS))
    return timeline(newest, title=TIMELINE_TITLE, axis="time")
