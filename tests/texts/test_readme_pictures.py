"""README's pictures show what the course shows today."""

from __future__ import annotations

from PIL import Image

from docs.draw import DOCS, shown_cells, text_of


def test_the_picture_of_the_first_lesson_has_the_stored_cells() -> None:
    """After a change of the lesson or of a message: `.venv/bin/python docs/draw.py`."""
    with Image.open(DOCS / "first_lesson.png") as picture:
        assert picture.info["cells"] == text_of(shown_cells())
    assert "raised ValueError: I will not play" in text_of(shown_cells())
