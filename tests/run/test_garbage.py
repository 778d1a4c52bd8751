"""What a launch leaves to Python's garbage collector: nothing large, and nothing that it cannot collect."""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from nights import nightly
from processes import Program

from ddp_lessons.run.rank.what_blocks import Surroundings, standing
from ddp_lessons.run.recording.recorder import Recorder
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


@contextmanager
def nothing_is_collected() -> Iterator[None]:
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def test_a_tensor_that_was_sent_is_freed_without_a_garbage_collection() -> None:
    with nothing_is_collected():
        tensor = torch.ones(3)
        pack_call(print, [tensor])
        gone = weakref.ref(tensor)
        del tensor
        assert gone() is None


def test_a_look_at_a_rank_keeps_nothing_of_what_its_threads_hold() -> None:
    """Else a store outlives `destroy_process_group`, and a second world finds it at its port."""
    holds, looked, held = threading.Event(), threading.Event(), list[weakref.ref[torch.Tensor]]()

    def hold() -> None:
        tensor = torch.ones(3)
        held.append(weakref.ref(tensor))
        holds.set()
        looked.wait(20)

    with nothing_is_collected():
        thread = threading.Thread(target=hold)
        thread.start()
        holds.wait(20)
        standing(Recorder(), Surroundings(threading.main_thread().ident, "nowhere", 1.0))
        looked.set()
        thread.join()
        del thread
        assert [kept() for kept in held] == [None]
