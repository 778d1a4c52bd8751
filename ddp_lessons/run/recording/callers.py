"""Inside a rank: the line that makes a call, read from the stack, skipping torch's own code and ours."""

from __future__ import annotations

import os
import sys
from types import CodeType, FrameType

from ddp_lessons.own_files import PACKAGE

_LEARNERS, _TORCHS, _PUBLIC = range(3)
_HANDING_ON = ("c10d_logger.py", "interception.py", "functional_collectives.py", f"torch{os.sep}overrides.py")


def who_called(frame: FrameType | None) -> tuple[str, FrameType | None]:
    """The torch function that was called, "" if there is none, and the frame that called it."""
    name = ""
    while frame is not None:
        code = frame.f_code
        whose = _owners.get(code.co_filename)
        if whose is None:
            whose = _owner(code.co_filename)
        if whose == _LEARNERS and not _hands_on(code, name):
            break
        if whose == _PUBLIC:
            name = code.co_name
        frame = frame.f_back
    return name, frame


def is_called_directly(frame: FrameType | None) -> bool:
    """Did a learner's line call this, and not other code of torch?"""
    name = ""
    while frame is not None and (is_torchs(file := frame.f_code.co_filename) or _hands_on(frame.f_code, name)):
        if _owners[file] == _TORCHS and not file.endswith(_HANDING_ON):
            return False
        name = frame.f_code.co_name if _owners[file] == _PUBLIC else name
        frame = frame.f_back
    return True


def _hands_on(code: CodeType, name: str) -> bool:
    """A learner's function that torch calls in between: of a mode, or a replacement of torch's function."""
    if code.co_name in ("__torch_function__", "__torch_dispatch__"):
        return True
    function = getattr(sys.modules["torch.distributed"], name, None) if name else None
    while function is not None:
        if getattr(function, "__code__", None) is code:
            return True
        function = getattr(function, "__wrapped__", None)
    return False


def is_torchs(file: str) -> bool:
    """Or this package's."""
    return _owner(file) != _LEARNERS


_owners: dict[str, int] = {}


def _owner(file: str) -> int:
    if file not in _owners:
        torch = os.path.dirname(os.path.abspath(sys.modules["torch"].__file__ or "")) + os.sep
        is_inside = os.path.abspath(file).startswith((torch, PACKAGE))
        is_public = file == sys.modules["torch.distributed.distributed_c10d"].__file__
        _owners[file] = _PUBLIC if is_public else _TORCHS if is_inside else _LEARNERS
    return _owners[file]
