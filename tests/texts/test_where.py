"""docs/where.md is what docs/where.py writes, and the course uses each of its names."""

from __future__ import annotations

from docs import where


def test_the_page_is_current() -> None:
    """After a change: `.venv/bin/python docs/where.py`."""
    assert where.PAGE.read_text(encoding="utf-8") == where.page()


def test_each_name_is_used() -> None:
    names = [name for names in where.NAMES.values() for name in names.split()]
    assert len(set(names)) == len(names) > 90
    assert [name for name in names if not any(where.places(name))] == []
