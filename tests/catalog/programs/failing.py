"""Functions of which a rank fails: it raises, dies, returns what can't travel, or never comes back."""

import ctypes
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable

import torch
import torch.distributed as dist

FAILS = 2  # the rank


def meet() -> None:
    dist.all_reduce(torch.ones(1))


# --- it raises --------------------------------------------------------------------------------------------------------


def raises(rank: int, world_size: int) -> None:
    meet()
    if rank == FAILS:
        print("about to divide")
        raise ValueError("partition sizes add up to 1.2")
    meet()


def all_raise_alike(rank: int, world_size: int) -> None:
    meet()
    raise ValueError("all alike")


def raises_from_another(rank: int, world_size: int) -> None:
    meet()
    if rank == FAILS:
        try:
            int("four")
        except ValueError as error:
            raise RuntimeError("no number of epochs") from error
    meet()


def raises_a_class_of_its_own(rank: int, world_size: int) -> None:
    class TooFewSamples(Exception):
        def __init__(self, count: int, needed: int) -> None:  # does not unpickle
            super().__init__(f"{count} of {needed}")

    meet()
    if rank == FAILS:
        raise TooFewSamples(3, needed=4)
    meet()


def raises_without_words(rank: int, world_size: int) -> None:
    class Mute(Exception):
        def __str__(self) -> str:
            raise SystemExit("no words")

        __repr__ = __str__

    meet()
    if rank == FAILS:
        raise Mute
    meet()


def raises_a_megabyte(rank: int, world_size: int) -> None:
    meet()
    if rank == FAILS:
        raise ValueError("begin " + "x" * 1_000_000 + " end")
    meet()


def raises_after_a_flood(rank: int, world_size: int) -> None:
    meet()
    if rank == FAILS:
        for number in range(20_000):
            print("step", number)
        raise ValueError("lost")
    meet()


def calls_itself_without_end(rank: int, world_size: int) -> None:
    def down(depth: int) -> None:
        down(depth + 1)

    meet()
    if rank == FAILS:
        down(0)
    meet()


def has_too_little_memory(rank: int, world_size: int) -> None:
    meet()
    if rank == FAILS:
        torch.empty(2**50)
    meet()


def raises_keyboard_interrupt(rank: int, world_size: int) -> None:
    meet()
    if rank == FAILS:
        raise KeyboardInterrupt
    meet()


def fails_inside_torch(rank: int, world_size: int) -> None:
    meet()
    if rank == FAILS:
        torch.ones(2) @ torch.ones(3)
    meet()


# --- it dies ----------------------------------------------------------------------------------------------------------


def calls_sys_exit(rank: int, world_size: int) -> None:
    meet()
    if rank == FAILS:
        sys.exit("no data")
    meet()


def exits_with_3(rank: int, world_size: int) -> None:
    meet()
    if rank == FAILS:
        os._exit(3)
    meet()


def exits_with_0(rank: int, world_size: int) -> None:
    meet()
    if rank == FAILS:
        os._exit(0)
    meet()


def is_killed(rank: int, world_size: int) -> None:
    meet()
    if rank == FAILS:
        os.kill(os.getpid(), signal.SIGKILL)  # as the system does if it has no memory left
    meet()


def is_terminated(rank: int, world_size: int) -> None:
    meet()
    if rank == FAILS:
        os.kill(os.getpid(), signal.SIGTERM)
    meet()


def crashes(rank: int, world_size: int) -> None:
    meet()
    if rank == FAILS:
        ctypes.string_at(0)
    meet()


def aborts(rank: int, world_size: int) -> None:
    meet()
    if rank == FAILS:
        os.abort()
    meet()


def becomes_another_program(rank: int, world_size: int) -> None:
    meet()
    if rank == FAILS:
        os.execv("/bin/true", ["true"])
    meet()


def kills_its_process_group(rank: int, world_size: int) -> None:
    meet()
    if rank == FAILS:
        os.killpg(0, signal.SIGKILL)
    meet()


def dies_while_others_compute(rank: int, world_size: int) -> None:
    meet()
    if rank == FAILS:
        os._exit(3)
    sum(range(10**12))  # in C, with the GIL held


def leaves_a_child(rank: int, world_size: int) -> None:
    subprocess.Popen(["sleep", "1000"])
    meet()
    if rank == FAILS:
        os._exit(1)
    meet()


def leaves_a_daemon(rank: int, world_size: int) -> None:
    meet()
    if rank == FAILS:
        if os.fork() == 0:
            os.setsid()
            if os.fork() == 0:
                time.sleep(1000)
            os._exit(0)
        os.wait()
        raise ValueError("with a daemon")
    meet()


# --- it returns, or should --------------------------------------------------------------------------------------------


def returns_a_lock(rank: int, world_size: int) -> object:
    meet()
    return threading.Lock() if rank == FAILS else rank


class _Trap:
    def __reduce__(self) -> tuple[Callable[[str], object], tuple[str]]:
        return int, ("not a number",)


def returns_what_breaks(rank: int, world_size: int) -> object:
    meet()
    return _Trap() if rank == FAILS else rank


def sleeps(rank: int, world_size: int) -> None:
    meet()
    if rank == FAILS:
        time.sleep(600)


def computes(rank: int, world_size: int) -> None:
    meet()
    if rank == FAILS:
        sum(range(10**12))


def is_stopped(rank: int, world_size: int) -> None:
    meet()
    if rank == FAILS:
        os.kill(os.getpid(), signal.SIGSTOP)
    meet()


# --- it does not even begin -------------------------------------------------------------------------------------------


class Unloadable:
    """What arrives in a rank in its place is the result of `call(*arguments)`."""

    def __init__(self, name: str, call: Callable[..., object], *arguments: object) -> None:
        self.__name__, self._call, self._arguments = name, call, arguments

    def __call__(self, rank: int, world_size: int) -> None:
        """Only what arrives in its place could be called."""

    def __reduce__(self) -> tuple[Callable[..., object], tuple[object, ...]]:
        return self._call, self._arguments


breaks_on_its_way = Unloadable("breaks_on_its_way", int, "not a number")
kills_when_it_arrives = Unloadable("kills_when_it_arrives", os._exit, 7)
has_a_lock = Unloadable("has_a_lock", int, threading.Lock())

NEVER_BEGIN = (breaks_on_its_way, kills_when_it_arrives, has_a_lock)
NEVER_RETURN = (sleeps, computes, is_stopped)
FAILURES = (
    raises,
    all_raise_alike,
    raises_from_another,
    raises_a_class_of_its_own,
    raises_without_words,
    raises_a_megabyte,
    raises_after_a_flood,
    calls_itself_without_end,
    has_too_little_memory,
    raises_keyboard_interrupt,
    fails_inside_torch,
    calls_sys_exit,
    exits_with_3,
    exits_with_0,
    is_killed,
    is_terminated,
    crashes,
    aborts,
    becomes_another_program,
    kills_its_process_group,
    dies_while_others_compute,
    leaves_a_child,
    leaves_a_daemon,
    returns_a_lock,
    returns_what_breaks,
)
