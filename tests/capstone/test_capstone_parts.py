"""Right solutions pass each part; broken ones fail in the right part, with the right message."""

from __future__ import annotations

from pathlib import Path

import pytest
from broken_scripts import BROKEN
from effort import EVERYTHING
from judged import judged
from right_styles import RIGHT

from ddp_lessons.capstone.capstone_check import PARTS

QUICK = ("no checkpoint", "an exception on the second rank")


@pytest.mark.parametrize("name", BROKEN if EVERYTHING else QUICK)
def test_a_broken_script_fails_in_the_right_part(name: str, tmp_path: Path) -> None:
    broken = BROKEN[name]
    part = judged(broken.source, broken.part, tmp_path, (2,), broken.limit)
    assert part.passed is False
    assert broken.said in part.said, part
    assert broken.advice in part.advice, part
    assert part.advice.endswith((".", "`."))


@pytest.mark.skipif(not EVERYTHING, reason="takes minutes")
@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("name", RIGHT)
def test_right_scripts_of_each_style_pass_each_part(name: str, part: str, tmp_path: Path) -> None:
    found = judged(RIGHT[name], part, tmp_path)
    assert found.passed, found
    assert not found.advice
