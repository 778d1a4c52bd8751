"""The engine under `launch`: start ranks, run functions on them, and stop them."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection
from types import TracebackType
from typing import Any, TypeVar

from ddp_lessons.record.events import Events
from ddp_lessons.record.rank_record import Recorded
from ddp_lessons.record.results import NO_VALUE, Results, told_by_rank
from ddp_lessons.run.debugging.dialogue import why_no_prompt
from ddp_lessons.run.diagnosis.call_fit import first_fault, may_disagree
from ddp_lessons.run.diagnosis.failure_messages import not_to_be_trusted, where_each_is, worker_failed, workers_stuck
from ddp_lessons.run.launcher import launch_arguments
from ddp_lessons.run.launcher.follow import Ending
from ddp_lessons.run.launcher.interrupts import HeldInterrupts
from ddp_lessons.run.launcher.launched_call import LaunchedCall, Order
from ddp_lessons.run.launcher.limits import limits
from ddp_lessons.run.launcher.rank_states import Account
from ddp_lessons.run.launcher.world import World
from ddp_lessons.run.nodes.hosts import NodeLost, Nodes
from ddp_lessons.run.nodes.node_group import connected, ready_for_a_call
from ddp_lessons.run.output.screen import Live, screen_for_here
from ddp_lessons.run.output.transcript import Transcript
from ddp_lessons.run.processes.process_sources import start_method as checked_start_method
from ddp_lessons.run.wire.messages import Task
from ddp_lessons.run.wire.travel import pack_call

T = TypeVar("T")


class Interrupted(KeyboardInterrupt):
    """The learner stopped the ranks; the message says where each one was, and `results` has what was recorded."""

    def __init__(self, message: str, results: Results[Any]) -> None:
        super().__init__(message)
        self.results = results

    def _render_traceback_(self) -> list[str]:
        return [f"KeyboardInterrupt: {self}"]


class Workers:
    """Ranks that stay alive, so that you can call `run` repeatedly on the same processes, in one process group::

        with Workers(4) as workers:
            first = workers.run(function, argument)

    After a failure, all ranks are stopped, and you have to create new Workers. With `standing`, you can go on: if all
    ranks had returned, they keep their variables and join a new process group; otherwise, all are restarted.
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
        standing: bool = False,
        on: Nodes | None = None,
        debug: bool = False,
    ) -> None:
        with launch_arguments.refused_plainly():
            launch_arguments.check_not_inside_a_rank()
            self.world_size = launch_arguments.checked_world_size(world_size, on)
            self._limits = limits()
            self._timeout_seconds = launch_arguments.checked("timeout_seconds", timeout_seconds)
            launch_arguments.check_backend_is_known(backend)
            start_method = checked_start_method(start_method)
            self._record = launch_arguments.checked("record", record)
            join = launch_arguments.checked("join", join)
            self._quiet = launch_arguments.checked("quiet", quiet)
            self._standing = launch_arguments.checked("standing", standing)
            self._debug = launch_arguments.checked("debug", debug)
            if debug and (reason := why_no_prompt()):
                raise ValueError(f"debug=True needs a prompt that you can answer, but {reason}")
            self._live = launch_arguments.checked("live", live)
            self._on = on  # an allocation lasts as long as its object
            # last, because a wrong argument must not wait until there are nodes
            on = launch_arguments.checked("on", on)
            nodes = connected(on) if on is not None else None
            gpus = nodes.gpus(self.world_size) if nodes is not None else None
            backend = launch_arguments.checked_backend(backend, self.world_size, gpus)
        self._one_run = threading.Lock()
        self._heavy_imports: set[str] = set()
        self._world: World | None = None
        with HeldInterrupts(), launch_arguments.refused_plainly():
            self._world = World(
                self.world_size,
                start_method=start_method,
                backend=backend if join else None,
                record=self._record,
                timeout_seconds=self._timeout_seconds,
                memory_bytes=self._limits.memory_bytes,
                nodes=nodes,
            )

    def run(
        self,
        function: Callable[..., T],
        *args: object,
        only: Collection[int] | int | None = None,
        timeout_seconds: float | None = None,
        quiet: bool | None = None,
    ) -> Results[T]:
        """Run `function(rank, world_size, *args)` on every rank, or on those in `only`, and return the results by rank.

        `only` is one rank or several, as in only=0 or only=[0, 2].
        `timeout_seconds` and `quiet` replace those of these Workers for this run.

        Raises:
            WorkerFailed: a rank raised an exception or died; the message names the rank and shows its line.
            WorkersStuck: the ranks hang, or don't return in time; the message shows where each one is.
        """
        __tracebackhide__ = True
        begin = time.monotonic()
        with launch_arguments.refused_plainly():
            launch_arguments.check_function(function, self.world_size, args)
            not_asked = launch_arguments.not_asked(only, self.world_size)
            timeout = launch_arguments.checked("timeout_seconds", timeout_seconds)
            if timeout is None:
                timeout = self._timeout_seconds
            is_quiet = self._quiet if quiet is None else launch_arguments.checked("quiet", quiet)
            world = self._world_at_work()
            buffers, sources = pack_call(function, args)
            if not self._one_run.acquire(blocking=False):
                raise RuntimeError(
                    "these Workers are running a function in another thread. Next: wait for it, or create more Workers"
                )
        try:
            if self._on is not None:
                ready_for_a_call(self._on)
            task = Task(sources, world.meeting(), why_no_prompt(), self._debug)
            with HeldInterrupts() as interrupts:
                return self._follow(world, Order(task, buffers, not_asked, timeout), is_quiet, begin, interrupts)
        finally:
            self._one_run.release()

    @property
    def nodes(self) -> tuple[str, ...]:
        """The node of each rank; "" is this machine."""
        return tuple(rank.process.node for rank in self._world.ranks) if self._world is not None else ()

    @property
    def why_closed(self) -> str:
        """Why the ranks have ended, or "" if they have not."""
        return self._world.why_gone if self._world is not None else ""

    def close(self) -> None:
        """Stop the ranks, and all processes that they left running."""
        if self._world is not None and not self._world.why_gone:
            with HeldInterrupts():
                self._world.close(self._heavy_imports)

    def __enter__(self) -> Workers:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, path: TracebackType | None
    ) -> None:
        self.close()

    def __del__(self) -> None:
        world = getattr(self, "_world", None)
        if world is not None and not world.why_gone:
            world.stop("they were no longer in use")
            world.release(self._heavy_imports)

    def _world_at_work(self) -> World:
        assert self._world is not None
        if self._world.why_gone:
            raise RuntimeError(f"these Workers are closed: {self._world.why_gone}. Next: create new ones")
        return self._world

    def _follow(
        self, world: World, order: Order, is_quiet: bool, begin: float, interrupts: HeldInterrupts
    ) -> Results[Any]:
        __tracebackhide__ = True
        for rank in world.ranks:
            rank.transcript = Transcript()
        call = LaunchedCall(world.ranks, order, self._limits)
        screen, live = screen_for_here(is_quiet), Live(self._live, self.world_size)  # while the ranks join
        stay: list[str] = []
        try:
            ending = call.until_the_end(screen, live, lambda: interrupts.noted)
            account = call.account()
            if ending is not Ending.RETURNED:
                are_idle = self._standing and ending is Ending.FAILED and call.all_are_idle()
                stay = self._after_a_failure(world, ending.value, are_idle)
        except NodeLost as loss:  # the ranks can't start
            world.stop(loss.headline)
            raise
        finally:
            call.drain()
            self._heavy_imports.update(*(recorded.heavy_imports for recorded in call.recorded.values()))
            for transcript in call.transcripts:
                transcript.finish()
            screen.finish(call.transcripts)
            if world.why_gone:
                world.release(self._heavy_imports)
        results = self._results(call, begin)
        live.finish(results)
        if ending is Ending.RETURNED:
            self._check_calls_match(world, call, results, account)
            return results
        if ending is Ending.FAILED:
            raise worker_failed(account, results).with_more(stay)
        if ending in (Ending.STUCK, Ending.OUT_OF_TIME):
            raise workers_stuck(account, results, ending is Ending.STUCK).with_more(stay)
        interrupts.noted = False
        kept = ["  The values that they logged with tell() are in sys.last_value.results."] if any(results.told) else []
        where = [ending.value, *where_each_is(account), *kept, *stay]
        raise Interrupted("\n".join(where), results)

    def _results(self, call: LaunchedCall, begin: float) -> Results[Any]:
        ranks = range(self.world_size)
        values = tuple(call.values.get(number, NO_VALUE) for number in ranks)
        lines = tuple(list(transcript.lines()) for transcript in call.transcripts)
        events = Events([call.recorded.get(rank) for rank in ranks])
        told = told_by_rank([call.told.get(number, ()) for number in ranks], events.origin)
        return Results(values, lines, time.monotonic() - begin, events, told)

    def _check_calls_match(self, world: World, call: LaunchedCall, results: Results[Any], account: Account) -> None:
        """All ranks returned; if their calls did not match, the results can't be trusted."""
        __tracebackhide__ = True
        recorded = [
            Recorded(0.0) if rank in account.not_asked else call.recorded.get(rank) for rank in range(self.world_size)
        ]
        if not self._record or not may_disagree(recorded) or (reason := first_fault(results.events)) is None:
            return
        error = not_to_be_trusted(account, results, reason)
        if not self._standing:
            self.close()
            raise error
        raise error.with_more(self._after_a_failure(world, "their calls did not match", are_idle=True))

    def _after_a_failure(self, world: World, why: str, are_idle: bool) -> list[str]:
        """Stop all ranks; or have ranks again, and return what to say about that."""
        if not self._standing:
            world.stop(why)
            return []
        try:
            if are_idle:
                world.meet_anew()
                return ["  The ranks keep their variables and join a new process group."]
            world.restart(why)
            return ["  All ranks were restarted, and their variables are lost."]
        except NodeLost as loss:
            world.stop(loss.headline)
            return ["  All ranks were stopped, and their variables are lost: a group needs all its nodes."]
