"""What each backend can do on this machine: a row for each call, a column for each backend.

What comes out differs from machine to machine, so it is in the table only. The words beside it say what was tried; to
have the outcomes in words, print the trials.
"""

from __future__ import annotations

import html
from collections.abc import Sequence
from typing import Any, Protocol

from ddp_lessons.show.page.printed import Printed

LOOKS = {"works": "works", "wrong": "alarm", "died": "alarm", "no answer": "alarm"}  # of what is not plain
WORDS = {"not tried": "·"}


class Trials(Protocol):
    """What `try_backends` returns."""

    @property
    def places(self) -> list[str]: ...

    @property
    def calls(self) -> list[str]: ...

    def of(self, place: str, call: str) -> Any: ...

    def why_not(self, place: str) -> str: ...


def what_works(trials: Trials) -> Printed:
    """Show what `try_backends` found on this machine, and under it why a column has nothing."""
    if not hasattr(trials, "why_not"):
        raise TypeError(f"this draws what try_backends() returned, and got something of type {type(trials).__name__}")
    places, calls = trials.places, trials.calls
    reasons = [(place, trials.why_not(place)) for place in places]
    below = [f"<p>{html.escape(f'{place}: {reason}')}</p>" for place, reason in reasons if reason]
    return Printed("\n".join([_table(trials, places, calls), *below]), _text(places, calls), _describe(places, calls))


def _table(trials: Trials, places: Sequence[str], calls: Sequence[str]) -> str:
    heads = "".join(f'<th scope="col">{html.escape(place)}</th>' for place in places)
    rows = [
        f'<tr><th scope="row">{html.escape(call)}</th>'
        + "".join(_field(trials.of(place, call).outcome) for place in places)
        + "</tr>"
        for call in calls
    ]
    head = f"<thead><tr><td></td>{heads}</tr></thead>"
    return "\n".join(['<div tabindex="0"><table>', head, "<tbody>", *rows, "</tbody></table></div>"])


def _field(outcome: str) -> str:
    look = f' class="ddp-{LOOKS[outcome]}"' if outcome in LOOKS else ""
    return f"<td{look}>{html.escape(WORDS.get(outcome, outcome))}</td>"


def _text(places: Sequence[str], calls: Sequence[str]) -> str:
    return "\n".join(
        [
            "What works on this machine is in the picture; print the trials to have it in words. Tried were:",
            *(f"  {place}" for place in places),
            f"and with each: {', '.join(calls)}.",
        ]
    )


def _describe(places: Sequence[str], calls: Sequence[str]) -> str:
    return f"Table of {len(calls)} calls in {len(places)} backends: which of them work on this machine."
