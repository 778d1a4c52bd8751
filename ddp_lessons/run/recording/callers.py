"""Inside a rank: the line that makes a call, read from the stack, skipping torch's own code and ours."""

from __future__ import annotations

import functools
import os
import sys
from types import FrameType

from ddp_lessons.own_files import PACKAGE

_LEARNERS, _TORCHS, _PUBLIC = range(3)
_OF_MODES = ("__torch_function__", "__torch_dispatch__")  # a learner's functions that torch calls in between
_DEPRECATING = ("typing_extensions.py", "warnings.py")  # they wrap torch's functions with older names
_HANDING_ON = (
    *("c10d_logger.py", "interception.py", "functional_collectives.py", f"torch{os.sep}overrides.py"),
    *_DEPRECATING,
)


def who_called(frame: FrameType | None) -> tuple[str, FrameType | None]:
    """The torch function that was called, "" if there is none, and the frame that called it."""
    name = ""
    while frame is not None:
        code = frame.f_code
        owner = _owner(code.co_filename)
        if owner == _LEARNERS and code.co_name not in _OF_MODES:
            break
        if owner == _PUBLIC:
            name = code.co_name
        frame = frame.f_back
    return name, frame


def is_called_directly(frame: FrameType | None) -> bool:
    """Did a learner's line call this, and not other code of torch?"""
    while frame is not None:
        file = frame.f_code.co_filename
        owner = _owner(file)
        if owner == _LEARNERS and frame.f_code.co_name not in _OF_MODES:
            break
        if owner == _TORCHS and not file.endswith(_HANDING_ON):
            return False
        frame = frame.f_back
    return True


def is_torchs(file: str) -> bool:
    """Or this package's."""
    return _owner(file) != _LEARNERS


@functools.cache
def _owner(file: str) -> int:
    torch = os.path.dirname(os.path.abspath(sys.modules["torch"].__file__ or "")) + os.sep
    if file == sys.modules["torch.distributed.distributed_c10d"].__file__:
        return _PUBLIC
    is_inside = os.path.abspath(file).startswith((torch, PACKAGE)) or os.path.basename(file) in _DEPRECATING
    return _TORCHS if is_inside else _LEARNERS
