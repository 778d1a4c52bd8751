"""The parts of a judgment as lines of a report, and as a page to show to others: one file with the pictures."""

from __future__ import annotations

import base64
import html
from collections.abc import Iterator, Mapping
from datetime import date

from ddp_lessons.capstone.verdicts import Part, part_of, table
from ddp_lessons.run.output.cards import Kind, framed, in_words, lines_of_text, mark

_STATES: dict[bool | None, tuple[str, Kind]] = {
    True: ("passed", "passed"),
    False: ("not yet", "wrong"),
    None: ("open", "open"),
}
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


def outcome_of(parts: Mapping[str, Part]) -> str:
    passed = sum(part.passed is True for part in parts.values())
    return "All parts passed." if passed == len(parts) else f"{passed} of {len(parts)} parts passed."


def _without_repeats(parts: Mapping[str, Part]) -> Iterator[tuple[int, str, Part]]:
    """One mistake can end the script in each part: it is told once."""
    places: dict[str, int] = {}
    for place, (name, part) in enumerate(parts.items(), start=1):
        first = places.setdefault(part.said, place)
        is_repeated = part.passed is False and first != place
        yield place, name, part_of("same_failure", False, place=first) if is_repeated else part


def as_lines(parts: Mapping[str, Part]) -> Iterator[str]:
    for place, name, part in _without_repeats(parts):
        yield f"  {place}. {name}: {_STATES[part.passed][0]}. {part.said}"
        yield from (f"      {line}".rstrip() for line in part.lines if not part.passed)
        yield from [f"  Next: {part.advice}"] * bool(part.advice)


def as_page(parts: Mapping[str, Part], name: str, script: str) -> str:
    """One file, which needs nothing else."""
    title = html.escape(f"{name}: {script}" if name else script)
    sections = "".join(_section(*shown) for shown in _without_repeats(parts))
    return _PAGE.format(title=title, outcome=outcome_of(parts), day=date.today().isoformat(), parts=sections)


def _section(place: int, name: str, part: Part) -> str:
    state, kind = _STATES[part.passed]
    said = "".join(lines_of_text([part.said, *part.lines]))
    advice = f"<p><strong>Next:</strong> {in_words(part.advice)}</p>" if part.advice else ""
    card = framed(f"<p>{mark(kind)}<strong>{state}</strong></p>{said}{advice}", kind)
    about = f"<h2>{place}. {html.escape(name)}</h2><p>{html.escape(table()[name]['question'])}</p>"
    return f"<section>{about}{card}{_figure(part)}</section>\n"


def _figure(part: Part) -> str:
    if part.picture is None:
        return ""
    data = base64.b64encode(part.picture.svg.encode()).decode()
    return f'<figure><img alt="{html.escape(part.picture.alt)}" src="data:image/svg+xml;base64,{data}"></figure>'
