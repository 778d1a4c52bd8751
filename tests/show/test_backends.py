"""The table of backends and the terminal: what is in them, and that their words are the same everywhere."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest

from ddp_lessons import show
from ddp_lessons.backends.backend_trials import JOIN, OUTCOMES, PLACES, Trial, Trials
from ddp_lessons.backends.calls import CALLS
from ddp_lessons.backends.under_mpirun import HOW_TO_GET_IT, Ended

LONG = (
    "a sentence that is far too long for one line of the page, and goes on for a while after its first half, as some do"
)


def made_up(works: bool = True) -> Trials:
    """All outcomes, in some order; or nothing anywhere."""
    everything = []
    for column, place in enumerate(PLACES):
        refused = not works or column == len(PLACES) - 1
        why_not = f"{LONG}; {HOW_TO_GET_IT}" if column % 2 == 0 else "/a/path/" + "without_a_space_" * 12
        everything.append(Trial(place.name, JOIN, "refused" if refused else "works", why_not if refused else ""))
        for row, call in enumerate(CALLS):
            everything.append(Trial(place.name, call, "not tried" if refused else OUTCOMES[(row + column) % 6]))
    return Trials(tuple(everything))


def table_of(printed: show.Printed) -> list[list[str]]:
    """Its rows, the first of them the heads; every head says what it is the head of."""
    content = ElementTree.fromstring(f"<div>{printed.content}</div>")
    assert {head.get("scope") for head in content.iterfind(".//thead//th")} == {"col"}
    assert {head.get("scope") for head in content.iterfind(".//tbody//th")} == {"row"}
    return [["".join(field.itertext()) for field in row] for row in content.iterfind(".//tr")]


def below(printed: show.Printed) -> list[str]:
    return ["".join(one.itertext()) for one in ElementTree.fromstring(f"<div>{printed.content}</div>").iterfind("p")]


def lines_of(printed: show.Printed) -> list[str]:
    (inside,) = ElementTree.fromstring(f"<div>{printed.content}</div>").iterfind("pre")
    return "".join(inside.itertext()).split("\n")


def test_every_field_says_what_came_of_its_call() -> None:
    trials = made_up()
    head, *rows = table_of(show.what_works(trials))
    assert head == ["", *trials.places]
    for call, row in zip(trials.calls, rows, strict=True):
        outcomes = [trials.of(place, call).outcome for place in trials.places]
        assert row == [call, *("·" if outcome == "not tried" else outcome for outcome in outcomes)]


def test_what_works_and_what_went_wrong_is_marked() -> None:
    content = ElementTree.fromstring(f"<div>{show.what_works(made_up()).content}</div>")
    looks = {field.text: field.get("class") for field in content.iterfind(".//tbody//td")}
    assert looks["works"] == "ddp-works"
    assert looks["refused"] is looks["·"] is None
    assert {looks[word] for word in ("wrong", "died", "no answer")} == {"ddp-alarm"}


def test_why_nobody_could_join_stands_below() -> None:
    reasons = below(show.what_works(made_up()))
    assert reasons[0].startswith(f"{PLACES[-1].name}: a sentence that is far too long")
    assert "python -m pip install mpi4py" in reasons[0]
    assert not below(show.what_works(Trials(tuple(Trial("gloo", call, "works") for call in (JOIN, *CALLS)))))


def test_the_words_are_the_same_whatever_works() -> None:
    one, other = show.what_works(made_up()), show.what_works(made_up(works=False))
    assert (one.text, one.alt) == (other.text, other.alt)
    assert "print the trials" in one.text


def test_anything_else_is_refused() -> None:
    with pytest.raises(TypeError, match=r"this draws what try_backends\(\) returned, and got something of type list"):
        show.what_works([])  # type: ignore[arg-type]


def test_a_terminal_shows_the_command_its_lines_and_where_they_come_from() -> None:
    for is_live, origin in ((True, "run on this machine"), (False, "recorded: this machine has no MPI")):
        printed = show.mpi_run(Ended("mpirun -n 2 python hello.py", ("rank 0", "rank $1$ < 2"), is_live))
        assert lines_of(printed) == ["$ mpirun -n 2 python hello.py", "rank 0", "rank $1$ < 2"]
        assert f"{origin}</i></figcaption>" in printed.content


def test_a_terminals_words_are_the_same_live_and_recorded() -> None:
    live, recorded = (show.mpi_run(Ended("mpirun", ("6",), is_live)) for is_live in (True, False))
    assert (live.text, live.alt) == (recorded.text, recorded.alt)
    assert live.text.startswith("$ mpirun\n6\n")


def test_long_lines_and_many_of_them_are_cut() -> None:
    _, *lines, last = lines_of(show.mpi_run(Ended("mpirun", ("m" * 500, *map(str, range(50))), True)))
    assert lines == ["m" * 115 + "...", *map(str, range(23))]
    assert last == "... and 27 more lines"
