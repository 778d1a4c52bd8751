"""What is drawn for an editor: the same for a seed, and really in the lessons and the code."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from nights import by_day

from authoring import samples

PROJECT = Path(__file__).parents[2]


@pytest.mark.parametrize("kind", by_day(samples.KINDS, 1))
def test_a_seed_draws_the_same_again_and_another_one_others(kind: str) -> None:
    first, *texts = samples.drawn(PROJECT, kind, 20)
    (seed,) = re.findall(r"--seed (\d+)$", first)
    assert [first, *texts] == list(samples.drawn(PROJECT, kind, 20, int(seed)))
    assert texts != list(samples.drawn(PROJECT, kind, 20, int(seed) + 1))[1:]
    assert len(set(texts)) == 20


def test_paragraphs_are_prose_of_all_lessons() -> None:
    found = list(samples.paragraphs(PROJECT))
    assert {place.partition(",")[0] for place, _ in found} == {
        file.name for file in (PROJECT / "notebooks").glob("[0-9][0-9]_*.ipynb")
    }
    assert not [text for _, text in found if text.startswith(("```", "#", "|"))]


def test_messages_are_what_is_said_and_no_docstrings(tmp_path: Path) -> None:
    folder = tmp_path / samples.MESSAGES[0]
    folder.mkdir(parents=True)
    (folder / "one.py").write_text(
        '"""A docstring with more than enough words in it."""\n'
        'text = f"rank {rank} waits in {call} for rank {peer}, which has returned"\nname = "too short"\n'
    )
    assert list(samples.messages(tmp_path)) == [
        (f"{samples.MESSAGES[0]}/one.py, line 2", "rank {} waits in {} for rank {}, which has returned")
    ]
