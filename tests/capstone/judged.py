"""Judge one part of a script, with the runs of the plain program shared by all tests."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path

from ddp_lessons.capstone.capstone_check import PARTS, judged_part
from ddp_lessons.capstone.capstone_parts import Part
from ddp_lessons.capstone.capstone_trials import SIZES, Trials
from ddp_lessons.capstone.script_runs import Outcome

_alone: list[Outcome] = []


def trials_of(source: str, folder: Path, sizes: Sequence[int] = SIZES, limit: float = 200.0) -> Trials:
    script = folder / "my_train.py"
    script.write_text(source, encoding="utf-8")
    trials = Trials(script, folder, random.Random(0), sizes=tuple(sizes))
    if not _alone:
        kept = folder.parent / "alone"
        kept.mkdir()
        _alone.extend(Trials(script, kept, random.Random(0)).alone)
    trials.__dict__["alone"] = _alone
    trials.limit = limit
    return trials


def judged(source: str, part: str, folder: Path, sizes: Sequence[int] = SIZES, limit: float = 200.0) -> Part:
    return judged_part(part, PARTS[part], trials_of(source, folder, sizes, limit))
