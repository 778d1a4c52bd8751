"""The picture of the ring in docs/package.md shows what a run gives today."""

from __future__ import annotations

from nights import nightly

from docs.draw import DOCS, ring_by_steps


@nightly
def test_the_picture_of_the_ring_is_what_a_run_gives_now() -> None:
    """After a change of the figures: `.venv/bin/python docs/draw.py`."""
    assert (DOCS / "ring.svg").read_text(encoding="utf-8") == ring_by_steps()
