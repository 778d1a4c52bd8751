"""The table of backends and the terminal as pictures: what is in them, and that their words are the same everywhere."""

from __future__ import annotations

import pytest
from looks import all_texts, check_that_texts_stand_apart, words

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
        why_not = f"{LONG}; {HOW_TO_GET_IT}" if column % 2 else "/a/path/" + "without_a_space_" * 12
        everything.append(Trial(place.name, JOIN, "refused" if refused else "works", why_not if refused else ""))
        for row, call in enumerate(CALLS):
            everything.append(Trial(place.name, call, "not tried" if refused else OUTCOMES[(row + column) % 6]))
    return Trials(tuple(everything))


def test_every_field_says_what_came_of_its_call() -> None:
    trials = made_up()
    picture = show.what_works(trials)
    for column, place in enumerate(trials.places):
        assert " ".join(words(picture, f"place {column}")[0].split()) == place
        for row, call in enumerate(trials.calls):
            outcome = trials.of(place, call).outcome
            assert words(picture, f"outcome {column} {row}")[0] == ("·" if outcome == "not tried" else outcome)


def test_why_nobody_could_join_stands_below() -> None:
    picture = show.what_works(made_up())
    reasons = " ".join(words(picture, "reason"))
    assert reasons.startswith(f"{PLACES[-1].name}: a sentence that is far too long")
    assert "python -m pip install mpi4py" in " ".join(reasons.split())
    assert not words(show.what_works(Trials(tuple(Trial("gloo", call, "works") for call in (JOIN, *CALLS)))), "reason")


def test_the_words_are_the_same_whatever_works() -> None:
    one, other = show.what_works(made_up()), show.what_works(made_up(works=False))
    assert (one.text, one.alt) == (other.text, other.alt)
    assert "print the trials" in one.text


@pytest.mark.parametrize("works", [True, False])
def test_texts_stand_apart(works: bool) -> None:
    check_that_texts_stand_apart(show.what_works(made_up(works)))


def test_anything_else_is_refused() -> None:
    with pytest.raises(TypeError, match=r"this draws what try_backends\(\) returned, and got something of type list"):
        show.what_works([])  # type: ignore[arg-type]


def test_a_terminal_shows_the_command_its_lines_and_where_they_come_from() -> None:
    for is_live, origin in ((True, "run on this machine"), (False, "recorded: this machine has no MPI")):
        picture = show.mpi_run(Ended("mpirun -n 2 python hello.py", ("rank 0", "rank $1$"), is_live))
        assert words(picture, "line") == ["$ mpirun -n 2 python hello.py", "rank 0", "rank $1$"]
        assert words(picture, "origin") == [origin]
        check_that_texts_stand_apart(picture)


def test_a_terminals_words_are_the_same_live_and_recorded() -> None:
    live, recorded = (show.mpi_run(Ended("mpirun", ("6",), is_live)) for is_live in (True, False))
    assert (live.text, live.alt) == (recorded.text, recorded.alt)
    assert live.text.startswith("$ mpirun\n6\n")


def test_long_lines_and_many_of_them_are_cut() -> None:
    picture = show.mpi_run(Ended("mpirun", ("m" * 500, *map(str, range(50))), True))
    check_that_texts_stand_apart(picture)
    assert {"... and 27 more lines"} <= {text.get_text() for text in all_texts(picture)}
