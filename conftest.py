"""For all tests, and the lessons that they run: nothing of who works on the course changes, or is changed by, them."""

from __future__ import annotations

import os
import signal

os.environ["DDP_LESSONS_PROGRESS"] = "off"
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # a run in the background ignores it, and so would all it starts
    signal.signal(signal.SIGINT, signal.default_int_handler)
