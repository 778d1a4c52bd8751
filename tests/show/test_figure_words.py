"""The words of every figure are those on file, and are the same for results, for an exception with results, for events.

`.venv/bin/python tests/figure_catalog.py > tests/show/figures.txt` writes the file anew.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from figure_catalog import CUT, FIGURES, HELD, circle, phases, trials, words_of_all
from recorded import token_round

from ddp_lessons import Results, show
from ddp_lessons.backends.backend_trials import Trials
from ddp_lessons.machines import Attempt, Said
from ddp_lessons.record.events import Events

ON_FILE = (Path(__file__).parent / "figures.txt").read_text(encoding="utf-8")
SEEN = "every rank must return the list of the indices that it saw"
MISTAKES: list[tuple[Callable[[], Any], type[Exception], str]] = [
    (lambda: show.timeline([1, 2]), TypeError, "need the results of launch(), not a value of type list"),
    (lambda: show.timeline(token_round(2), axis="wall"), ValueError, '"steps" or "time", not \'wall\''),
    (lambda: show.collective("all_redcue"), ValueError, "'all_redcue'; choose one of broadcast, reduce, all_reduce"),
    (lambda: show.collectives(8), ValueError, "world_size must be 2, 3 or 4 to fit into the figure, not 8"),
    (lambda: show.samples([[0], [1.5]], total=2), TypeError, f"{SEEN}, but rank 1"),  # type: ignore[list-item]
    (lambda: show.samples([[0], [10]], total=10), ValueError, "10 samples go from 0 to 9, but rank 1 saw 10"),
    (
        lambda: show.sharding({"DDP": phases(token_round(2), [], [])}),
        ValueError,
        "draw for 'DDP': every rank must log",
    ),
    (lambda: show.memory(HELD).save("one.doc"), ValueError, "saved as .png or .svg, but 'one.doc' ends in neither"),
]


def test_the_words_are_those_on_file() -> None:
    ours, on_file = (dict(zip(FIGURES, all.split("== ")[1:], strict=True)) for all in (words_of_all(), ON_FILE))
    assert {name: words for name, words in ours.items() if words != on_file[name]} == {}
    assert words_of_all() == ON_FILE


@pytest.mark.parametrize(("mistake", "kind", "said"), MISTAKES, ids=[said for _, _, said in MISTAKES])
def test_a_mistake_is_refused_in_words(mistake: Callable[[], Any], kind: type[Exception], said: str) -> None:
    with pytest.raises(kind) as refused:
        mistake()
    assert said in str(refused.value)


@pytest.mark.parametrize(
    ("draw", "values", "events"),
    [
        (show.timeline, (None, None), token_round(2)),
        (show.waits, (None, None), circle(2)),
        (show.fingerprints, (["00ff"], ["00fe"]), Events()),
    ],
)
def test_results_and_an_exception_with_results_are_drawn_alike(
    draw: Callable[[Any], show.Figure], values: tuple[Any, Any], events: Events
) -> None:
    results = Results(values, ([], []), 1.0, events)
    failure = RuntimeError("a rank failed")
    failure.results = results  # type: ignore[attr-defined]
    assert draw(results).text == draw(failure).text == draw(events if len(events) else values).text


def test_words_hold_no_outcome_of_this_machine() -> None:
    """So that a stored lesson is the same in every run."""
    other = Attempt((None,), (Said(0, 9.0, "other words"),), 9.9, recorded="elsewhere")
    assert (show.machines(CUT).text, show.machines(CUT).alt) == (show.machines(other).text, show.machines(other).alt)
    all_work = Trials(tuple(replace(one, outcome="works") for one in trials().all))
    assert show.what_works(trials()).text == show.what_works(all_work).text
