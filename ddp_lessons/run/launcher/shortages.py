"""What a machine can run out of when ranks start or run, and what to do about it."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import shutil
import tempfile
from collections.abc import Iterator

_BUS_ERROR = re.compile("insufficient shared memory|out of shared memory")
_NO_SHARED_MEMORY = re.compile("shared memory|/dev/shm|SemLock")
_NO_PROCESSES = ("start new thread", "Thread creation failed", "Resource temporarily unavailable")
_FULL = "No space left on device"
FILES_OF_A_RANK = 5  # on a node and in its notebook: both ends of its messages and of its output, and its crash file
_SPARE_FILES = 100
_FILES = (
    "restart the kernel to close this notebook's open files, launch fewer ranks, or raise the limit: ulimit -n 4096"
)


def next_step(told: str, traceback: str = "") -> str:
    """For the text of an exception or the last output of a dead process; "" if it is about no shortage."""
    if _NO_SHARED_MEMORY.search(told + traceback) and (_FULL in told or _BUS_ERROR.search(told) or "allocate" in told):
        return (
            f"use num_workers=0 or smaller batches, or give the container more shared memory (docker run --shm-size "
            f"1g): DataLoader workers pass batches through /dev/shm, which has {_size('/dev/shm')}."
        )
    if any(words in told for words in _NO_PROCESSES):
        return _processes()
    if _FULL in told:
        return f"delete files in {_folder()}, or set TMPDIR to another folder: ranks write there, and the disk is full."
    if "Too many open files" in told:
        return f"{_FILES}."
    return ""


def allow_open_files(more: int) -> None:
    """Let this process open so many more files: the usual limit is low, and may be raised up to a hard one."""
    import resource  # Windows has none

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = len(os.listdir("/dev/fd")) + more + _SPARE_FILES
    if soft < needed:
        with contextlib.suppress(OSError, ValueError):
            most = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
            resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))


@contextlib.contextmanager
def named() -> Iterator[None]:
    """While ranks start: turn the system's error into a sentence with a next step, and keep its `errno`."""
    try:
        yield
    except OSError as error:
        if (sentence := _sentence(error)) is None:
            raise
        renamed = OSError(error.errno, sentence)
        renamed._render_traceback_ = lambda: [f"OSError: {sentence}"]  # type: ignore[attr-defined]
        raise renamed from error


def _sentence(error: OSError) -> str | None:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return (
            f"no rank was started: the disk with the temporary folder {_folder()} is full. "
            "Next: delete files there, or set the variable TMPDIR to another folder and restart the kernel."
        )
    if error.errno in (errno.EMFILE, errno.ENFILE):
        return f"no rank was started: too many open files. Next: {_FILES}."
    if error.errno == errno.EAGAIN:
        return f"no rank was started: the system refused another process. Next: {_processes()}"
    is_ours = str(error.filename).startswith(_folder()) and error.errno in (errno.EROFS, errno.EACCES, errno.ENOENT)
    if is_ours or "No usable temporary directory" in str(error):
        return (
            f"no rank was started: ranks need a writable temporary folder, and there is none ({error.strerror}). "
            "Next: set the variable TMPDIR to a folder of yours on a disk with free space, and restart the kernel."
        )
    return None


def _processes() -> str:
    return (
        f"launch fewer ranks, close other programs, or raise the limit: this user may have {_most_processes()} "
        "processes and threads (ulimit -u, or the container's pids limit)."
    )


def _most_processes() -> str:
    try:
        import resource

        most = resource.getrlimit(resource.RLIMIT_NPROC)[0]
        return "a limited number of" if most == resource.RLIM_INFINITY else f"at most {most}"
    except (ImportError, AttributeError, OSError):
        return "a limited number of"


def _folder() -> str:
    try:
        return tempfile.gettempdir()
    except OSError:
        return os.environ.get("TMPDIR", "/tmp")


def _size(folder: str) -> str:
    try:
        return f"{shutil.disk_usage(folder).total / 1e6:.0f} MB"
    except OSError:
        return "too little space"
