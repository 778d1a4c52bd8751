"""Judge one part of a script, with the runs of the plain program shared by all tests."""

from __future__ import annotations

import functools
import random
import tempfile
from collections.abc import Sequence
from pathlib import Path

from ddp_lessons.capstone.capstone_check import PARTS, judged_part
from ddp_lessons.capstone.capstone_parts import Part
from ddp_lessons.capstone.capstone_trials import SIZES, Trials


@functools.cache
def of_the_plain_program() -> Trials:
    """Its runs do not depend on the script."""
    trials = Trials(Path("none.py"), Path(tempfile.mkdtemp()), random.Random(0), sizes=())
    assert all(outcome.has_ended for outcome in [*trials.alone, *trials.watched.values()])
    return trials


def trials_of(source: str, folder: Path, sizes: Sequence[int] = SIZES, limit: float = 200.0) -> Trials:
    script, plain = folder / "my_train.py", of_the_plain_program()
    script.write_text(source, encoding="utf-8")
    trials = Trials(script, folder, random.Random(0), sizes=tuple(sizes))
    trials.alone, trials.watched_plain, trials.limit = plain.alone, plain.watched[0], limit
    (folder / "watched-0.json").write_bytes((plain.folder / "watched-0.json").read_bytes())
    return trials


def judged(source: str, part: str, folder: Path, sizes: Sequence[int] = SIZES, limit: float = 200.0) -> Part:
    return judged_part(part, PARTS[part], trials_of(source, folder, sizes, limit))
