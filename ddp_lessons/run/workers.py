"""The engine under `launch`: start ranks, run functions on them, end them."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any, TypeVar

from ddp_lessons.run import calls
from ddp_lessons.run.account import Account
from ddp_lessons.run.agreement import first_fault, may_disagree
from ddp_lessons.run.events import Events
from ddp_lessons.run.failures import not_to_be_trusted, where_each_is, worker_failed, workers_stuck
from ddp_lessons.run.folders import current_folder, module_path, session_folder
from ddp_lessons.run.interrupts import HeldInterrupts
from ddp_lessons.run.messages import COMPILER, MARK, Buffer, Leave, Recorded, Start, Task
from ddp_lessons.run.nursery import start_method as checked_start_method
from ddp_lessons.run.output import Transcript
from ddp_lessons.run.pool import pool
from ddp_lessons.run.results import NO_VALUE, Results, told_by_rank
from ddp_lessons.run.screen import Live, screen_for_here
from ddp_lessons.run.travel import pack_call
from ddp_lessons.run.watch import Ending, Rank, Watch

T = TypeVar("T")
_SECONDS_TO_LEAVE = 1.0
_LONGEST_PATIENCE_SECONDS = 600.0  # where a function may take as long as it likes


class Interrupted(KeyboardInterrupt):
    """The learner stopped the ranks; the message says where each one was."""

    def _render_traceback_(self) -> list[str]:
        return [f"KeyboardInterrupt: {self}"]


class Workers:
    """Ranks that stay: as many `run` as you like on the same processes, in one process group.

        with Workers(4) as workers:
            first = workers.run(function, argument)

    After a failure all of its ranks are stopped; open new Workers then.
    """

    def __init__(
        self,
        world_size: int = 2,
        *,
        timeout_seconds: float | None = 60.0,
        backend: str | None = None,
        join: bool = True,
        start_method: str | None = None,
        quiet: bool = False,
        record: bool | str = True,
        live: Callable[[Results[Any]], object] | None = None,
    ) -> None:
        with calls.refused_plainly():
            calls.check_not_inside_a_rank()
            calls.check_torch_is_pytorch()
            self.world_size = calls.checked_world_size(world_size)
            self._timeout_seconds = calls.checked_timeout(timeout_seconds)
            checked_backend = calls.checked_backend(backend, self.world_size)
            self._backend = checked_backend if join else None
            self._start_method = checked_start_method(start_method)
            self._record = calls.checked_record(record)
            self._live = calls.checked_live(live)
        self._quiet = quiet
        self._why_closed = ""
        self._one_run = threading.Lock()
        self._ranks: list[Rank] = []
        self._need_compiler = False
        with HeldInterrupts():
            self._start()

    def run(self, function: Callable[..., T], *args: object) -> Results[T]:
        """Run `function(rank, world_size, *args)` on every rank and return their answers by rank.

        Raises:
            WorkerFailed: a rank raised or died; the message names it and shows its line.
            WorkersStuck: not every rank returned in time; the message shows where each is.
        """
        __tracebackhide__ = True
        begin = time.monotonic()
        with calls.refused_plainly():
            calls.check_function(function, self.world_size, args)
            if self._why_closed:
                raise RuntimeError(f"these Workers are closed: {self._why_closed}. Open new ones")
            buffers, sources = pack_call(function, args)
            if not self._one_run.acquire(blocking=False):
                raise RuntimeError(
                    "these Workers run a function in another thread already; wait for that, or open others"
                )
        try:
            for number, rank in enumerate(self._ranks):
                name = f"output-of-rank-{number}-{time.time_ns()}.txt"
                rank.transcript = Transcript(os.path.join(session_folder(), name))
            with HeldInterrupts() as interrupts:
                return self._follow((Task(sources), buffers), interrupts, begin)
        finally:
            self._one_run.release()

    def close(self) -> None:
        """Let the ranks go. Whatever they left running ends with them."""
        if not self._why_closed:
            with HeldInterrupts():
                self._let_go()

    def __enter__(self) -> Workers:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, path: TracebackType | None
    ) -> None:
        self.close()

    def __del__(self) -> None:
        if getattr(self, "_ranks", None) and not self._why_closed:
            self._stop("nobody used them any more")
            self._release()

    def _start(self) -> None:
        self._folder = tempfile.mkdtemp(dir=session_folder())
        self._port = _reserved_port()
        processes = pool.take(self.world_size, self._start_method)
        threads = _asked_threads() or max(1, _cores() // self.world_size)
        environment = self._environment(threads)
        for number, process in enumerate(processes):
            crash_file = os.path.join(self._folder, f"crash-{number}")
            self._ranks.append(Rank(process, crash_file, Transcript("")))
            start = Start(
                rank=number,
                world_size=self.world_size,
                environment={
                    **environment,
                    "RANK": str(number),
                    "LOCAL_RANK": str(number),
                    MARK: str(process.number),
                },
                current_folder=current_folder(),
                module_path=module_path(),
                meeting_file=os.path.join(self._folder, "meeting"),
                crash_file=crash_file,
                backend=self._backend,
                threads=threads,
                patience_seconds=min(self._timeout_seconds or _LONGEST_PATIENCE_SECONDS, _LONGEST_PATIENCE_SECONDS),
                record=self._record,
            )
            with contextlib.suppress(OSError):
                process.channel.send(start)

    def _environment(self, threads: int) -> dict[str, str]:
        """What torchrun would set, and what keeps gloo on this machine."""
        loopback = {"linux": "lo", "darwin": "lo0"}.get(sys.platform)
        return {
            **({"GLOO_SOCKET_IFNAME": loopback} if loopback else {}),
            "OMP_NUM_THREADS": str(threads),
            **os.environ,
            "WORLD_SIZE": str(self.world_size),
            "LOCAL_WORLD_SIZE": str(self.world_size),
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": str(self._port.getsockname()[1]),
        }

    def _follow(self, task: tuple[Task, list[Buffer]], interrupts: HeldInterrupts, begin: float) -> Results[Any]:
        __tracebackhide__ = True
        screen, live = screen_for_here(self._quiet), Live(self._live, self.world_size)
        watch = Watch(self._ranks, self._timeout_seconds, task)
        try:
            ending = watch.until_the_end(screen, live, interrupts)
            if ending is not Ending.RETURNED:
                self._stop(ending.value)
            watch.drain()
        finally:
            watch.close()
            self._need_compiler |= any(recorded.has_compiler for recorded in watch.recorded.values())
            for rank in self._ranks:
                rank.transcript.finish()
            screen.finish([rank.transcript for rank in self._ranks])
            if self._why_closed:
                self._release()
        values = tuple(watch.returned.get(number, NO_VALUE) for number in range(self.world_size))
        lines = tuple(list(rank.transcript.lines()) for rank in self._ranks)
        events = Events([watch.recorded.get(number) for number in range(self.world_size)])
        told = told_by_rank([watch.told.get(number, ()) for number in range(self.world_size)], events.origin)
        results: Results[Any] = Results(values, lines, time.monotonic() - begin, events, told)
        live.finish(results)
        account = watch.account()
        if ending is Ending.RETURNED:
            return self._trusted(results, account, [watch.recorded.get(rank) for rank in range(self.world_size)])
        if ending is Ending.FAILED:
            raise worker_failed(account, results)
        if ending in (Ending.STUCK, Ending.OUT_OF_TIME):
            raise workers_stuck(account, results, is_for_ever=ending is Ending.STUCK)
        interrupts.noted = False
        raise Interrupted("\n".join(["the ranks were stopped by you", *where_each_is(account)]))

    def _trusted(self, results: Results[Any], account: Account, recorded: Sequence[Recorded | None]) -> Results[Any]:
        __tracebackhide__ = True
        if self._record and may_disagree(recorded) and (reason := first_fault(results.events)) is not None:
            self.close()
            raise not_to_be_trusted(account, results, reason)
        return results

    def _let_go(self) -> None:
        for rank in self._ranks:
            with contextlib.suppress(OSError):
                rank.process.channel.send(Leave())
        watch = Watch(self._ranks, None)
        watch.until_all_left(_SECONDS_TO_LEAVE)
        watch.close()
        self._stop("they were closed")
        self._release()

    def _stop(self, why: str) -> None:
        """End all processes that are still there."""
        self._why_closed = why
        alive = [rank.process for rank in self._ranks if rank.died is None]
        if alive:
            alive[0].nursery.stop(alive)

    def _release(self) -> None:
        for rank in self._ranks:
            rank.process.close()
        self._port.close()
        shutil.rmtree(self._folder, ignore_errors=True)
        if self._need_compiler and not _has_gpu():
            pool.import_ahead(COMPILER, self._start_method)
        pool.prepare(self.world_size, self._start_method)


def _reserved_port() -> socket.socket:
    """A free port for a function that joins by itself: bound, so that nobody else gets it, but not listened on."""
    port = socket.socket()
    port.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    port.bind(("127.0.0.1", 0))
    return port


def _has_gpu() -> bool:
    """Where there is one, the template imports nothing that might touch it: after that it could not be forked."""
    return os.path.exists("/dev/nvidiactl") or os.path.exists("/dev/kfd")


def _asked_threads() -> int:
    """What the learner set, if it is a number of threads; else 0. OpenMP, too, passes over what it cannot read."""
    first = os.environ.get("OMP_NUM_THREADS", "").partition(",")[0].strip()
    return int(first) if first.isdecimal() else 0


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
