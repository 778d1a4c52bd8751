"""What a launch leaves to Python's garbage collector: nothing large, and nothing that it cannot collect."""

from __future__ import annotations

import torch
from nights import nightly
from processes import Program

from ddp_lessons.run.wire.travel import from_notebook, pack_call, pack_value

_FAILS_AND_COLLECTS = """
import gc
from ddp_lessons import launch

def attempt():
    try:
        launch(lambda rank, world_size: 1 / 0, 2, quiet=True)
    except Exception as error:
        kept = error  # a reference cycle: the error, its traceback, this frame

for _ in range(3):
    attempt()
    gc.collect()
print("collected")
"""


@nightly
def test_a_failed_launch_can_be_collected() -> None:
    """Early releases of Python 3.12 died of it, and early ones of 3.13 complained."""
    with Program(_FAILS_AND_COLLECTS) as program:
        assert program.finish() == "collected\n"


def test_no_buffer_of_a_call_is_lent_by_a_stream() -> None:
    """This holds the cause on every Python: a lent BytesIO must not get into a reference cycle (gh-111049)."""
    buffers = pack_call(print, [torch.ones(3), b"bytes"])[0] + pack_value([torch.ones(3)], from_notebook())
    owners = [type(memoryview(buffer).obj).__name__ for buffer in buffers]
    assert not [owner for owner in owners if "BytesIO" in owner], owners
