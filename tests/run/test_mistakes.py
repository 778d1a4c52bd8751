"""Every mistake of the catalog is seen and said right, and nothing of it stays."""

from __future__ import annotations

import pytest
from catalog.failures_on_nodes import Case, cases, outcome
from catalog.findings import make
from catalog.mistakes import MISTAKES, Mistake
from catalog.sentences import stored
from catalog.verdicts import missing_in
from nights import by_day

# `python -m tools.benchmarks hangs` makes them all; DistributedDataParallel takes a second on each rank to be built
CASES = [(one, size) for one in MISTAKES for size in one.world_sizes[: 1 if one.is_slow else None : 2]]


BY_NAME = {mistake.name: mistake for mistake in MISTAKES}


@pytest.mark.parametrize(
    ("mistake", "world_size"),
    by_day(CASES, lambda case: case[1] == case[0].world_sizes[0]),
    ids=[f"{one.name}-{size}" for one, size in CASES],
)
def test_a_mistake_is_seen_and_said_right_and_the_next_launch_works(mistake: Mistake, world_size: int) -> None:
    finding = make(mistake, world_size)
    assert not finding.missing, f"{finding.missing} missing in: {finding.ended}"
    assert finding.is_alive
    assert finding.left == 0


@pytest.mark.parametrize("case", [case for case in cases() if case.is_stored], ids=lambda case: case.name)
def test_its_message_is_the_stored_one(case: Case) -> None:
    """After a change of words: `python tests/catalog/sentences.py`, and read the difference."""
    assert outcome(case).sentences(case) == stored()[case.name]


def test_the_catalogue_has_every_kind() -> None:
    assert {mistake.kind for mistake in MISTAKES} == set(range(1, 9))


@pytest.mark.parametrize(
    ("instead_of", "said", "lacks"),
    by_day(
        [
            ("Rank 2 returned", "Rank 1 returned", ["rank 2"]),
            ("returned", "left", ['"returned"']),
            ("collectives.py line ", "collectives.py line 9", ["collectives.py line "]),
        ],
        2,
    ),
)
def test_a_message_that_says_it_wrongly_is_found_out(instead_of: str, said: str, lacks: list[str]) -> None:
    mistake = BY_NAME["one_returned"]
    message = str(make(mistake, 3).ended)
    assert missing_in(message, mistake, 3) == []
    found = missing_in(message.replace(instead_of, said), mistake, 3)
    assert [one.rstrip("0123456789") if "line" in one else one for one in found] == lacks
