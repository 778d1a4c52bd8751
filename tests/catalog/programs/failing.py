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
Function = Callable[[int, int], object]


def meet() -> None:
    dist.all_reduce(torch.ones(1))


def fails(act: Callable[[], None]) -> Function:
    """One rank does this between two collectives."""

    def function(rank: int, world_size: int) -> None:
        meet()
        if rank == FAILS:
            act()
        meet()

    function.__name__ = function.__qualname__ = act.__name__
    return function


@fails
def raises() -> None:
    print("about to divide")
    raise ValueError("partition sizes add up to 1.2")


def all_raise_alike(rank: int, world_size: int) -> None:
    meet()
    raise ValueError("all alike")


@fails
def raises_from_another() -> None:
    try:
        int("four")
    except ValueError as error:
        raise RuntimeError("no number of epochs") from error


@fails
def raises_after_a_flood() -> None:
    for number in range(20_000):
        print("step", number)
    raise ValueError("lost")


def down(depth: int) -> None:
    down(depth + 1)


@fails
def calls_itself_without_end() -> None:
    down(0)


@fails
def has_too_little_memory() -> None:
    torch.empty(2**50)


@fails
def calls_sys_exit() -> None:
    sys.exit("no data")


@fails
def exits_with_0() -> None:
    os._exit(0)


@fails
def is_killed() -> None:
    os.kill(os.getpid(), signal.SIGKILL)  # as the system does if it has no memory left


@fails
def crashes() -> None:
    ctypes.string_at(0)


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


@fails
def leaves_a_daemon() -> None:
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            time.sleep(1000)
        os._exit(0)
    os.wait()
    raise ValueError("with a daemon")


def returns_a_lock(rank: int, world_size: int) -> object:
    meet()
    return threading.Lock() if rank == FAILS else rank


class _Trap:
    def __reduce__(self) -> tuple[Callable[[str], object], tuple[str]]:
        return int, ("not a number",)


def returns_what_breaks(rank: int, world_size: int) -> object:
    meet()
    return _Trap() if rank == FAILS else rank


@fails
def is_stopped() -> None:
    os.kill(os.getpid(), signal.SIGSTOP)


def sleeps(rank: int, world_size: int) -> None:
    meet()
    if rank == FAILS:
        time.sleep(600)


def computes(rank: int, world_size: int) -> None:
    meet()
    if rank == FAILS:
        sum(range(10**12))


@fails
def is_terminated() -> None:
    os.kill(os.getpid(), signal.SIGTERM)


@fails
def aborts() -> None:
    os.abort()


class Unloadable:
    """What arrives in a rank in its place is the result of `call(argument)`."""

    def __init__(self, name: str, call: Callable[..., object], argument: object) -> None:
        self.__name__, self._arrives = name, (call, (argument,))

    def __call__(self, rank: int, world_size: int) -> None:
        """Only what arrives in its place could be called."""

    def __reduce__(self) -> tuple[Callable[..., object], tuple[object]]:
        return self._arrives


NEVER_BEGIN: tuple[Function, ...] = (
    Unloadable("breaks_on_its_way", int, "not a number"),
    Unloadable("has_a_lock", int, threading.Lock()),
)
NEVER_RETURN: tuple[Function, ...] = (sleeps, computes, is_stopped)
FAILURES: tuple[Function, ...] = (
    *(raises, all_raise_alike, raises_from_another, raises_after_a_flood, calls_itself_without_end),
    *(has_too_little_memory, calls_sys_exit, exits_with_0, is_killed, is_terminated, aborts, crashes),
    *(dies_while_others_compute, leaves_a_child, leaves_a_daemon, returns_a_lock, returns_what_breaks),
)
