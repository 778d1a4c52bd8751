"""Which files are this package's own: their lines are left out where a learner's line is looked for."""

from __future__ import annotations

import os
from pathlib import Path

PACKAGE = os.path.dirname(os.path.abspath(__file__)) + os.sep
RUN = os.path.join(PACKAGE, "run", "")
RECORDING = os.path.join(RUN, "recording", "")
IMPORTED_FROM = os.path.dirname(os.path.dirname(PACKAGE))
DATA = Path(IMPORTED_FROM, "data")  # MNIST
