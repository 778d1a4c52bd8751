"""Which files are this package's own: the course, and the modules whose lines are no learner's."""

from __future__ import annotations

import os
from pathlib import Path

PACKAGE = os.path.dirname(os.path.abspath(__file__)) + os.sep
RUN = os.path.join(PACKAGE, "run", "")
RECORDING = os.path.join(RUN, "recording", "")
IMPORTED_FROM = os.path.dirname(os.path.dirname(PACKAGE))

# A wheel has the course inside the package; in a clone its folders are next to the package.
INSTALLED = Path(PACKAGE, "course")
COURSE = INSTALLED if INSTALLED.is_dir() else Path(IMPORTED_FROM)
NOTEBOOKS, SCRIPTS = COURSE / "notebooks", COURSE / "scripts"
DATA = COURSE / "data"  # MNIST
