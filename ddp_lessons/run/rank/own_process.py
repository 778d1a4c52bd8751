"""What a rank changes in its process: output, memory, exit."""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import multiprocessing
import os
import shutil
import signal
import sys
from typing import Any, NoReturn


def print_to(output: int) -> None:
    """Send all output of this process, also from C++, to `output`, line by line."""
    with open(os.devnull, "rb") as nothing:
        os.dup2(nothing.fileno(), 0)
    os.dup2(output, 1)
    os.dup2(output, 2)
    sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115  all three stay open
    sys.stdout = open(1, "w", buffering=1, encoding="utf-8", errors="backslashreplace", closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", buffering=1, encoding="utf-8", errors="backslashreplace", closefd=False)  # noqa: SIM115
    vars(sys).update(__stdout__=sys.stdout, __stderr__=sys.stderr)  # a function may replace the others


def buffer_c_output_by_line() -> None:
    libc = ctypes.CDLL(None)
    name = "__stdoutp" if sys.platform == "darwin" else "stdout"
    by_line = 1  # stdio's _IOLBF
    libc.setvbuf(ctypes.c_void_p.in_dll(libc, name), None, by_line, ctypes.c_size_t(0))


def keep_freed_memory() -> None:
    """Reuse the memory of one step's tensors in the next: freeing and allocating it takes a tenth of the step."""
    if sys.platform == "linux" and hasattr(libc := ctypes.CDLL(None), "mallopt"):  # glibc has it
        trim_threshold, mmap_threshold = -1, -3  # M_TRIM_THRESHOLD, M_MMAP_THRESHOLD
        libc.mallopt(trim_threshold, 512 * 2**20)
        libc.mallopt(mmap_threshold, 32 * 2**20)  # the maximum


def take_no_more_than(more_bytes: int) -> None:
    """On top of the memory in use, which is mostly shared with the template. Only Linux counts written pages."""
    if sys.platform == "linux":
        import resource

        with open("/proc/self/status") as told:
            kilobytes = next(line.split()[1] for line in told if line.startswith("VmData"))
        most = int(kilobytes) * 1024 + more_bytes
        resource.setrlimit(resource.RLIMIT_DATA, (most, most))


def linger_before_an_abort() -> None:
    """gloo aborts the process if sizes do not match. Give the other thread a moment to report the calls.

    After Python's crash report this handler is called: the system's sleep, with the signal's number, 6, as its seconds.
    The notebook ends the process earlier.
    """
    if sys.platform == "linux":
        libc = ctypes.CDLL(None)
        libc.signal.argtypes = (ctypes.c_int, ctypes.c_void_p)
        libc.signal(int(signal.SIGABRT), ctypes.cast(libc.sleep, ctypes.c_void_p))


def flush() -> None:
    for stream in (sys.stdout, sys.stderr, sys.__stdout__, sys.__stderr__):
        with contextlib.suppress(OSError, ValueError, AttributeError):  # closed or replaced by the function
            stream.flush()  # type: ignore[union-attr]
    ctypes.CDLL(None).fflush(None)


def end_group() -> NoReturn:
    """The notebook has exited: end this process and all that it started."""
    if os.getpgrp() == os.getpid():
        os.killpg(0, signal.SIGKILL)
    os._exit(1)


def keep_sockets_in(folder: str) -> None:
    """Those of DataLoader workers: there they go with the notebook, even if a rank is killed."""
    multiprocessing.current_process()._config["tempdir"] = folder  # type: ignore[attr-defined]


def leave_when_orphaned(notebook: int, folder: str) -> None:
    """The channel is not read while torch is imported, so check from time to time whether the notebook runs."""
    signal.signal(signal.SIGUSR1, signal.SIG_IGN)  # until there is a line to report
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGUSR1])  # spawned ranks start with it blocked

    def look(*_: object) -> None:
        if os.getppid() != notebook:
            shutil.rmtree(folder, ignore_errors=True)
            os._exit(0)

    signal.signal(signal.SIGALRM, look)
    signal.setitimer(signal.ITIMER_REAL, 0.2, 0.2)


def stay_when_orphaned() -> None:
    """From now on a closed channel means that the notebook has exited."""
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, signal.SIG_DFL)


def forget_inherited_state() -> None:
    """After a fork: reset what a new process would not share with its siblings."""
    modules: dict[str, Any] = sys.modules
    atexit._clear()  # torch's exit handlers take 40 ms, and clean up what this process never started
    atexit.register(modules["multiprocessing.util"]._exit_function)
    modules["torch"].default_generator.seed()
    if "numpy.random" in modules:
        modules["numpy.random"].seed()
