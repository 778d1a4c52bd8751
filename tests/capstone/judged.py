"""Judge one part of a script, with the runs of the plain program shared by all tests."""

from __future__ import annotations

import functools
import random
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path

from ddp_lessons.capstone.capstone_check import PARTS, judged_part
from ddp_lessons.capstone.capstone_parts import Part
from ddp_lessons.capstone.capstone_trials import SIZES, Trials


@functools.cache
def of_the_plain_program() -> Trials:
    """Its runs do not depend on the script."""
    return Trials(Path("none.py"), Path(tempfile.mkdtemp()), random.Random(0))


def trials_of(source: str, folder: Path, sizes: Sequence[int] = SIZES, limit: float = 200.0) -> Trials:
    script, plain = folder / "my_train.py", of_the_plain_program()
    script.write_text(source, encoding="utf-8")
    trials = Trials(script, folder, random.Random(0), sizes=tuple(sizes))
    trials.watched_plain, trials.limit = plain.watched_plain, limit
    shutil.copy(plain.folder / "watched-0.json", folder)
    return trials


def judged(source: str, part: str, folder: Path, sizes: Sequence[int] = SIZES, limit: float = 200.0) -> Part:
    return judged_part(part, PARTS[part], trials_of(source, folder, sizes, limit))
