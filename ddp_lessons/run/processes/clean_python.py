"""The interpreter that ranks start in: its command, its module path, and the variables that it reads once."""

from __future__ import annotations

import os
import subprocess
import sys

from ddp_lessons.own_files import IMPORTED_FROM
from ddp_lessons.run.launcher.private_folders import current_folder

_READ_WHEN_IMPORTED = ("OMP_", "MKL_", "KMP_", "GOMP_", "OPENBLAS_", "TORCH_", "PYTORCH_", "PYTHON", "LD_", "DYLD_")
# ranks get the notebook's module path, so PYTHONPATH adds nothing: a change of it needs no new import of torch
_READ_BY_EACH_RANK = ("TORCH_DISTRIBUTED_DEBUG", "OMP_NUM_THREADS", "PYTHONPATH")


def clean_python(module: str, call: str) -> list[str]:
    """A clean interpreter that finds this package where the notebook found it, but nothing of the current folder."""
    here = current_folder()
    path = [os.path.join(here, folder) for folder in sys.path if folder not in ("", here)]
    code = f"import sys; sys.path[:] = {[*path, IMPORTED_FROM]!a}; from ddp_lessons.run.rank import {module}; {call}"
    flags: list[str] = subprocess._args_from_interpreter_flags()  # type: ignore[attr-defined]
    return [sys.executable, *flags, "-c", code]


def environment_of_import() -> dict[str, str]:
    """The variables that Python, torch and its libraries read once, when they are loaded."""
    return {
        name: value
        for name, value in os.environ.items()
        if name.startswith(_READ_WHEN_IMPORTED) and not name.startswith(_READ_BY_EACH_RANK)
    }


def quiet_environment() -> dict[str, str]:
    """Numpy must not start threads at import, and gloo must not log what it also raises."""
    return {"OPENBLAS_NUM_THREADS": "1", "TORCH_CPP_LOG_LEVEL": "FATAL", **os.environ}
