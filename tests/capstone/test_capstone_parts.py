"""Broken solutions fail in the right part, with the right message."""

from __future__ import annotations

from pathlib import Path

import pytest
from broken_scripts import BROKEN
from effort import EVERYTHING
from judged import judged

QUICK = ("no checkpoint", "an exception on the second rank")


@pytest.mark.parametrize("name", BROKEN if EVERYTHING else QUICK)
def test_a_broken_script_fails_in_the_right_part(name: str, tmp_path: Path) -> None:
    broken = BROKEN[name]
    part = judged(broken.source, broken.part, tmp_path, (2,), broken.limit)
    assert part.passed is False
    assert broken.said in part.said, part
    assert broken.advice in part.advice, part
    assert part.advice.endswith((".", "`."))
