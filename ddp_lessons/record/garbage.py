"""Without Python's garbage collection for a while."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator


@contextlib.contextmanager
def nothing_collected() -> Iterator[None]:
    """Turn off garbage collection, and afterwards on again if it was on.

    It has to be off while we look at another thread's frames. Python creates the objects for these frames at this
    moment, which may start a collection. Freeing objects may let other threads run: they leave frames while we read
    them, or wait forever for the GIL (CPython's issue 106883). And our thread must not free a learner's objects while
    the learner's thread computes.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
